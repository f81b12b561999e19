//! A million members, measured: `cargo test -p idempotence-tests --release --test mechanisms -- --ignored --nocapture million`

use std::fmt::Write as _;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use idempotence_test_servers::RedisServer;
use idempotent_redis::redis::{Script, cmd};
use idempotent_runtime::Hint;
use tokio::task::JoinSet;

use crate::bloom::server::{ask, info, store_on};
use crate::bloom::{DAY, patient};
use support::redis_client::connection_to;

const MEMBERS: u64 = 1_000_000;
const PROBES: u64 = 20_000;
const CLIENTS: u64 = 32;

/// A filter made by hand for comparison: one bitmap for a million members, without an expiry.
const BY_HAND: &str = "local seen = 1
for at = 1, #ARGV do
  if redis.call('SETBIT', KEYS[1], ARGV[at], 1) == 0 then seen = 0 end
end
return seen";

/// Marks all members, and returns how many were perhaps seen.
async fn mark_all<F>(
    members: std::ops::Range<u64>,
    mark: impl Fn(u64) -> F + Clone + Send + 'static,
) -> u64
where
    F: Future<Output = bool> + Send,
{
    let seen = Arc::new(AtomicU64::new(0));
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let (members, mark, seen) = (members.clone(), mark.clone(), Arc::clone(&seen));
        clients.spawn(async move {
            for member in members.skip(usize::try_from(client).unwrap()).step_by(32) {
                seen.fetch_add(u64::from(mark(member).await), Ordering::Relaxed);
            }
        });
    }
    clients.join_all().await;
    seen.load(Ordering::Relaxed)
}

#[expect(clippy::cast_precision_loss, reason = "less than 2^52")]
async fn measure<F>(
    server: &RedisServer,
    what: &str,
    error_rate: f64,
    mark: impl Fn(u64) -> F + Clone + Send + 'static,
) -> f64
where
    F: Future<Output = bool> + Send,
{
    let memory = info(server, "memory", "used_memory", "").await;
    mark(u64::MAX).await;
    ask::<()>(server, cmd("CONFIG").arg("RESETSTAT")).await;
    mark_all(0..MEMBERS, mark.clone()).await;
    let usec = info(server, "commandstats", "cmdstat_evalsha", "usec_per_call").await;
    let memory = info(server, "memory", "used_memory", "").await - memory;
    let wrong = mark_all(MEMBERS..MEMBERS + PROBES, mark.clone()).await as f64 / PROBES as f64;
    ask::<()>(server, cmd("CONFIG").arg("RESETSTAT")).await;
    assert_eq!(mark_all(0..100_000, mark).await, 100_000);
    let again = info(server, "commandstats", "cmdstat_evalsha", "usec_per_call").await;
    let mut text = String::new();
    write!(
        text,
        "{what}, {} %: wrong {:.3} %, {:.1} bits a member, {usec:.1} µs of the server a new member, {again:.1} µs a \
         marked one",
        error_rate * 100.0,
        wrong * 100.0,
        memory * 8.0 / MEMBERS as f64,
    )
    .unwrap();
    eprintln!("{text}");
    wrong
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a million members"]
async fn the_error_rate_holds_for_a_million_members() {
    for error_rate in [0.01, 0.001] {
        let server = RedisServer::start().unwrap();
        let idempotency = patient(store_on(&server).await);
        let bloom = idempotency
            .bloom("million", MEMBERS, error_rate, DAY)
            .unwrap();
        let hint = move |member: u64| {
            let bloom = bloom.clone();
            async move { bloom.hint(&member).await.unwrap() == Hint::PerhapsSeen }
        };
        let wrong = measure(&server, "the library", error_rate, hint).await;
        assert!(wrong < error_rate * 1.3, "{wrong}");

        ask::<()>(&server, &cmd("FLUSHALL")).await;
        let connection = connection_to(server.unix_url()).await;
        let script = Arc::new(Script::new(BY_HAND));
        let (bits, hashes) = if error_rate > 0.005 {
            (9_585_059, 7)
        } else {
            (14_377_588, 10)
        };
        let by_hand = move |member: u64| {
            let (mut connection, script) = (connection.clone(), Arc::clone(&script));
            async move {
                let mut call = script.key("by_hand");
                let (mut at, step) = (mix(member), mix(!member));
                for _ in 0..hashes {
                    call.arg(at % bits);
                    at = at.wrapping_add(step);
                }
                call.invoke_async::<bool>(&mut connection).await.unwrap()
            }
        };
        measure(&server, "one bitmap by hand", error_rate, by_hand).await;
    }
}

/// The finalizer of `SplitMix64`.
fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
