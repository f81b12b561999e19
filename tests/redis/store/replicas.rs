//! Writes that wait for replicas, and the durability of a store.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use idempotence_test_servers::{Port, RedisSentinels, RedisServer};
use idempotent_redis::redis::aio::MultiplexedConnection;
use idempotent_redis::redis::cluster::ClusterClient;
use idempotent_redis::redis::{self, Cmd, Value, cmd};
use idempotent_redis::{RedisOptions, RedisStore};
use idempotent_runtime::fingerprint::Fingerprint;
use idempotent_runtime::store::{Claim, Swap};
use idempotent_runtime::{Durability, Error, Idempotency, MemoryStore, Store, StoreErrorKind};

use tokio::sync::OnceCell;

use crate::store::servers::{
    DONE, MAX_WAIT, TTL, VALUE, chain, clients, connection_to, key, kind, send, subscribed,
    url_of_user,
};

/// A server with one replica in sync.
pub(crate) struct Pair {
    pub(crate) primary: RedisServer,
    pub(crate) replica: RedisServer,
}

impl Pair {
    pub(crate) async fn start() -> Self {
        // By default a server waits five seconds for more replicas.
        let primary = RedisServer::start_with(["--repl-diskless-sync-delay", "0"]).unwrap();
        let port = primary.port().to_string();
        let replica = RedisServer::start_with(["--replicaof", "127.0.0.1", &port]).unwrap();
        has_caught_up(&primary).await;
        Self { primary, replica }
    }

    /// A store that waits for the replica.
    pub(crate) async fn store(&self, timeout: &str) -> RedisStore {
        let url = format!(
            "{}?replicas=1&replica_timeout={timeout}",
            self.primary.url()
        );
        RedisStore::connect(&url).await.unwrap()
    }

    async fn replica_has(&self, key: &str) -> Value {
        send(&self.replica, cmd("GET").arg(key)).await
    }
}

/// Long enough for the answer of a replica, even on a slow machine.
const LONG: &str = "20s";
const SHORT: &str = "50ms";

/// A pair for the suites.
async fn shared_pair() -> &'static Pair {
    static SHARED: OnceCell<Pair> = OnceCell::const_new();

    SHARED.get_or_init(Pair::start).await
}

/// A store that waits for a replica.
pub(crate) async fn shared_with_replica() -> RedisStore {
    shared_pair().await.store(LONG).await
}

/// The same store on the caller's connection.
pub(crate) async fn shared_with_replica_on_a_connection() -> RedisStore<MultiplexedConnection> {
    let connection = connection_to(&shared_pair().await.primary).await;
    patient().from_connection(connection).await.unwrap()
}

pub(crate) fn patient() -> RedisOptions {
    let options = RedisStore::options().replicas(1);
    options.replica_timeout(Duration::from_secs(20))
}

async fn has_caught_up(primary: &RedisServer) {
    info_says(primary, "state=online").await;
    let mut connection = connection_to(primary).await;
    let deadline = Instant::now() + MAX_WAIT;
    loop {
        let mut wait = redis::pipe();
        wait.cmd("SET").arg("caught up").arg("").ignore();
        // Shorter than the client's response timeout.
        wait.cmd("WAIT").arg(1).arg(100);
        let (have,): (u32,) = wait.query_async(&mut connection).await.unwrap();
        if have == 1 {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "the replica does not acknowledge"
        );
    }
}

async fn info_says(server: &RedisServer, what: &str) {
    says(server, cmd("INFO").arg("replication"), |info| {
        info.contains(what)
    })
    .await;
}

async fn says(server: &RedisServer, question: &Cmd, enough: impl Fn(&str) -> bool) {
    let mut connection = connection_to(server).await;
    let deadline = Instant::now() + MAX_WAIT;
    loop {
        let answer: String = question.query_async(&mut connection).await.unwrap();
        if enough(&answer) {
            return;
        }
        assert!(Instant::now() < deadline, "{answer}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Polls until a `WAIT` blocks a connection.
async fn waits(server: &RedisServer) {
    says(server, cmd("CLIENT").arg("LIST"), |clients| {
        clients.contains(" flags=b ")
    })
    .await;
}

#[tokio::test]
async fn an_acknowledged_write_is_in_the_replica() {
    let pair = Pair::start().await;
    let by_connection = patient()
        .from_connection(connection_to(&pair.primary).await)
        .await
        .unwrap();
    let stores: [&dyn Store; 2] = [&pair.store(LONG).await, &by_connection];
    for store in stores {
        for _ in 0..50 {
            let key = key();
            store.claim(&key, &VALUE, TTL).await.unwrap();
            assert_eq!(pair.replica_has(&key).await, redis_value("value"));
            store.replace(&key, &VALUE, &DONE, TTL).await.unwrap();
            assert_eq!(pair.replica_has(&key).await, redis_value("done"));
            store.exchange(&key, &DONE, &VALUE).await.unwrap();
            assert_eq!(pair.replica_has(&key).await, redis_value("value"));
        }
    }
}

fn redis_value(text: &str) -> Value {
    Value::BulkString(text.into())
}

#[tokio::test]
async fn a_write_with_too_few_replicas_is_an_error_and_remains() {
    let pair = Pair::start().await;
    let (store, patient) = (pair.store(SHORT).await, pair.store(LONG).await);
    for key in ["held", "done"] {
        patient.claim(key, &VALUE, TTL).await.unwrap();
    }
    pair.replica.pause().unwrap();
    let refused = store.claim("key", &VALUE, TTL).await.unwrap_err();
    assert_eq!(refused.kind(), StoreErrorKind::Unknown);
    let text = chain(&refused);
    assert!(
        text.contains("0 of 1 replicas have it after 50ms"),
        "{text}"
    );
    assert_eq!(store.get("key").await.unwrap().unwrap().value, VALUE);
    let renewal = store.replace("held", &VALUE, &VALUE, TTL).await;
    assert_eq!(kind(renewal), StoreErrorKind::Unknown);
    let completion = store.replace("done", &VALUE, &DONE, TTL).await;
    assert_eq!(kind(completion), StoreErrorKind::Unknown);
    let exchange = store.exchange("done", &DONE, &VALUE).await;
    assert_eq!(kind(exchange), StoreErrorKind::Unknown);

    // Refusals and removals do not wait for replicas.
    let claim = store.claim("key", &DONE, TTL).await.unwrap();
    assert_eq!(claim, Claim::Taken(VALUE));
    let swap = store.replace("none", &VALUE, &DONE, TTL).await.unwrap();
    assert_eq!(swap, Swap::Absent);
    let swap = store.replace("key", &DONE, &DONE, TTL).await.unwrap();
    assert_eq!(swap, Swap::Other(VALUE));
    let swap = store.exchange("key", &DONE, &DONE).await.unwrap();
    assert_eq!(swap, Swap::Other(VALUE));
    let swap = store.exchange("none", &VALUE, &DONE).await.unwrap();
    assert_eq!(swap, Swap::Absent);
    for key in ["key", "held"] {
        assert_eq!(store.remove(key, &VALUE).await.unwrap(), Swap::Done);
        assert_eq!(store.get(key).await.unwrap(), None);
    }

    pair.replica.resume().unwrap();
    let claim = patient.claim("key", &VALUE, TTL).await.unwrap();
    assert_eq!(claim, Claim::Claimed);
}

/// From Redis 7.2 on, a `WAIT` on a connection without writes returns at once.
#[tokio::test]
async fn a_repeated_write_still_waits_for_replicas() {
    let pair = Pair::start().await;
    let (store, patient) = (pair.store(SHORT).await, pair.store(LONG).await);
    for key in ["held", "token"] {
        patient.claim(key, &VALUE, TTL).await.unwrap();
    }
    pair.replica.pause().unwrap();
    let unknown = StoreErrorKind::Unknown;
    assert_eq!(kind(store.claim("key", &VALUE, TTL).await), unknown);
    let completion = store.replace("held", &VALUE, &DONE, TTL).await;
    assert_eq!(kind(completion), unknown);
    let exchange = store.exchange("token", &VALUE, &DONE).await;
    assert_eq!(kind(exchange), unknown);
    for _ in 0..3 {
        // Another store has other connections, which have not written the record.
        let again = pair.store(SHORT).await;
        assert_eq!(kind(again.claim("key", &VALUE, TTL * 2).await), unknown);
        let completion = again.replace("held", &VALUE, &DONE, TTL * 2).await;
        assert_eq!(kind(completion), unknown);
        let exchange = again.exchange("token", &VALUE, &DONE).await;
        assert_eq!(kind(exchange), unknown);
    }
    for key in ["key", "held", "token"] {
        let remaining = store.get(key).await.unwrap().unwrap().ttl.unwrap();
        assert!(
            remaining <= TTL,
            "the time to live was set anew: {remaining:?}"
        );
    }
    pair.replica.resume().unwrap();
    let again = pair.store(LONG).await;
    let claim = again.claim("key", &VALUE, TTL).await.unwrap();
    assert_eq!(claim, Claim::Claimed);
    let completion = again.replace("held", &VALUE, &DONE, TTL).await;
    assert_eq!(completion.unwrap(), Swap::Done);
    let exchange = again.exchange("token", &VALUE, &DONE).await;
    assert_eq!(exchange.unwrap(), Swap::Done);
}

#[tokio::test]
async fn an_own_record_without_expiry_counts_and_gets_one() {
    let pair = Pair::start().await;
    let store = pair.store(LONG).await;
    send(&pair.primary, cmd("SET").arg("key").arg(&VALUE[..])).await;
    let claim = store.claim("key", &VALUE, TTL).await.unwrap();
    assert_eq!(claim, Claim::Claimed);
    let remaining = store.get("key").await.unwrap().unwrap().ttl.unwrap();
    assert!(remaining <= TTL && remaining > TTL / 2, "{remaining:?}");
}

#[tokio::test]
async fn a_connection_that_breaks_before_the_replicas_answer_acknowledges_nothing() {
    let pair = Pair::start().await;
    let by_connection = patient()
        .from_connection(idempotent_redis::RedisConnection::new(
            redis::Client::open(pair.primary.url()).unwrap(),
        ))
        .await
        .unwrap();
    let by_lanes = pair.store(LONG).await;
    pair.replica.pause().unwrap();
    claim_is_cut(&pair, by_connection).await;
    claim_is_cut(&pair, by_lanes).await;
}

async fn claim_is_cut<C>(pair: &Pair, store: RedisStore<C>)
where
    RedisStore<C>: Store + Clone,
{
    let key = key();
    for round in 0..3 {
        let claiming = tokio::spawn({
            let (store, key) = (store.clone(), key.clone());
            async move { store.claim(&key, &VALUE, TTL).await }
        });
        waits(&pair.primary).await;
        let kill = ["KILL", "TYPE", "normal", "SKIPME", "yes"];
        send(&pair.primary, cmd("CLIENT").arg(&kill)).await;
        // From the second round on the record is already stored, and the connection is new.
        let refused = claiming.await.unwrap();
        assert_eq!(kind(refused), StoreErrorKind::Unknown, "round {round}");
    }
}

#[tokio::test]
async fn a_call_runs_only_when_the_replica_has_its_claim() {
    let pair = Pair::start().await;
    let url = format!("{}?replicas=1", pair.primary.url());
    let store = RedisStore::connect(&url).await.unwrap();
    let record = runs_only_with_replicas(&store, &[&pair.replica]).await;
    let stored = store.get(&record).await.unwrap().unwrap().value;
    let copy = Value::BulkString(stored.to_vec());
    assert_eq!(pair.replica_has(&record).await, copy);
}

/// Asserts that a call is refused while these replicas are paused and runs after they resume. Returns the key of its record.
pub(crate) async fn runs_only_with_replicas(
    store: &RedisStore,
    replicas: &[&RedisServer],
) -> String {
    let runs = Arc::new(AtomicUsize::new(0));
    // An attempt must be longer than the wait for replicas, even on a slow machine.
    let deadline = Duration::from_secs(4);
    let idempotency = Idempotency::builder(store.clone()).deadline(deadline);
    let idempotency = idempotency.build().unwrap();
    let pay = async || {
        let runs = Arc::clone(&runs);
        let call = idempotency.call("orders.pay").key(&1_u64).ttl(TTL);
        call.run(async move {
            runs.fetch_add(1, Ordering::SeqCst);
            Ok::<_, Error>(())
        })
        .await
    };
    let record = format!("idem:orders.pay:{}", Fingerprint::of(&(1_u64,)).unwrap());

    for replica in replicas {
        replica.pause().unwrap();
    }
    let refused = pay().await.unwrap_err();
    assert!(refused.is_unavailable(), "{refused:?}");
    let text = chain(&refused);
    assert!(text.contains("0 of 1 replicas have it"), "{text}");
    assert_eq!(runs.load(Ordering::SeqCst), 0);
    idempotency.drain(MAX_WAIT).await.unwrap();
    assert_eq!(store.get(&record).await.unwrap(), None);

    for replica in replicas {
        replica.resume().unwrap();
    }
    let deadline = Instant::now() + MAX_WAIT;
    while pay().await.is_err() {
        assert!(Instant::now() < deadline, "the replicas are back");
    }
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    record
}

#[tokio::test]
async fn a_wait_longer_than_an_attempt_is_interrupted() {
    let pair = Pair::start().await;
    let store = pair.store(LONG).await;
    let idempotency = Idempotency::builder(store.clone())
        .deadline(Duration::from_millis(400))
        .build()
        .unwrap();
    pair.replica.pause().unwrap();
    let begun = Instant::now();
    let call = idempotency.call("orders.pay").key(&1_u64).ttl(TTL);
    let refused = call.run(async { panic!("the body ran") }).await;
    let refused: Error = Result::<(), _>::unwrap_err(refused);
    assert!(refused.is_unavailable(), "{refused:?}");
    // A write waits for the replica for 20 s.
    assert!(begun.elapsed() < Duration::from_secs(20));
    idempotency.drain(MAX_WAIT).await.unwrap();
    let record = format!("idem:orders.pay:{}", Fingerprint::of(&(1_u64,)).unwrap());
    assert_eq!(store.get(&record).await.unwrap(), None);
}

#[tokio::test]
async fn writes_that_wait_do_not_delay_other_calls() {
    let pair = Pair::start().await;
    let store = pair.store(LONG).await;
    store.claim("held", &VALUE, TTL).await.unwrap();
    pair.replica.pause().unwrap();
    let claiming = tokio::spawn({
        let store = store.clone();
        async move { store.claim("key", &VALUE, TTL).await }
    });
    waits(&pair.primary).await;
    assert_eq!(store.get("key").await.unwrap().unwrap().value, VALUE);
    assert_eq!(store.remove("held", &VALUE).await.unwrap(), Swap::Done);
    subscribed(&store, "held").await;
    assert!(!claiming.is_finished());
    pair.replica.resume().unwrap();
    assert_eq!(claiming.await.unwrap().unwrap(), Claim::Claimed);
}

#[tokio::test]
async fn writes_that_wait_share_a_few_connections() {
    let pair = Pair::start().await;
    let store = pair.store(&format!("{LONG}&batch=false")).await;
    pair.replica.pause().unwrap();
    let claims: Vec<_> = (0..100)
        .map(|number| {
            let store = store.clone();
            tokio::spawn(async move { store.claim(&format!("key{number}"), &VALUE, TTL).await })
        })
        .collect();
    let waiting = |clients: &str| clients.matches(" flags=b ").count();
    let all = |clients: &str| waiting(clients) == 16;
    says(&pair.primary, cmd("CLIENT").arg("LIST"), all).await;
    pair.replica.resume().unwrap();
    for claim in claims {
        assert_eq!(claim.await.unwrap().unwrap(), Claim::Claimed);
    }
    let clients: String =
        redis::from_redis_value(send(&pair.primary, cmd("CLIENT").arg("LIST")).await).unwrap();
    assert!(clients.lines().count() <= 16 + 4, "{clients}");
}

#[tokio::test]
async fn a_dropped_write_does_not_delay_others() {
    let pair = Pair::start().await;
    let store = pair.store("5m").await;
    // Now the server has the script. Otherwise the `WAIT` of the first pipeline would have no write to wait for.
    store.claim("first", &VALUE, TTL).await.unwrap();
    pair.replica.pause().unwrap();
    // There are more writes than connections. Each continues to wait on the server.
    for number in 0..20 {
        let key = format!("key{number}");
        let claiming = tokio::spawn({
            let (store, key) = (store.clone(), key.clone());
            async move { store.claim(&key, &VALUE, TTL).await }
        });
        let deadline = Instant::now() + MAX_WAIT;
        while store.get(&key).await.unwrap().is_none() {
            assert!(Instant::now() < deadline, "{key} is not sent");
        }
        claiming.abort();
        assert!(claiming.await.unwrap_err().is_cancelled());
    }
}

#[tokio::test]
async fn the_connection_of_a_dropped_write_is_not_used_again() {
    let server = RedisServer::start().unwrap();
    let url = format!("{}?replicas=1&replica_timeout=", server.url());
    // Now the server has the script. Otherwise the first pipeline would wait before the write.
    let hasty = RedisStore::connect(&format!("{url}1ms")).await.unwrap();
    hasty.claim("first", &VALUE, TTL).await.unwrap_err();
    let store = RedisStore::connect(&format!("{url}5m")).await.unwrap();
    for number in 0..60 {
        let key = format!("key{number}");
        let sent = async {
            let deadline = Instant::now() + MAX_WAIT;
            while store.get(&key).await.unwrap().is_none() {
                assert!(Instant::now() < deadline, "{key} is not sent");
            }
        };
        let value = VALUE;
        tokio::select! {
            claim = store.claim(&key, &value, TTL) => panic!("{claim:?}"),
            () = sent => {}
        }
    }
    let connected = clients(&server).await.len();
    assert!(connected <= 20, "{connected}");
}

#[tokio::test]
async fn the_primary_may_restart() {
    let pair = Pair::start().await;
    let store = pair.store(LONG).await;
    let claims = (0..16).map(|number| {
        let store = store.clone();
        tokio::spawn(async move { store.claim(&format!("key{number}"), &VALUE, TTL).await })
    });
    for claim in claims.collect::<Vec<_>>() {
        claim.await.unwrap().unwrap();
    }
    pair.primary.restart().unwrap();
    // The first broken connection makes the store discard all other connections.
    let (mut broken, deadline) = (0, Instant::now() + MAX_WAIT);
    while let Err(error) = store.claim("key", &VALUE, TTL).await {
        // On a busy machine a new connection may come too late.
        broken += usize::from(!chain(&error).contains("did not answer in time"));
        let is_allowed = broken <= 2 && Instant::now() < deadline;
        assert!(is_allowed, "{}", chain(&error));
    }
}

#[tokio::test]
async fn a_primary_that_became_a_replica_is_disconnected() {
    let pair = Pair::start().await;
    let by_connection = patient()
        .from_connection(idempotent_redis::RedisConnection::new(
            redis::Client::open(pair.primary.url()).unwrap(),
        ))
        .await
        .unwrap();
    by_connection.claim("held", &VALUE, TTL).await.unwrap();
    send(&pair.primary, cmd("REPLICAOF").arg(&["127.0.0.1", "1"])).await;
    let before = clients(&pair.primary).await;
    let refused = by_connection.claim("key", &VALUE, TTL).await;
    assert_eq!(kind(refused), StoreErrorKind::NotApplied);
    by_connection.get("key").await.unwrap();
    let after = clients(&pair.primary).await;
    let new = after.iter().filter(|id| !before.contains(id)).count();
    // The connection of the test is also new.
    assert!(new >= 2, "{before:?} {after:?}");
}

#[tokio::test]
async fn on_a_full_primary_a_claim_still_waits_for_replicas() {
    let pair = Pair::start().await;
    let store = pair.store(LONG).await;
    store.claim("held", &VALUE, TTL).await.unwrap();
    let full = ["SET", "maxmemory", "1"];
    send(&pair.primary, cmd("CONFIG").arg(&full)).await;
    let refused = store.claim("key", &VALUE, TTL).await;
    assert_eq!(kind(refused), StoreErrorKind::NotApplied);
    let own = store.claim("held", &VALUE, TTL).await.unwrap();
    assert_eq!(own, Claim::Claimed);
    let taken = store.claim("held", &DONE, TTL).await.unwrap();
    assert_eq!(taken, Claim::Taken(VALUE));
    let completion = store.replace("held", &VALUE, &DONE, TTL).await;
    assert_eq!(kind(completion), StoreErrorKind::Full);
    let hold = store.replace("held", &VALUE, &VALUE, TTL).await.unwrap();
    assert_eq!(hold, Swap::Done);
    let exchange = store.exchange("held", &VALUE, &DONE).await;
    assert_eq!(kind(exchange), StoreErrorKind::Full);
    let exchanged = store.exchange("held", &DONE, &VALUE).await.unwrap();
    assert_eq!(exchanged, Swap::Done);
}

#[tokio::test]
async fn a_user_who_may_not_wait_is_refused_when_connecting() {
    let pair = Pair::start().await;
    let least = "on >s3cret ~* +set +get +pttl +pexpire +del +evalsha +eval +info";
    for (user, more, allowed) in [("least", "", false), ("waiting", " +wait", true)] {
        let rules = format!("{least}{more}");
        let rules: Vec<_> = rules.split(' ').collect();
        send(
            &pair.primary,
            cmd("ACL").arg("SETUSER").arg(user).arg(&rules),
        )
        .await;
        let url = url_of_user(&pair.primary, user);
        let url = format!("{url}?replicas=1&replica_timeout={LONG}");
        match RedisStore::connect(&url).await {
            Ok(store) => {
                assert!(allowed);
                store.claim("key", &VALUE, TTL).await.unwrap();
                let completion = store.replace("key", &VALUE, &DONE, TTL).await;
                assert_eq!(completion.unwrap(), Swap::Done);
            }
            Err(error) => {
                assert!(!allowed);
                assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
                let text = chain(&error);
                assert!(text.contains("`wait`"), "{text}");
            }
        }
    }
    // The permission is removed later: the write may be stored, but does not count as replicated.
    let url = url_of_user(&pair.primary, "waiting");
    let store = RedisStore::connect(&format!("{url}?replicas=1"))
        .await
        .unwrap();
    let forbid = ["SETUSER", "waiting", "-wait"];
    send(&pair.primary, cmd("ACL").arg(&forbid)).await;
    let claim = store.claim("other", &VALUE, TTL).await.unwrap_err();
    assert_eq!(claim.kind(), StoreErrorKind::Unknown);
    assert!(chain(&claim).contains("'wait'"), "{}", chain(&claim));
}

/// In a cluster the claim and its `WAIT` go to the primary of the key, and only the replicas of this primary answer.
#[tokio::test]
async fn in_a_cluster_a_write_waits_for_the_replicas_of_its_key() {
    let node = || {
        // The default port of the cluster bus may be above 65535.
        let bus = Port::free().unwrap();
        let args = [
            "--cluster-enabled",
            "yes",
            "--cluster-port",
            &bus.number().to_string(),
            "--repl-diskless-sync-delay",
            "0",
        ];
        (RedisServer::start_with(args).unwrap(), bus)
    };
    let ((low, bus), (high, _high_bus), (replica, _replica_bus)) = (node(), node(), node());
    for (server, from, to) in [(&low, 0, 8191), (&high, 8192, 16383)] {
        let slots = cmd("CLUSTER")
            .arg("ADDSLOTSRANGE")
            .arg(from)
            .arg(to)
            .clone();
        send(server, &slots).await;
    }
    let port = low.port().to_string();
    for server in [&high, &replica] {
        let meet = ["MEET", "127.0.0.1", &port, &bus.number().to_string()];
        send(server, cmd("CLUSTER").arg(&meet)).await;
    }
    for server in [&low, &high, &replica] {
        says(server, cmd("CLUSTER").arg("INFO"), |info| {
            info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3")
        })
        .await;
    }
    let id: String = redis::from_redis_value(send(&low, cmd("CLUSTER").arg("MYID")).await).unwrap();
    send(&replica, cmd("CLUSTER").arg(&["REPLICATE", &id])).await;
    info_says(&low, "state=online").await;

    // By default the client sends a command again after half a second.
    let client = ClusterClient::builder([low.url()]).response_timeout(MAX_WAIT);
    let client = client.connection_timeout(MAX_WAIT).build().unwrap();
    let connection = client.get_async_connection().await.unwrap();
    let options = RedisStore::options().replicas(1);
    let store = options
        .clone()
        .replica_timeout(Duration::from_secs(20))
        .from_connection(connection.clone())
        .await
        .unwrap();
    let short = options
        .replica_timeout(Duration::from_millis(50))
        .from_connection(connection)
        .await
        .unwrap();
    let (mut acknowledged, mut refused) = (0, 0);
    for _ in 0..40 {
        let key = key();
        let slot = send(&low, cmd("CLUSTER").arg("KEYSLOT").arg(&key)).await;
        let slot: u16 = redis::from_redis_value(slot).unwrap();
        if slot <= 8191 {
            let claim = store.claim(&key, &VALUE, TTL).await.unwrap();
            assert_eq!(claim, Claim::Claimed);
            let completion = store.replace(&key, &VALUE, &DONE, TTL).await;
            assert_eq!(completion.unwrap(), Swap::Done);
            acknowledged += 1;
        } else {
            let claim = short.claim(&key, &VALUE, TTL).await.unwrap_err();
            assert!(chain(&claim).contains("0 of 1"), "{}", chain(&claim));
            refused += 1;
        }
    }
    assert!(acknowledged > 5 && refused > 5, "{acknowledged} {refused}");
}

#[tokio::test]
async fn the_durability_matches_the_setup() {
    let plain = RedisServer::start().unwrap();
    let url = plain.url();
    let every_second = RedisServer::start_with(["--appendonly", "yes"]).unwrap();
    let always = ["--appendonly", "yes", "--appendfsync", "always"];
    let always = RedisServer::start_with(always).unwrap();
    let replicated = Durability::Replicated { replicas: 2 };
    // After a fail-over the disk of the old master does not count.
    let arguments = ["--appendonly", "yes", "--appendfsync", "always"];
    let sentinels = RedisSentinels::start_with(0, arguments).unwrap();
    let pair = Pair::start().await;
    for (name, value) in [("appendonly", "yes"), ("appendfsync", "always")] {
        send(&pair.primary, cmd("CONFIG").arg(&["SET", name, value])).await;
    }
    for (url, durability, named) in [
        (url.clone(), Durability::Server, "server"),
        (every_second.url(), Durability::Server, "server"),
        (always.url(), Durability::Fsync, "fsync"),
        (pair.primary.url(), Durability::Server, "server"),
        (sentinels.url(), Durability::Server, "server"),
        (format!("{url}?replicas=2"), replicated, "replicated(2)"),
    ] {
        let store = RedisStore::connect(&url).await.unwrap();
        assert_eq!(store.durability(), durability, "{url}");
        assert_eq!(durability.to_string(), named);
    }
    assert_eq!(MemoryStore::new().durability(), Durability::Process);
}
