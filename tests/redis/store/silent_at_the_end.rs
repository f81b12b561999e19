//! A server that is silent when a body ends, for longer than the lease.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use idempotence_test_servers::RedisServer;
use idempotent_redis::RedisStore;
use idempotent_runtime::{Error, Idempotency};

const TTL: Duration = Duration::from_mins(10);
const LEASE: Duration = Duration::from_secs(3);
/// The claim has expired when the first caller gets its success.
const DEADLINE: Duration = Duration::from_secs(5);

async fn connect(server: &RedisServer) -> Idempotency {
    let store = RedisStore::connect(&server.url()).await.unwrap();
    let builder = Idempotency::builder(store).deadline(DEADLINE);
    builder.build().unwrap()
}

#[tokio::test]
async fn a_process_repeats_no_success_that_a_frozen_server_has_missed() {
    let server = RedisServer::start().unwrap();
    let (here, elsewhere) = (connect(&server).await, connect(&server).await);
    let bodies = AtomicUsize::new(0);
    let pay = async |process: &Idempotency| {
        let call = process.call("orders.pay").key(&1_u64).ttl(TTL).lease(LEASE);
        let body = async {
            if bodies.fetch_add(1, Ordering::Relaxed) == 0 {
                server.pause().unwrap();
            }
            Ok::<_, Error>(7_u32)
        };
        call.replay().run(body).await.unwrap()
    };
    assert_eq!(pay(&here).await, 7);
    assert_eq!(pay(&here).await, 7, "the server is frozen");
    server.resume().unwrap();
    assert_eq!(pay(&here).await, 7, "the claim has expired");
    here.drain(Duration::from_mins(1)).await.unwrap();
    assert_eq!(pay(&elsewhere).await, 7, "the success is recorded");
    assert_eq!(bodies.load(Ordering::Relaxed), 1);
}
