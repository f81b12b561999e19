//! Filters of the server's module: the module of Redis 8, or a module loaded into an older server or into Valkey.

use std::env;
use std::time::Duration;

use idempotence::testkit::conformance;
use idempotence_test_servers::RedisServer;
use idempotent_redis::RedisStore;
use idempotent_redis::redis::cmd;
use idempotent_runtime::Hint;

use crate::bloom::server::{ask, calls, keys, store_on};
use crate::bloom::table::Table;
use crate::bloom::trouble::order;
use crate::bloom::{DAY, bloom, patient, perhaps_seen};

const WHY: &str = "REDIS_BLOOM names the module";

fn server() -> RedisServer {
    let module = env::var("REDIS_BLOOM").expect(WHY);
    RedisServer::start_with(["--loadmodule", &module]).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a module: REDIS_BLOOM=/path/to/redisbloom.so"]
async fn a_store_with_the_module_passes_the_suite() {
    let server = server();
    let failures = conformance::failures(async || store_on(&server).await).await;
    assert_eq!(failures, []);
    assert!(calls(&server, "bf.add").await > 2000.0);
    assert!(calls(&server, "getbit").await < 1.0);
}

#[tokio::test]
#[ignore = "needs a module: REDIS_BLOOM=/path/to/redisbloom.so"]
async fn the_module_holds_the_error_rate_and_a_full_filter_answers_perhaps_seen_to_everything() {
    let server = server();
    let (bloom, table) = (bloom(store_on(&server).await, 20_000), Table::default());
    perhaps_seen(&bloom, 0..19_000).await;
    let fill = bloom.stats().await.unwrap().unwrap();
    assert!(!fill.is_full() && fill.error_rate < 0.01, "{fill}");
    let wrong = perhaps_seen(&bloom, 1_000_000..1_000_500).await;
    assert!(wrong < 7, "{wrong}");
    perhaps_seen(&bloom, 19_000..22_000).await;
    let fill = bloom.stats().await.unwrap().unwrap();
    assert!(fill.is_full() && fill.error_rate > 0.99, "{fill}");
    assert_eq!(perhaps_seen(&bloom, 2_000_000..2_000_100).await, 100);
    assert_eq!(perhaps_seen(&bloom, 0..22_000).await, 22_000);
    assert_eq!(order(&bloom, &table, 3_000_000).await, (true, true));
}

#[tokio::test]
#[ignore = "needs a module: REDIS_BLOOM=/path/to/redisbloom.so"]
async fn a_member_of_a_full_bucket_is_perhaps_seen_also_in_the_next_buckets() {
    let server = server();
    let idempotency = patient(store_on(&server).await);
    let retention = Duration::from_secs(2);
    let bloom = idempotency.bloom("orders.no", 10, 0.01, retention).unwrap();
    perhaps_seen(&bloom, 0..100).await;
    let marked = tokio::time::Instant::now();
    let mut asked = 0;
    while marked.elapsed() < retention * 9 / 10 {
        // Each member is marked only once.
        if asked < 100 {
            assert_eq!(
                bloom.hint(&asked).await.unwrap(),
                Hint::PerhapsSeen,
                "{asked}"
            );
            asked += 1;
        }
        tokio::time::sleep(Duration::from_millis(15)).await;
    }
    for key in keys(&server).await {
        let remaining: i64 = ask(&server, cmd("PTTL").arg(&key)).await;
        assert!(
            remaining == -2 || (0..=3000).contains(&remaining),
            "{key}: {remaining}"
        );
    }
}

#[tokio::test]
#[ignore = "needs a module: REDIS_BLOOM=/path/to/redisbloom.so"]
async fn a_user_who_may_not_use_the_module_has_bitmaps() {
    let server = server();
    let commands = ["bf.exists", "bf.card", "bf.reserve", "bf.add"];
    for (number, missing) in commands.into_iter().enumerate() {
        let user = format!("user{number}");
        let mut rules = cmd("ACL");
        rules
            .arg("SETUSER")
            .arg(&user)
            .arg(&["on", ">s3cret", "~*", "+@all"]);
        ask::<()>(&server, rules.arg(format!("-{missing}"))).await;
        let url = format!("redis://{user}:s3cret@127.0.0.1:{}", server.port());
        let idempotency = patient(RedisStore::connect(&url).await.unwrap());
        let name = format!("orders.{number}");
        let bloom = idempotency.bloom(name, 1000, 0.01, DAY).unwrap();
        assert_eq!(perhaps_seen(&bloom, 0..100).await, 0, "{missing}");
        assert_eq!(perhaps_seen(&bloom, 0..100).await, 100, "{missing}");
        for key in keys(&server).await {
            let remaining: i64 = ask(&server, cmd("PTTL").arg(&key)).await;
            assert!(remaining > 0, "{key}: {remaining}");
        }
    }
}

#[tokio::test]
#[ignore = "needs a module: REDIS_BLOOM=/path/to/redisbloom.so"]
async fn a_module_without_memory_makes_no_filter() {
    let server = server();
    let (bloom, table) = (bloom(store_on(&server).await, 1000), Table::default());
    ask::<()>(&server, cmd("CONFIG").arg("SET").arg("maxmemory").arg(1)).await;
    bloom.hint(&42).await.unwrap_err();
    assert_eq!(order(&bloom, &table, 42).await, (true, true));
    assert!(keys(&server).await.is_empty());
}
