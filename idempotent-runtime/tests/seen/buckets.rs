//! On Redis members expire in buckets.

use std::time::{Duration, Instant};

use idempotence_test_servers::RedisServer;
use idempotent_runtime::Idempotency;
use idempotent_runtime::redis::redis::cmd;
use idempotent_runtime::store::{Bytes, Claim, Store, Swap};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::servers::{Bucket, MAX_WAIT, buckets, private, send};
use crate::{added, is_first, patient, set_in_shards, set_of};

const HOUR: Duration = Duration::from_hours(1);
/// A quarter of an hour, in milliseconds.
const WIDTH: i64 = 15 * 60 * 1000;
const KEY: &str = "idem:#seen:{orders.no}";

/// The range of the time to live of a bucket after a write.
fn is_right(remaining: i64) -> bool {
    (4 * WIDTH - 60_000..=5 * WIDTH).contains(&remaining)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_set_with_steady_traffic_neither_grows_without_limit_nor_is_forgotten_at_once() {
    const RETENTION: Duration = Duration::from_millis(800);
    const ALMOST: Duration = Duration::from_millis(740);
    const LASTS: Duration = Duration::from_secs(5);

    let (server, store) = private().await;
    let seen = set_of(&patient(store), RETENTION);
    let begun = Instant::now();
    let (mut number, mut most, mut checks) = (0_u32, 0, JoinSet::new());
    while begun.elapsed() < LASTS {
        let sent = Instant::now();
        assert!(is_first(&seen, number).await);
        let added = Instant::now();
        let seen = seen.clone();
        checks.spawn(async move {
            // Checks the member near its expiry. The check is skipped if this machine is too busy to check in time.
            sleep(ALMOST.saturating_sub(sent.elapsed())).await;
            let remembered = !is_first(&seen, number).await;
            (sent.elapsed() < RETENTION).then_some((number, remembered, added - sent))
        });
        number += 1;
        if number.is_multiple_of(50) {
            let buckets = buckets(&server).await;
            let expire = |bucket: &Bucket| (0..=1000).contains(&bucket.remaining);
            assert!(buckets.iter().all(expire), "{buckets:?}");
            assert!(buckets.len() <= 6, "{buckets:?}");
            let now = buckets.iter().map(|bucket| bucket.members).sum();
            most = most.max(now);
        }
        sleep(Duration::from_millis(2)).await;
    }
    let checked: Vec<_> = checks.join_all().await.into_iter().flatten().collect();
    let forgotten: Vec<_> = checked.iter().filter(|(_, there, _)| !there).collect();
    assert!(forgotten.is_empty(), "{forgotten:?} of {}", checked.len());
    let number = number as usize;
    assert!(checked.len() > number / 10, "{} of {number}", checked.len());
    // At most the members of one and a quarter retentions are stored, out of more than six retentions.
    assert!(most < number / 2, "{most} of {number} at once");

    let deadline = Instant::now() + MAX_WAIT;
    while send::<usize>(&server, &cmd("DBSIZE")).await > 0 {
        assert!(Instant::now() < deadline, "the buckets must expire");
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_bucket_lasts_as_long_as_its_last_member_and_is_not_renewed_by_the_next() {
    let (server, store) = private().await;
    let seen = set_of(&patient(store), HOUR);
    added(&seen, 0).await;
    let before = expiries(&server).await;
    for number in 1..50 {
        added(&seen, number).await;
    }
    let after = expiries(&server).await;
    // A second bucket exists if a quarter of an hour has just ended.
    assert!(after.starts_with(&before), "{before:?} {after:?}");
    for bucket in buckets(&server).await {
        assert!(is_right(bucket.remaining), "{bucket:?}");
    }
}

async fn expiries(server: &RedisServer) -> Vec<i64> {
    let (mut expiries, mut all) = (Vec::new(), buckets(server).await);
    all.sort_by_key(|bucket| bucket.remaining);
    for bucket in all {
        expiries.push(send(server, cmd("PEXPIRETIME").arg(&bucket.key)).await);
    }
    expiries
}

#[tokio::test]
async fn an_add_sent_again_finds_its_member_in_an_earlier_bucket() {
    let (server, store) = private().await;
    let retention = Duration::from_secs(4);
    let (mine, yours) = (Bytes::from("mine"), Bytes::from("yours"));
    let add = async |owner| {
        store
            .set_insert("{set}", b"member", owner, retention)
            .await
            .unwrap()
    };
    assert_eq!(add(&mine).await, Claim::Claimed);
    let first = buckets(&server).await;
    // Continue until a new member is in another bucket.
    let mut other = 0_u32;
    while buckets(&server).await.len() < 2 {
        let member = other.to_le_bytes();
        store
            .set_insert("{set}", &member, &mine, retention)
            .await
            .unwrap();
        other += 1;
    }
    assert_eq!(
        add(&mine).await,
        Claim::Claimed,
        "the second add finds its own member"
    );
    assert_eq!(add(&yours).await, Claim::Taken(mine.clone()));
    let members: usize = buckets(&server).await.iter().map(|b| b.members).sum();
    assert_eq!(members, other as usize + 1, "the member is stored once");
    let take_out = async |owner| {
        let out = store.set_remove("{set}", b"member", owner, retention);
        out.await.unwrap()
    };
    assert_eq!(take_out(&yours).await, Swap::Other(mine.clone()));
    assert_eq!(take_out(&mine).await, Swap::Done, "{first:?}");
    assert_eq!(add(&yours).await, Claim::Claimed);
}

/// A server whose clock was set back has buckets with future times, in any slot.
#[tokio::test]
async fn no_member_is_forgotten_early_after_the_clock_was_set_back() {
    for slot in 0..6 {
        let (server, store) = private().await;
        let seen = set_of(&patient(store), HOUR);
        let first = added(&seen, 42).await;
        let [bucket] = &buckets(&server).await[..] else {
            panic!("there must be one bucket");
        };
        let moved = format!("{KEY}:{slot}");
        if moved != bucket.key {
            let rename = cmd("RENAME").arg(&bucket.key).arg(&moved).clone();
            send::<()>(&server, &rename).await;
        }
        let later = cmd("PEXPIRE")
            .arg(&moved)
            .arg(bucket.remaining + 2 * WIDTH)
            .clone();
        send::<()>(&server, &later).await;
        assert!(!is_first(&seen, 42).await, "slot {slot}");
        assert!(first.take_back().await.unwrap(), "slot {slot}");
    }
}

#[tokio::test]
async fn a_bucket_expires_in_time_even_if_the_clock_was_wrong() {
    let (server, store) = private().await;
    let seen = set_of(&patient(store), HOUR);
    added(&seen, 0).await;
    let all = buckets(&server).await;
    let key = &all[0].key;
    let wrong = [
        cmd("PEXPIRE").arg(key).arg(100 * WIDTH).clone(),
        cmd("PEXPIRE").arg(key).arg(WIDTH).clone(),
        cmd("PERSIST").arg(key).clone(),
    ];
    for (number, wrong) in (1..).zip(wrong) {
        send::<()>(&server, &wrong).await;
        added(&seen, number).await;
        let all = buckets(&server).await;
        let written = all.iter().filter(|bucket| is_right(bucket.remaining));
        assert!(written.count() >= 1, "{all:?}");
        // There are two buckets only if a quarter of an hour has just ended.
        assert!(all.len() > 1 || is_right(all[0].remaining), "{all:?}");
        assert!(!is_first(&seen, 0).await);
    }
}

#[tokio::test]
async fn the_server_stores_the_fingerprint_and_eight_bytes() {
    let (server, store) = private().await;
    let builder = Idempotency::builder(store).prefix("shop");
    let idempotency = builder.build().unwrap();
    added(&set_of(&idempotency, HOUR), "s3cret").await;
    added(&set_in_shards(&idempotency, HOUR, 16), "s3cret").await;
    let mut all = buckets(&server).await;
    all.sort_by_key(|bucket| bucket.key.len());
    assert!(all[0].key.starts_with("shop:#seen:{orders.no}:"), "{all:?}");
    assert!(all[1].key.starts_with("shop:#seen:{orders.no/"), "{all:?}");
    for bucket in all {
        let kept: Vec<(Vec<u8>, Vec<u8>)> = send(&server, cmd("HGETALL").arg(&bucket.key)).await;
        let lengths: Vec<_> = kept.iter().map(|(m, o)| (m.len(), o.len())).collect();
        assert_eq!(lengths, [(16, 8)]);
        assert!(
            bucket
                .key
                .ends_with(|slot: char| ('0'..'6').contains(&slot))
        );
    }
}

#[tokio::test]
async fn each_operation_is_one_round_trip() {
    let (server, store) = private().await;
    let seen = set_of(&patient(store), HOUR);
    // Loads the scripts.
    added(&seen, 0).await.take_back().await.unwrap();
    let sent = async || {
        let info: String = send(&server, cmd("INFO").arg("commandstats")).await;
        let calls = |name: &str| {
            let line = info.lines().find(|line| line.starts_with(name));
            let calls = line.and_then(|line| line.split(['=', ',']).nth(1)?.parse().ok());
            calls.unwrap_or(0_usize)
        };
        calls("cmdstat_evalsha:") + calls("cmdstat_eval:")
    };
    let before = sent().await;
    let first = added(&seen, 42).await;
    assert_eq!(sent().await, before + 1);
    assert!(!is_first(&seen, 42).await);
    assert_eq!(sent().await, before + 2);
    assert!(first.take_back().await.unwrap());
    assert_eq!(sent().await, before + 3);
}

#[tokio::test]
async fn an_add_into_the_current_bucket_writes_once_and_does_not_ask_for_the_time() {
    let (server, store) = private().await;
    // So long that no bucket ends during the test.
    let seen = set_of(&patient(store), HOUR * 10_000);
    // Makes the bucket.
    added(&seen, 0).await;
    send::<()>(&server, cmd("CONFIG").arg("RESETSTAT")).await;
    for number in 1..=20 {
        added(&seen, number).await;
    }
    let info: String = send(&server, cmd("INFO").arg("commandstats")).await;
    let calls = |name: &str| {
        let line = info
            .lines()
            .find_map(|line| line.strip_prefix(&format!("cmdstat_{name}:calls=")));
        line.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
    };
    let commands = ["evalsha", "hget", "pttl", "hset", "time", "pexpireat"];
    assert_eq!(commands.map(calls), [20, 120, 20, 20, 0, 0], "{info}");
}
