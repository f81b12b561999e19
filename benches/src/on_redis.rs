//! Contenders on a private Redis.

use std::time::Duration;

use idempotence::{Error, Idempotency, RedisStore, SealKey, idempotent};
use idempotence_test_servers::RedisServer;
use peer::valkey::ValkeyStore;
use redis::aio::{ConnectionLike, ConnectionManager, ConnectionManagerConfig};
use redis::io::tcp::TcpSettings;
use redis::{Client, IntoConnectionInfo as _, Script, cmd};
use rslock::LockManager;
use tokio::runtime::Runtime;

use crate::by_hand::{ByHand, Claim};
use crate::limit;
use crate::relay;
use crate::replay::{self, Receipt};
use crate::storm::Answer;
use crate::upload::{self, Clock, InBackground, Upload};
use crate::{ATTRIBUTE, Contenders, IN_BACKGROUND, KEPT, Lap, Peer, TTL, key, owner};

/// The numbers of concurrent tasks for first calls.
pub const TASKS: [u32; 5] = [1, 8, 32, 64, 512];

/// A private server, and the contenders connected to it.
pub struct OnRedis {
    runtime: Runtime,
    contenders: Contenders<Commands, ValkeyStore>,
    /// The attribute, with each operation as its own request.
    unbatched: Idempotency,
    /// The attribute, with sealed results.
    sealed: Idempotency,
    lock: Lock,
    /// The version of the server.
    pub version: String,
    server: RedisServer,
}

impl OnRedis {
    /// Starts the server and connects.
    pub fn start() -> Self {
        let server = RedisServer::start().expect("redis-server is installed");
        let port = server.port();
        Self::connect(server, port)
    }

    /// Starts the server, and connects over a network with a round trip of a millisecond.
    pub fn far() -> Self {
        let server = RedisServer::start().expect("redis-server is installed");
        let port = relay::start(server.port());
        Self::connect(server, port)
    }

    /// `port`: where the clients connect.
    fn connect(server: RedisServer, port: u16) -> Self {
        let url = format!("redis://127.0.0.1:{port}");
        let runtime = Runtime::new().expect("a runtime");
        let info = (&*url).into_connection_info().expect("a URL");
        let tcp = TcpSettings::default().set_nodelay(true);
        let client = Client::open(info.set_tcp_settings(tcp)).expect("a client");
        let (connection, store, unbatched, peer) = runtime.block_on(async {
            let config =
                ConnectionManagerConfig::new().set_response_timeout(Some(Duration::from_secs(10)));
            let connection = client.get_connection_manager_with_config(config).await;
            let connection = connection.expect("a connection");
            // On a `ConnectionManager` a store sends each operation as its own request.
            let store = RedisStore::connect(&url).await;
            let unbatched = RedisStore::options().batch(false);
            let unbatched = unbatched.connect(&url).await;
            let peer = ValkeyStore::with_connection_manager(connection.clone()).prefix(PREFIX);
            let (store, unbatched) = (store.expect("a store"), unbatched.expect("a store"));
            (connection, store, unbatched, peer.try_build().await)
        });
        let sealed = Idempotency::builder(store.clone()).seal(SealKey::new([7; 32]));
        let attribute = Idempotency::new(store);
        let record_len = runtime.block_on(record_len(&attribute, connection.clone()));
        Self {
            version: runtime.block_on(version(connection.clone())),
            contenders: Contenders {
                attribute,
                by_hand: runtime.block_on(Commands::new(connection, record_len)),
                peer: Peer(peer.expect("a store")),
            },
            unbatched: Idempotency::new(unbatched),
            sealed: sealed.build().expect("a handle"),
            lock: Lock(LockManager::from_clients(vec![client])),
            runtime,
            server,
        }
    }

    /// First calls, from `tasks` tasks.
    pub fn laps(&self, tasks: u32) -> Vec<Lap<'_>> {
        let mut laps = self.contenders.uploads(&self.runtime, tasks, Clock::Calls);
        let lock = upload::lap(&self.runtime, tasks, Clock::Calls, self.lock.clone());
        laps.push(("rslock 0.10", lock));
        let unbatched = self.unbatched.clone();
        let unbatched = upload::lap(&self.runtime, tasks, Clock::Calls, unbatched);
        laps.push(("batch = false", unbatched));
        laps
    }

    /// The same, by the attribute: with ends in the background, and without.
    pub fn laps_in_background(&self, tasks: u32) -> Vec<Lap<'_>> {
        let attribute = self.contenders.attribute.clone();
        let in_background = InBackground(attribute.clone());
        let lap = upload::lap(&self.runtime, tasks, Clock::Calls, in_background);
        let awaited = upload::lap(&self.runtime, tasks, Clock::Calls, attribute);
        vec![(IN_BACKGROUND, lap), (ATTRIBUTE, awaited)]
    }

    /// First calls from `tasks` tasks: the attribute, and the limit.
    pub fn limit(&self, tasks: u32) -> Vec<Lap<'_>> {
        let by_hand = &self.contenders.by_hand;
        let port = self.server.port();
        let mut laps = self.contenders.uploads(&self.runtime, tasks, Clock::Calls);
        laps.truncate(1);
        laps.push(limit::on_redis(port, tasks, &by_hand.rest, EXPIRY));
        laps
    }

    /// Duplicates that get a result of `size` bytes of JSON, from `tasks` tasks.
    pub fn replays(&self, tasks: u32, size: usize) -> Vec<Lap<'_>> {
        self.contenders.replays(&self.runtime, tasks, size)
    }

    /// The same, by the attribute: sealed results, and results that are not sealed.
    pub fn sealed_replays(&self, tasks: u32, size: usize) -> Vec<Lap<'_>> {
        let lap = |handle| replay::lap(&self.runtime, tasks, size, handle);
        vec![
            ("attribute, sealed", lap(&self.sealed)),
            (ATTRIBUTE, lap(&self.contenders.attribute)),
        ]
    }

    /// A thousand concurrent equal calls.
    pub fn storms(&self, answer: Answer) -> Vec<Lap<'_>> {
        self.contenders.storms(&self.runtime, answer)
    }
}

const PREFIX: &str = "idem";

/// How long the store of the crate stores a claim with a lease of [`TTL`], in milliseconds.
const EXPIRY: u64 = 33_000;

/// The length of the record while a guarded body runs. The body reads it.
pub(crate) async fn record_len<C>(idempotency: &Idempotency, connection: C) -> usize
where
    C: ConnectionLike + Clone + Send + Sync + 'static,
{
    #[idempotent(key = (), ttl = "30s", release = true, name = "bench.length", using = idempotency)]
    async fn seen<C: ConnectionLike + Clone + Send + Sync + 'static>(
        idempotency: &Idempotency,
        mut connection: C,
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

/// `SET … NX GET PX …` of a line, and a compare-and-delete or a compare-and-set by `EVALSHA`. The result follows
/// the line.
#[derive(Clone)]
pub(crate) struct Commands<C = ConnectionManager> {
    connection: C,
    remove: String,
    replace: String,
    /// Fills the line up to the length of a record of the crate.
    rest: String,
}

impl<C: ConnectionLike + Clone + Send + Sync> Commands<C> {
    pub(crate) async fn new(mut connection: C, record_len: usize) -> Self {
        let remove = Script::new(
            "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
             return 0",
        );
        let replace = Script::new(
            "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
             redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
             return 1",
        );
        let removing = remove.load_async(&mut connection).await;
        let replacing = replace.load_async(&mut connection).await;
        Self {
            connection,
            remove: removing.expect("the script is loaded"),
            replace: replacing.expect("the script is loaded"),
            rest: "-".repeat(record_len.saturating_sub(owner().len() + 1)) + "\n",
        }
    }
}

impl<C: ConnectionLike + Clone + Send + Sync + 'static> ByHand for Commands<C> {
    /// The stored line.
    type Owner = String;

    async fn claim(&self, key: &str) -> Claim<String> {
        let mut connection = self.connection.clone();
        let line = owner() + &self.rest;
        let mut set = cmd("SET");
        set.arg(prefixed(key))
            .arg(&line)
            .arg("NX")
            .arg("GET")
            .arg("PX")
            .arg(EXPIRY);
        let stored: Option<Vec<u8>> = set.query_async(&mut connection).await.expect("an answer");
        let Some(stored) = stored else {
            return Claim::Won(line);
        };
        let end = stored.iter().position(|byte| *byte == b'\n');
        match &stored[end.expect("a line") + 1..] {
            [] => Claim::Running,
            result => Claim::Done(Receipt::from_json(result)),
        }
    }

    async fn release(&self, key: &str, line: String) {
        let mut connection = self.connection.clone();
        let mut remove = cmd("EVALSHA");
        remove
            .arg(&self.remove)
            .arg(1)
            .arg(prefixed(key))
            .arg(&line);
        let removed: u64 = remove
            .query_async(&mut connection)
            .await
            .expect("an answer");
        assert_eq!(removed, 1, "the caller owns the key");
    }

    async fn complete(&self, key: &str, line: String, receipt: &Receipt) {
        let mut connection = self.connection.clone();
        let done = [line.as_bytes(), &receipt.to_json()].concat();
        let kept = u64::try_from(KEPT.as_millis()).expect("a few digits");
        let mut replace = cmd("EVALSHA");
        replace
            .arg(&self.replace)
            .arg(1)
            .arg(prefixed(key))
            .arg(&line)
            .arg(done)
            .arg(kept);
        let replaced: u64 = replace
            .query_async(&mut connection)
            .await
            .expect("an answer");
        assert_eq!(replaced, 1, "the caller owns the key");
    }
}

/// Opens its own connection at the first call and reuses it.
#[derive(Clone)]
struct Lock(LockManager);

impl Upload for Lock {
    async fn upload(&self, user_id: u64, file_md5: String) -> usize {
        let key = prefixed(&key(":", user_id, &file_md5));
        let lock = self.0.lock(&*key, TTL).await.expect("a free key");
        let outcome = file_md5.len();
        lock.release().await;
        outcome
    }
}

fn prefixed(key: &str) -> String {
    format!("{PREFIX}:{key}")
}
