//! Contenders that keep keys in a Redis of the benchmark's own.

use std::time::Duration;

use idempotence::testkit::RedisServer;
use idempotence::{Error, Idempotency, RedisStore, idempotent};
use peer::valkey::ValkeyStore;
use peer::{ClaimOutcome, FencedOutcome, IdempotencyKey, IdempotencyStore as _};
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::io::tcp::TcpSettings;
use redis::{Client, IntoConnectionInfo as _, Script, cmd};
use rslock::LockManager;
use tokio::runtime::Runtime;

use crate::{Contender, ENDPOINT, Lap, TTL, key, lap, owner};

/// How many tasks call at once.
pub const TASKS: [u32; 3] = [1, 64, 512];

/// A private server, and the contenders connected to it.
pub struct OnRedis {
    runtime: Runtime,
    attribute: Idempotency,
    by_hand: ByHand,
    peer: Peer,
    lock: Lock,
    /// The version of the server.
    pub version: String,
    _server: RedisServer,
}

impl OnRedis {
    /// Starts the server and connects.
    pub fn start() -> Self {
        let server = RedisServer::start().expect("redis-server is installed");
        let runtime = Runtime::new().expect("a runtime");
        let info = server.url().into_connection_info().expect("a URL");
        let tcp = TcpSettings::default().set_nodelay(true);
        let client = Client::open(info.set_tcp_settings(tcp)).expect("a client");
        let (connection, store, peer) = runtime.block_on(async {
            let config =
                ConnectionManagerConfig::new().set_response_timeout(Some(Duration::from_secs(10)));
            let connection = client.get_connection_manager_with_config(config).await;
            let connection = connection.expect("a connection");
            let store = RedisStore::from_connection(connection.clone()).await;
            let peer = ValkeyStore::with_connection_manager(connection.clone()).prefix(PREFIX);
            (connection, store.expect("a store"), peer.try_build().await)
        });
        let attribute = Idempotency::new(store);
        let value_len = runtime.block_on(value_len(&attribute, connection.clone()));
        Self {
            version: runtime.block_on(version(connection.clone())),
            by_hand: runtime.block_on(ByHand::new(connection, value_len)),
            attribute,
            peer: Peer(peer.expect("a store")),
            lock: Lock(LockManager::from_clients(vec![client])),
            runtime,
            _server: server,
        }
    }

    /// All contenders, with so many tasks.
    pub fn laps(&self, tasks: u32) -> Vec<Lap<'_>> {
        let runtime = &self.runtime;
        vec![
            lap("attribute", runtime, tasks, self.attribute.clone()),
            lap("by hand", runtime, tasks, self.by_hand.clone()),
            lap("idempotent 2.0", runtime, tasks, self.peer.clone()),
            lap("rslock 0.10", runtime, tasks, self.lock.clone()),
        ]
    }
}

const PREFIX: &str = "idem";

/// How long our store keeps a claim with a lease of [`TTL`], in milliseconds.
const EXPIRY: u64 = 33_000;

/// What is under the key while a guarded body runs, seen from that body.
async fn value_len(idempotency: &Idempotency, connection: ConnectionManager) -> usize {
    #[idempotent(key = (), ttl = "30s", release = true, name = "bench.length", using = idempotency)]
    async fn seen(
        idempotency: &Idempotency,
        mut connection: ConnectionManager,
    ) -> Result<usize, Error> {
        let keys = cmd("KEYS").arg("*").query_async(&mut connection).await;
        let keys: Vec<String> = keys.expect("an answer");
        let length = cmd("STRLEN").arg(&keys).query_async(&mut connection).await;
        Ok(length.expect("one string"))
    }

    seen(idempotency, connection).await.expect("a free key")
}

async fn version(mut connection: ConnectionManager) -> String {
    let info: String = cmd("INFO")
        .arg("server")
        .query_async(&mut connection)
        .await
        .expect("an answer");
    let version = info
        .lines()
        .find_map(|line| line.strip_prefix("redis_version:"));
    version.unwrap_or("unknown").to_owned()
}

/// `SET … NX GET PX …`, and a compare-and-delete by `EVALSHA`.
#[derive(Clone)]
struct ByHand {
    connection: ConnectionManager,
    remove: String,
    /// Makes the value as long as ours.
    rest: String,
}

impl ByHand {
    async fn new(mut connection: ConnectionManager, value_len: usize) -> Self {
        let remove = Script::new(
            "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
             return 0",
        );
        let loaded = remove.load_async(&mut connection).await;
        Self {
            connection,
            remove: loaded.expect("the script is loaded"),
            rest: "-".repeat(value_len.saturating_sub(owner().len())),
        }
    }
}

impl Contender for ByHand {
    async fn upload(&self, user_id: u64, file_md5: String) -> usize {
        let mut connection = self.connection.clone();
        let key = format!("{PREFIX}:{}", key(":", user_id, &file_md5));
        let value = owner() + &self.rest;
        let mut set = cmd("SET");
        set.arg(&key)
            .arg(&value)
            .arg("NX")
            .arg("GET")
            .arg("PX")
            .arg(EXPIRY);
        let standing: Option<String> = set.query_async(&mut connection).await.expect("an answer");
        assert_eq!(standing, None, "a free key");
        let outcome = file_md5.len();
        let mut remove = cmd("EVALSHA");
        remove.arg(&self.remove).arg(1).arg(&key).arg(&value);
        let removed: u64 = remove
            .query_async(&mut connection)
            .await
            .expect("an answer");
        assert_eq!(removed, 1, "the own key");
        outcome
    }
}

#[derive(Clone)]
struct Peer(ValkeyStore);

impl Contender for Peer {
    async fn upload(&self, user_id: u64, file_md5: String) -> usize {
        let key = IdempotencyKey::new(key(".", user_id, &file_md5)).expect("a key");
        let claim = self.0.claim(&key, TTL).fingerprint(ENDPOINT, &[]);
        let ClaimOutcome::Claimed(guard) = claim.try_insert().await.expect("an answer") else {
            panic!("the key is taken");
        };
        let outcome = file_md5.len();
        let removed = self.0.remove(&key, guard.fencing_token()).await;
        assert_eq!(removed.expect("an answer"), FencedOutcome::Applied);
        outcome
    }
}

/// Opens one connection of its own at the first call, and keeps it.
#[derive(Clone)]
struct Lock(LockManager);

impl Contender for Lock {
    async fn upload(&self, user_id: u64, file_md5: String) -> usize {
        let key = format!("{PREFIX}:{}", key(":", user_id, &file_md5));
        let lock = self.0.lock(&*key, TTL).await.expect("a free key");
        let outcome = file_md5.len();
        lock.release().await;
        outcome
    }
}
