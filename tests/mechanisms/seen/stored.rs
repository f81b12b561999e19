//! What a set stores on Redis.

use std::time::Duration;

use idempotent_redis::redis::cmd;
use idempotent_runtime::Idempotency;

use crate::seen::servers::{MAX_WAIT, keys, private, send};
use crate::seen::{added, is_first, patient, set_of};

const HOUR: Duration = Duration::from_hours(1);
const MILLIS: i64 = 3_600_000;

#[tokio::test]
async fn a_member_is_one_key_with_its_fingerprint_and_an_owner_of_eight_bytes() {
    let (server, store) = private().await;
    let builder = Idempotency::builder(store).prefix("shop");
    let handle = builder.deadline(MAX_WAIT).build().unwrap();
    let seen = set_of(&handle, HOUR);
    added(&seen, "s3cret").await;
    let [(key, remaining)] = &keys(&server).await[..] else {
        panic!("a member is one key");
    };
    let digits = key.strip_prefix("shop:#seen:orders.no:").unwrap();
    assert_eq!(digits.len(), 32, "{key}");
    assert!((1..=MILLIS).contains(remaining), "{remaining}");
    let owner: Vec<u8> = send(&server, cmd("GET").arg(key)).await;
    assert_eq!(owner.len(), 8);
}

#[tokio::test]
async fn a_member_that_is_seen_again_does_not_live_longer() {
    let (server, store) = private().await;
    let seen = set_of(&patient(store), HOUR);
    added(&seen, 42).await;
    let key = keys(&server).await.remove(0).0;
    let ends = cmd("PEXPIRETIME").arg(&key).clone();
    let before: i64 = send(&server, &ends).await;
    assert!(!is_first(&seen, 42).await);
    assert_eq!(send::<i64>(&server, &ends).await, before);
}

#[tokio::test]
async fn each_operation_is_one_command() {
    let (server, store) = private().await;
    let seen = set_of(&patient(store), HOUR);
    // Loads the script of the removal.
    added(&seen, 0).await.take_back().await.unwrap();
    send::<()>(&server, cmd("CONFIG").arg("RESETSTAT")).await;
    let first = added(&seen, 42).await;
    assert!(!is_first(&seen, 42).await);
    assert!(first.take_back().await.unwrap());
    let info: String = send(&server, cmd("INFO").arg("commandstats")).await;
    let calls = |name: &str| {
        let start = format!("cmdstat_{name}:calls=");
        let line = info.lines().find_map(|line| line.strip_prefix(&start));
        line.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
    };
    assert_eq!(["set", "evalsha", "eval"].map(calls), [2, 1, 0], "{info}");
}
