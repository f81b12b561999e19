//! Batches in flight when their server is killed, or when their runtime ends.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::join_all;
use idempotence_test_servers::{Direction, ProxyFault, RedisProxy, RedisServer};
use idempotent_redis::RedisStore;
use idempotent_redis::redis::{self, cmd};
use idempotent_runtime::store::Claim;
use idempotent_runtime::{Error, Idempotency, Store, StoreError, StoreErrorKind};
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, sleep, timeout};

use crate::store::batches::gathering;
use crate::store::servers::{DONE, MAX_WAIT, TTL, kind, send};

const CALLERS: usize = 50;

/// When the server is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Killed {
    /// It was paused, so it has read no operation of the batch.
    BeforeItReads,
    /// It has applied the batch, and no reply arrived.
    BeforeItsReplies,
}

struct Servers {
    server: RedisServer,
    proxy: RedisProxy,
}

impl Servers {
    fn start() -> Self {
        let args = ["--appendonly", "yes", "--appendfsync", "always"];
        let server = RedisServer::start_with(args).unwrap();
        let proxy = RedisProxy::start(("127.0.0.1", server.port())).unwrap();
        Self { server, proxy }
    }

    /// From now on no reply arrives until the server is killed.
    fn hold_replies(&self, killed: Killed) {
        match killed {
            Killed::BeforeItReads => self.server.pause().unwrap(),
            Killed::BeforeItsReplies => {}
        }
        // This also counts requests from here on.
        self.proxy.plan(Direction::Reply, 0, ProxyFault::Silence);
    }

    /// Waits until so many operations are on their way.
    async fn wait_for_requests(&self, requests: usize) {
        let deadline = Instant::now() + MAX_WAIT;
        while self.proxy.traffic().requests < requests {
            assert!(Instant::now() < deadline, "{:?}", self.proxy.traffic());
            sleep(Duration::from_millis(1)).await;
        }
    }

    /// Waits until so many keys are stored.
    async fn wait_for_keys(&self, keys: usize) {
        let deadline = Instant::now() + MAX_WAIT;
        loop {
            let size = send(&self.server, &cmd("DBSIZE")).await;
            let size: usize = redis::from_redis_value(size).unwrap();
            if size >= keys {
                return;
            }
            assert!(Instant::now() < deadline, "{size}");
            sleep(Duration::from_millis(1)).await;
        }
    }

    async fn kill_and_restart(&self, killed: Killed) {
        self.wait_for_requests(CALLERS).await;
        if killed == Killed::BeforeItsReplies {
            self.wait_for_keys(CALLERS).await;
        }
        self.server.kill().unwrap();
        self.server.restart().unwrap();
    }
}

fn value(caller: usize) -> Bytes {
    Bytes::from(format!("caller {caller}"))
}

/// Claims each key by its own value, all at once.
async fn claim_all(store: &RedisStore, name: &str) -> Vec<Result<Claim, StoreError>> {
    let claims = (0..CALLERS).map(|caller| {
        let key = format!("{name}:{caller}");
        async move { store.claim(&key, &value(caller), TTL).await }
    });
    join_all(claims).await
}

/// Claims as [`claim_all`] until the store is connected again.
async fn claim_all_again(store: &RedisStore, name: &str) -> Vec<Claim> {
    let again = async {
        loop {
            let claims = claim_all(store, name).await;
            let claims: Result<Vec<_>, _> = claims.into_iter().collect();
            match claims {
                Ok(claims) => return claims,
                Err(_) => sleep(Duration::from_millis(20)).await,
            }
        }
    };
    timeout(MAX_WAIT, again).await.unwrap()
}

#[tokio::test]
async fn each_claim_of_a_batch_is_unknown_if_the_server_is_killed() {
    for killed in [Killed::BeforeItReads, Killed::BeforeItsReplies] {
        let servers = Servers::start();
        let store = gathering(&servers.proxy.url()).await;
        servers.hold_replies(killed);
        let claims = {
            let store = store.clone();
            tokio::spawn(async move { claim_all(&store, "killed").await })
        };
        servers.kill_and_restart(killed).await;
        let claims = timeout(MAX_WAIT, claims).await.unwrap().unwrap();
        assert_eq!(claims.len(), CALLERS);
        for claim in claims {
            assert_eq!(kind(claim), StoreErrorKind::Unknown, "{killed:?}");
        }
        // Whether its first claim was stored or not, each caller has the key now, and no other caller gets it.
        let again = claim_all_again(&store, "killed").await;
        assert!(again.iter().all(|claim| *claim == Claim::Claimed));
        for caller in 0..CALLERS {
            let claim = store.claim(&format!("killed:{caller}"), &DONE, TTL).await;
            assert_eq!(claim.unwrap(), Claim::Taken(value(caller)));
        }
    }
}

#[tokio::test]
async fn no_body_runs_twice_if_the_server_is_killed_with_the_claims_in_flight() {
    for killed in [Killed::BeforeItReads, Killed::BeforeItsReplies] {
        let servers = Servers::start();
        let store = gathering(&servers.proxy.url()).await;
        let idempotency = Idempotency::builder(store).deadline(MAX_WAIT);
        let idempotency = idempotency.build().unwrap();
        let bodies: Arc<Vec<AtomicUsize>> = Arc::new((0..CALLERS).map(|_| 0.into()).collect());
        let pay = |caller: usize| {
            let (idempotency, bodies) = (idempotency.clone(), Arc::clone(&bodies));
            async move {
                let call = idempotency.call("pay").key(&caller).ttl(TTL).replay();
                let body = async {
                    bodies[caller].fetch_add(1, Ordering::SeqCst);
                    Ok::<_, Error>(caller)
                };
                call.run(body).await
            }
        };
        servers.hold_replies(killed);
        let calls = tokio::spawn(join_all((0..CALLERS).map(pay)));
        servers.kill_and_restart(killed).await;
        let calls = timeout(2 * MAX_WAIT, calls).await.unwrap().unwrap();
        let later = join_all((0..CALLERS).map(pay)).await;
        for (caller, (first, second)) in calls.into_iter().zip(later).enumerate() {
            assert_eq!(first.unwrap(), caller, "{killed:?}");
            assert_eq!(second.unwrap(), caller, "{killed:?}");
        }
        for body in &*bodies {
            assert_eq!(body.load(Ordering::SeqCst), 1, "{killed:?}");
        }
    }
}

type Claiming = Pin<Box<dyn Future<Output = Result<Claim, StoreError>> + Send>>;

/// Starts claims without a task of the test, so that they outlive their runtime.
fn start_claims(store: &RedisStore, name: &'static str) -> Vec<Claiming> {
    let claims = (0..CALLERS).map(|caller| {
        let store = store.clone();
        let claim = async move {
            let key = format!("{name}:{caller}");
            store.claim(&key, &value(caller), TTL).await
        };
        let mut claim: Claiming = Box::pin(claim);
        assert!((&mut claim).now_or_never().is_none());
        claim
    });
    claims.collect()
}

fn runtime() -> Runtime {
    let mut builder = Builder::new_current_thread();
    builder.enable_all().build().unwrap()
}

#[test]
fn a_runtime_that_ends_with_a_batch_in_flight_leaves_the_store_to_others() {
    for connects_in_the_one_that_ends in [true, false] {
        let servers = Servers::start();
        let (ends, stays) = (runtime(), runtime());
        let connects = if connects_in_the_one_that_ends {
            &ends
        } else {
            &stays
        };
        let url = servers.proxy.url();
        let store = connects.block_on(gathering(&url));
        // Only counts requests: a paused server has no replies.
        servers.hold_replies(Killed::BeforeItReads);
        let sent = ends.block_on(async {
            let sent = start_claims(&store, "sent");
            if connects_in_the_one_that_ends {
                servers.wait_for_requests(CALLERS).await;
            }
            // The connection is driven by the other runtime.
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            sent
        });
        if !connects_in_the_one_that_ends {
            stays.block_on(servers.wait_for_requests(CALLERS));
        }
        // Their task does not begin before the runtime ends.
        let unsent = ends.block_on(async { start_claims(&store, "unsent") });
        drop(ends);
        servers.server.resume().unwrap();
        servers.proxy.close_connections();
        stays.block_on(async {
            for claim in sent {
                let claim = timeout(MAX_WAIT, claim).await.unwrap();
                assert_eq!(kind(claim), StoreErrorKind::Unknown);
            }
            for claim in unsent {
                let claim = timeout(MAX_WAIT, claim).await.unwrap();
                assert_eq!(kind(claim), StoreErrorKind::NotApplied);
            }
            let again = claim_all_again(&store, "sent").await;
            assert!(again.iter().all(|claim| *claim == Claim::Claimed));
            // What was not sent is not stored.
            for caller in 0..CALLERS {
                let claim = store.claim(&format!("unsent:{caller}"), &DONE, TTL).await;
                assert_eq!(claim.unwrap(), Claim::Claimed);
            }
        });
    }
}
