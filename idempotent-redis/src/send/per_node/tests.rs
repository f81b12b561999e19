//! Batches of the nodes of a cluster, and variants with a mistake, which these tests must find.

use std::time::{Duration, Instant};

use ::redis::{AsyncConnectionConfig, Client, Cmd, FromRedisValue, RedisResult, Value, cmd};
use bytes::Bytes;
use futures_util::future::join_all;
use idempotence_test_servers::{Direction, ProxyFault, RedisCluster, RedisProxy, RedisServer};
use idempotent_runtime::store::{Claim, Store as _, StoreErrorKind, Swap};
use tokio::time::sleep;

use crate::client::slot::slot_of_key;
use crate::mutation::{self, Mutation, mutation};
use crate::store::RedisStore;

/// The slot whose node gets an operation.
pub(crate) fn slot(slot: u16) -> u16 {
    if mutation!(WrongNode) {
        (slot + 16_384 / 2) % 16_384
    } else {
        slot
    }
}

/// The replies to a batch.
pub(crate) fn replies(replies: RedisResult<Vec<Value>>) -> RedisResult<Vec<Value>> {
    let replies = replies?;
    for reply in &replies {
        if let Err(error) = reply.clone().extract_error() {
            let is_redirection = error.redirect_node().is_some();
            let spreads = if is_redirection {
                mutation!(RepeatsBatch)
            } else {
                mutation!(OneFaultForAll)
            };
            if spreads {
                return Err(error);
            }
        }
    }
    Ok(replies)
}

/// Checks that the batches keep a rule, and that they break it with each of these mistakes.
async fn assert_kept(rule: impl AsyncFn() -> Result<(), String>, mistakes: &[Mutation]) {
    assert_eq!(rule().await, Ok(()));
    for mistake in mistakes {
        mutation::make(Some(*mistake));
        let kept = rule().await;
        mutation::make(None);
        assert!(kept.is_err(), "the test does not find {mistake:?}");
    }
}

static VALUE: Bytes = Bytes::from_static(b"value");
const TTL: Duration = Duration::from_mins(1);
const MAX_WAIT: Duration = Duration::from_mins(1);
const MANY: usize = 50;
/// The place of the special key among the others: not among the first, which their callers send alone.
const SPECIAL: usize = 25;

async fn ask<T: FromRedisValue>(node: &RedisServer, question: &Cmd) -> T {
    let client = Client::open(node.unix_url()).expect("a client");
    // A busy machine may need longer for a reply than the client waits by default.
    let patient = AsyncConnectionConfig::new().set_response_timeout(None);
    let connection = client.get_multiplexed_async_connection_with_config(&patient);
    let mut connection = connection.await.expect("a connection");
    let answer = question.query_async(&mut connection).await;
    answer.expect("an answer")
}

/// How often the nodes have run a command, or sent an error. Counts since the last call of `reset`.
async fn counts<const N: usize>(nodes: [&RedisServer; N], name: &str) -> [usize; N] {
    let mut counts = [0; N];
    for (node, count) in nodes.into_iter().zip(&mut counts) {
        let stats: String = ask(node, cmd("INFO").arg("all")).await;
        let line = stats.lines().find_map(|line| line.strip_prefix(name));
        let calls = line.and_then(|line| line.split(['=', ',']).nth(1));
        *count = calls.map_or(0, |calls| calls.parse().expect("a count"));
    }
    counts
}

async fn reset(cluster: &RedisCluster) {
    for node in cluster.nodes() {
        let () = ask(node, cmd("CONFIG").arg("RESETSTAT")).await;
    }
}

/// A store that knows all masters and is connected to them.
async fn connected(url: &str) -> RedisStore {
    let store = RedisStore::connect(url).await.expect("a store");
    let connection = store.connection();
    let deadline = Instant::now() + MAX_WAIT;
    // A slot of each of three nodes.
    let knows = |slot| connection.master_of(slot).is_some();
    while ![0, 16_384 / 2, 16_383].into_iter().all(knows) {
        assert!(Instant::now() < deadline, "the store must know its nodes");
        sleep(Duration::from_millis(1)).await;
    }
    store
}

/// Keys of the first of three nodes. The key at `SPECIAL` has a slot for itself.
fn keys_at_home() -> Vec<String> {
    let at_home = (0..).map(|number| format!("key:{number}"));
    let at_home = at_home.filter(|key| slot_of_key(key.as_bytes()) < 16_384 / 3);
    let keys: Vec<_> = at_home.take(MANY).collect();
    let slots = keys.iter().map(|key| slot_of_key(key.as_bytes()));
    let special = slot_of_key(keys[SPECIAL].as_bytes());
    assert_eq!(slots.filter(|slot| *slot == special).count(), 1);
    keys
}

async fn claim_all(store: &RedisStore, keys: &[String]) -> Result<(), String> {
    let claims = join_all(keys.iter().map(|key| store.claim(key, &VALUE, TTL))).await;
    for (claim, key) in claims.into_iter().zip(keys) {
        match claim {
            Ok(Claim::Claimed) => {}
            other => return Err(format!("{key}: {other:?}")),
        }
    }
    Ok(())
}

async fn remove_all(store: &RedisStore, keys: &[String]) -> Result<(), String> {
    let removals = join_all(keys.iter().map(|key| store.remove(key, &VALUE))).await;
    for (removal, key) in removals.into_iter().zip(keys) {
        match removal {
            Ok(Swap::Done) => {}
            other => return Err(format!("{key}: {other:?}")),
        }
    }
    Ok(())
}

fn expect(what: &str, found: [usize; 2], expected: [usize; 2]) -> Result<(), String> {
    if found == expected {
        return Ok(());
    }
    Err(format!("{what}: {found:?} instead of {expected:?}"))
}

/// Moves the slot of the key back to the first node.
fn bring_home(cluster: &RedisCluster, key: &str) {
    let home = cluster.nodes()[0].port();
    while cluster.master_of(key).expect("a master").port() != home {
        let moving = cluster.begin_move(key).expect("a move");
        moving.finish().expect("a move");
    }
}

#[tokio::test]
async fn one_operation_of_fifty_follows_its_slot_and_the_others_are_sent_once() {
    let cluster = RedisCluster::start(3, 0).expect("a cluster");
    let [home, other, _] = [0, 1, 2].map(|node| &cluster.nodes()[node]);
    let keys = keys_at_home();
    let rule = async || {
        bring_home(&cluster, &keys[SPECIAL]);
        let store = connected(&cluster.url()).await;
        let moving = cluster.begin_move(&keys[SPECIAL]).expect("a move");
        assert_eq!(moving.to().port(), other.port());
        moving.finish().expect("a move");
        reset(&cluster).await;
        let claimed = claim_all(&store, &keys).await;
        let nodes = [home, other];
        let (moved, sets) = (
            counts(nodes, "errorstat_MOVED").await,
            counts(nodes, "cmdstat_set:").await,
        );
        let removed = remove_all(&store, &keys).await;
        for node in cluster.nodes() {
            let () = ask(node, &cmd("FLUSHALL")).await;
        }
        claimed.and(removed)?;
        expect("redirections", moved, [1, 0])?;
        expect("claims", sets, [MANY - 1, 1])
    };
    let mistakes = [
        Mutation::ReturnsRedirection,
        Mutation::WrongNode,
        Mutation::RepeatsBatch,
    ];
    assert_kept(rule, &mistakes).await;
}

#[tokio::test]
async fn an_operation_is_sent_to_the_node_that_imports_its_slot_once() {
    let cluster = RedisCluster::start(3, 0).expect("a cluster");
    let [home, other, _] = [0, 1, 2].map(|node| &cluster.nodes()[node]);
    let keys = keys_at_home();
    let rule = async || {
        bring_home(&cluster, &keys[SPECIAL]);
        let store = connected(&cluster.url()).await;
        let moving = cluster.begin_move(&keys[SPECIAL]).expect("a move");
        assert_eq!(moving.to().port(), other.port());
        reset(&cluster).await;
        let nodes = [home, other];
        let claimed = claim_all(&store, &keys).await;
        let (sets, asked) = (
            counts(nodes, "cmdstat_set:").await,
            counts(nodes, "cmdstat_asking:").await,
        );
        let removed = remove_all(&store, &keys).await;
        moving.finish().expect("a move");
        for node in cluster.nodes() {
            let () = ask(node, &cmd("FLUSHALL")).await;
        }
        claimed.and(removed)?;
        expect("claims", sets, [MANY - 1, 1])?;
        expect("asked", asked, [0, 1])
    };
    let mistakes = [Mutation::ReturnsRedirection, Mutation::RepeatsBatch];
    assert_kept(rule, &mistakes).await;
}

#[tokio::test]
async fn a_fault_of_one_operation_is_the_fault_of_no_other() {
    let cluster = RedisCluster::start(3, 0).expect("a cluster");
    let home = &cluster.nodes()[0];
    let keys = keys_at_home();
    let store = connected(&cluster.url()).await;
    let rule = async || {
        let foreign = &keys[SPECIAL];
        let _: usize = ask(home, cmd("LPUSH").arg(foreign).arg("element")).await;
        let claims = join_all(keys.iter().map(|key| store.claim(key, &VALUE, TTL))).await;
        let () = ask(home, &cmd("FLUSHALL")).await;
        for (at, claim) in claims.into_iter().enumerate() {
            match (at, claim) {
                (SPECIAL, Err(error)) if error.kind() == StoreErrorKind::Misconfigured => {}
                (SPECIAL, other) => return Err(format!("{other:?}")),
                (_, Ok(Claim::Claimed)) => {}
                (_, other) => return Err(format!("{at}: {other:?}")),
            }
        }
        Ok(())
    };
    assert_kept(rule, &[Mutation::OneFaultForAll]).await;
}

/// Proxies before the nodes. Clients of the cluster find them instead of the nodes.
async fn proxies_of(cluster: &RedisCluster) -> Vec<RedisProxy> {
    let mut proxies = Vec::new();
    for node in cluster.nodes() {
        let proxy = RedisProxy::start(("127.0.0.1", node.port())).expect("a proxy");
        let port = proxy.port();
        let announce = cmd("CONFIG")
            .arg("SET")
            .arg("cluster-announce-port")
            .arg(port)
            .clone();
        let () = ask(node, &announce).await;
        proxies.push(proxy);
    }
    let deadline = Instant::now() + MAX_WAIT;
    for node in cluster.nodes() {
        loop {
            let nodes: String = ask(node, cmd("CLUSTER").arg("NODES")).await;
            let knows = |proxy: &RedisProxy| nodes.contains(&format!(":{}@", proxy.port()));
            if proxies.iter().all(knows) {
                break;
            }
            assert!(Instant::now() < deadline, "{nodes}");
            sleep(Duration::from_millis(10)).await;
        }
    }
    proxies
}

#[tokio::test]
async fn an_operation_whose_answer_is_lost_is_not_sent_again() {
    let cluster = RedisCluster::start(3, 0).expect("a cluster");
    let proxies = proxies_of(&cluster).await;
    let (home, keys) = (&cluster.nodes()[0], keys_at_home());
    let url = format!("redis-cluster://127.0.0.1:{}", proxies[0].port());
    let rule = async || {
        let store = connected(&url).await;
        claim_all(&store, &keys).await?;
        proxies[0].plan(Direction::Reply, 0, ProxyFault::Close);
        let removals = join_all(keys.iter().map(|key| store.remove(key, &VALUE))).await;
        let mut unknown = 0;
        for (removal, key) in removals.into_iter().zip(&keys) {
            match removal {
                Ok(Swap::Done) => {}
                Err(error) if error.kind() == StoreErrorKind::Unknown => unknown += 1,
                other => return Err(format!("{key}: {other:?}")),
            }
        }
        let () = ask(home, &cmd("FLUSHALL")).await;
        if unknown > 0 {
            Ok(())
        } else {
            Err("no answer was lost".to_owned())
        }
    };
    assert_kept(rule, &[Mutation::RepeatsLost]).await;
}

#[tokio::test]
async fn writes_of_a_node_wait_for_its_replicas_together_and_one_of_fifty_follows_its_slot() {
    // No replica replaces the master of a busy machine.
    let patient = ["--cluster-node-timeout", "20000"];
    let cluster = RedisCluster::start_with(3, 1, patient).expect("a cluster");
    let keys = keys_at_home();
    let home = cluster.master_of(&keys[0]).expect("a master");
    let url = format!("{}?replicas=1&replica_timeout=20s", cluster.url());
    let rule = async || {
        while cluster.master_of(&keys[SPECIAL]).expect("a master").port() != home.port() {
            let moving = cluster.begin_move(&keys[SPECIAL]).expect("a move");
            moving.finish().expect("a move");
        }
        let store = connected(&url).await;
        // The first writes make the connections.
        claim_all(&store, &keys).await?;
        remove_all(&store, &keys).await?;
        let moving = cluster.begin_move(&keys[SPECIAL]).expect("a move");
        let other = moving.to();
        moving.finish().expect("a move");
        reset(&cluster).await;
        let claimed = claim_all(&store, &keys).await;
        let nodes = [home, other];
        let moved = counts(nodes, "errorstat_MOVED").await;
        let [waits] = counts([home], "cmdstat_wait:").await;
        let removed = remove_all(&store, &keys).await;
        claimed.and(removed)?;
        expect("redirections", moved, [1, 0])?;
        if waits < MANY / 2 {
            Ok(())
        } else {
            Err(format!("{waits} waits for {MANY} writes"))
        }
    };
    let mistakes = [Mutation::ReturnsRedirection, Mutation::WrongNode];
    assert_kept(rule, &mistakes).await;
}
