//! A refused add changes nothing.

use std::time::Duration;

use idempotence_test_servers::RedisServer;
use idempotent_redis::RedisStore;
use idempotent_redis::redis::cmd;
use idempotent_runtime::{Error, SeenSet};

use crate::seen::servers::{keys, private, send};
use crate::seen::{added, is_first, patient, set_of};

const HOUR: Duration = Duration::from_hours(1);

async fn set_of_user(server: &RedisServer, rules: &str) -> SeenSet {
    let rules: Vec<_> = rules.split(' ').collect();
    send::<()>(server, cmd("ACL").arg("SETUSER").arg("shop").arg(&rules)).await;
    let url = format!("redis://shop:s3cret@127.0.0.1:{}", server.port());
    let store = RedisStore::connect(&url).await.unwrap();
    set_of(&patient(store), HOUR)
}

#[tokio::test]
async fn the_documented_permissions_are_enough() {
    let (server, _) = private().await;
    let least = "on >s3cret ~idem:* +info +evalsha +eval +set +get +del";
    let seen = set_of_user(&server, least).await;
    let first = added(&seen, 42).await;
    assert!(!is_first(&seen, 42).await);
    assert!(first.take_back().await.unwrap());
}

#[tokio::test]
async fn a_key_of_another_program_is_not_changed() {
    let (server, store) = private().await;
    let seen = set_of(&patient(store), HOUR);
    added(&seen, 42).await;
    let [(key, _)] = &keys(&server).await[..] else {
        panic!("a member is one key");
    };
    send::<()>(&server, cmd("DEL").arg(key)).await;
    send::<()>(&server, cmd("HSET").arg(key).arg("their").arg("field")).await;
    let error = seen.first_time(&42).await.unwrap_err();
    assert!(matches!(error, Error::ForeignRecord(_)), "{error:?}");
    assert_eq!(keys(&server).await, [(key.clone(), -1)]);
}

#[tokio::test]
async fn a_full_server_still_finds_its_members() {
    let (server, store) = private().await;
    let seen = set_of(&patient(store), HOUR);
    let first = added(&seen, 42).await;
    let limit = async |bytes: &str| {
        let set = ["SET", "maxmemory", bytes];
        send::<()>(&server, cmd("CONFIG").arg(&set)).await;
    };
    limit("1").await;
    assert!(!is_first(&seen, 42).await);
    let error = seen.first_time(&43).await.unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
    assert!(first.take_back().await.unwrap());
    assert_eq!(keys(&server).await, []);
    let error = seen.first_time(&42).await.unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
    assert_eq!(keys(&server).await, []);
    limit("0").await;
    assert!(is_first(&seen, 43).await);
}
