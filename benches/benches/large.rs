//! How much slower small calls are while other calls of the handle replay large results on the same connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use idempotence::store::redis::redis::Client;
use idempotence::{Error, Idempotency, RedisConnection, RedisStore};
use idempotence_test_servers::RedisServer;
use tokio::task::JoinSet;

const TTL: Duration = Duration::from_secs(600);
const LAP: Duration = Duration::from_secs(5);
/// The interval between small calls.
const PACE: Duration = Duration::from_millis(5);

#[tokio::main]
async fn main() {
    let server = RedisServer::start().expect("a server");
    println!(
        "| result | clients | connection | small calls | median | p99 | worst | unavailable | replays/s | of them unavailable |"
    );
    println!("| ---: | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    for size in [64_000, 1_000_000] {
        for clients in [0, 4, 16, 64] {
            // The store on a connection of the caller has only this connection.
            let client = Client::open(server.url()).expect("a URL");
            let only = RedisStore::from_connection(RedisConnection::new(client)).await;
            let store = only.expect("a store");
            lap("one", &Idempotency::new(store), size, clients).await;
            let store = RedisStore::connect(&server.url()).await.expect("a store");
            lap("its own", &Idempotency::new(store), size, clients).await;
        }
    }
}

async fn lap(connection: &str, handle: &Idempotency, size: usize, clients: usize) {
    let ends = Arc::new(AtomicBool::new(false));
    let (replays, refused) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut replaying = JoinSet::new();
    for client in 0..clients {
        let handle = handle.clone();
        let key = format!("{connection} {size} {clients} {client}");
        let _ = replay(&handle, &key, size).await;
        let (ends, replays, refused) = (ends.clone(), replays.clone(), refused.clone());
        replaying.spawn(async move {
            while !ends.load(Ordering::Relaxed) {
                match replay(&handle, &key, size).await {
                    Ok(text) => assert_eq!(text.len(), size),
                    Err(error) => {
                        assert_eq!(error.code(), "store_unavailable", "{error}");
                        refused.fetch_add(1, Ordering::Relaxed);
                    }
                }
                replays.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    let begun = Instant::now();
    let mut small = JoinSet::new();
    let mut ticks = tokio::time::interval(PACE);
    for number in 0.. {
        ticks.tick().await;
        if begun.elapsed() > LAP {
            break;
        }
        let (handle, connection) = (handle.clone(), connection.to_owned());
        small.spawn(async move {
            let begun = Instant::now();
            let call = handle
                .call("bench.small")
                .key(&(connection, size, clients, number))
                .ttl(TTL);
            let outcome = call.run(async { Ok::<_, Error>(()) }).await;
            (begun.elapsed(), outcome.is_err())
        });
    }
    let calls = small.join_all().await;
    let took = begun.elapsed();
    ends.store(true, Ordering::Relaxed);
    replaying.join_all().await;
    let unavailable = calls.iter().filter(|(_, refused)| *refused).count();
    let mut times: Vec<_> = calls.iter().map(|(time, _)| *time).collect();
    times.sort_unstable();
    let at = |share: usize| times[(times.len() - 1) * share / 100];
    println!(
        "| {} kB | {clients} | {connection} | {} | {:.1?} | {:.1?} | {:.1?} | {unavailable} | {:.0} | {} |",
        size / 1000,
        times.len(),
        at(50),
        at(99),
        at(100),
        replays.load(Ordering::Relaxed) as f64 / took.as_secs_f64(),
        refused.load(Ordering::Relaxed),
    );
}

async fn replay(handle: &Idempotency, key: &str, size: usize) -> Result<String, Error> {
    let call = handle.call("bench.large").key(key).ttl(TTL).replay();
    call.run(async move { Ok("a".repeat(size)) }).await
}
