//! Tokens, counters, seen-sets and Bloom filters on a private Redis, compared with the same commands by hand.
//!
//! Each call works on a new token, page or member.

use std::time::Duration;

use idempotence::{Bloom, Counter, Idempotency, RedisStore, SeenSet, Tokens};
use idempotence_test_servers::RedisServer;
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::io::tcp::TcpSettings;
use redis::{Client, IntoConnectionInfo as _, Script, cmd};
use sha2::{Digest as _, Sha256};
use tokio::runtime::Runtime;

use crate::latency::Took;
use crate::{Lap, Run, arguments, hex, owner, timed};

/// The numbers of concurrent tasks.
pub const TASKS: [u32; 2] = [1, 64];

/// The measured mechanism.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanism {
    /// A token is issued and redeemed: two round trips.
    Token,
    /// The first attempt of a window is counted: one round trip.
    Counter,
    /// A new member is added to a seen-set: one round trip.
    Seen,
    /// A new member is inserted into a Bloom filter: one round trip.
    Bloom,
}

impl Mechanism {
    /// All mechanisms.
    pub const ALL: [Self; 4] = [Self::Token, Self::Counter, Self::Seen, Self::Bloom];
}

/// A private server, and both contenders connected to it.
pub struct Mechanisms {
    runtime: Runtime,
    ours: Ours,
    by_hand: ByHand,
    _server: RedisServer,
}

impl Mechanisms {
    /// Starts the server and connects.
    pub fn start() -> Self {
        let server = RedisServer::start().expect("redis-server is installed");
        let runtime = Runtime::new().expect("a runtime");
        let info = server.url().into_connection_info().expect("a URL");
        let tcp = TcpSettings::default().set_nodelay(true);
        let client = Client::open(info.set_tcp_settings(tcp)).expect("a client");
        let (ours, by_hand) = runtime.block_on(async {
            let config =
                ConnectionManagerConfig::new().set_response_timeout(Some(Duration::from_secs(10)));
            let connection = client.get_connection_manager_with_config(config).await;
            let connection = connection.expect("a connection");
            // On a `ConnectionManager` a store sends each operation as its own request.
            let store = RedisStore::connect(&server.url()).await;
            let idempotency = Idempotency::new(store.expect("a store"));
            (Ours::new(&idempotency), ByHand::new(connection).await)
        });
        Self {
            runtime,
            ours,
            by_hand,
            _server: server,
        }
    }

    /// The crate and by hand, from `tasks` tasks.
    pub fn laps(&self, mechanism: Mechanism, tasks: u32) -> Vec<Lap<'_>> {
        vec![
            ("ours", self.lap(mechanism, tasks, self.ours.clone())),
            ("by hand", self.lap(mechanism, tasks, self.by_hand.clone())),
        ]
    }

    /// Bytes of memory per member after a million members of the crate.
    pub fn bytes_per_member(&self, mechanism: Mechanism) -> f64 {
        const MEMBERS: u32 = 1_000_000;
        let used = || self.runtime.block_on(self.by_hand.used_memory());
        self.runtime.block_on(self.by_hand.flush());
        let before = used();
        let ours = self.ours.clone();
        match mechanism {
            // Tokens are issued but not redeemed, because most tokens never are.
            Mechanism::Token => drop(timed(
                &self.runtime,
                (0..64).map(|_| ours.clone().issue(MEMBERS / 64)),
            )),
            _ => drop(self.lap(mechanism, 64, ours)(u64::from(MEMBERS / 64))),
        }
        let after = used();
        self.runtime.block_on(self.by_hand.flush());
        (after - before) / f64::from(MEMBERS)
    }

    fn lap<'a>(&'a self, mechanism: Mechanism, tasks: u32, contender: impl Contender) -> Run<'a> {
        Box::new(move |calls| {
            let task = |_| in_a_loop(mechanism, contender.clone(), calls);
            Took::total(timed(&self.runtime, (0..tasks).map(task)).0)
        })
    }
}

async fn in_a_loop(mechanism: Mechanism, contender: impl Contender, calls: u64) {
    for _ in 0..calls {
        let (member, _) = arguments();
        match mechanism {
            Mechanism::Token => contender.token(member).await,
            Mechanism::Counter => contender.count(member).await,
            Mechanism::Seen => contender.see(member).await,
            Mechanism::Bloom => contender.mark(member).await,
        }
    }
}

trait Contender: Clone + Send + Sync + 'static {
    fn token(&self, subject: u64) -> impl Future<Output = ()> + Send;
    fn count(&self, page: u64) -> impl Future<Output = ()> + Send;
    fn see(&self, member: u64) -> impl Future<Output = ()> + Send;
    fn mark(&self, member: u64) -> impl Future<Output = ()> + Send;
}

const OPERATION: &str = "bench.submit";
const LIFE: Duration = Duration::from_hours(1);
const MEMBERS: u64 = 1_000_000;

#[derive(Clone)]
struct Ours {
    tokens: Tokens,
    counter: Counter,
    seen: SeenSet,
    bloom: Bloom,
}

impl Ours {
    fn new(idempotency: &Idempotency) -> Self {
        let counter = idempotency.counter(OPERATION, 5, LIFE);
        let seen = idempotency.seen_set(OPERATION, LIFE);
        let bloom = idempotency.bloom(OPERATION, MEMBERS, 0.01, LIFE);
        Self {
            tokens: idempotency.tokens(),
            counter: counter.expect("a counter"),
            seen: seen.expect("a set"),
            bloom: bloom.expect("a filter"),
        }
    }

    async fn issue(self, times: u32) {
        for _ in 0..times {
            let (subject, _) = arguments();
            let issued = self.tokens.issue(&subject, OPERATION, LIFE).await;
            issued.expect("a token");
        }
    }
}

impl Contender for Ours {
    async fn token(&self, subject: u64) {
        let issued = self.tokens.issue(&subject, OPERATION, LIFE).await;
        let token = issued.expect("a token");
        let redeemed = self.tokens.redeem(token.as_str(), &subject, OPERATION);
        redeemed.await.expect("a fresh token");
    }

    async fn count(&self, page: u64) {
        let attempt = self.counter.attempt(&page).await;
        assert_eq!(attempt.expect("within the limit").number(), 1);
    }

    async fn see(&self, member: u64) {
        let first = self.seen.first_time(&member).await;
        assert!(first.expect("an answer").is_first());
    }

    async fn mark(&self, member: u64) {
        let _ = self.bloom.hint(&member).await.expect("an answer");
    }
}

/// The minimal correct code: a token that is fresh, used or unknown; a count whose window starts with its first attempt; a
/// set of today and of yesterday; a bitmap of today and of yesterday. (One set or bitmap with an expiry would forget all its
/// members at once, also the newest.) It uses the same connection and keys of the same length.
#[derive(Clone)]
struct ByHand {
    connection: ConnectionManager,
    redeem: String,
    count: String,
    see: String,
    mark: String,
}

impl ByHand {
    async fn new(mut connection: ConnectionManager) -> Self {
        let load = async |source: &str| {
            let script = Script::new(source);
            let loaded = script.load_async(&mut connection).await;
            loaded.expect("the script is loaded")
        };
        let mut load = load;
        let redeem = load(
            "local state = redis.call('GET', KEYS[1])
             if state ~= 'fresh' then return state end
             redis.call('SET', KEYS[1], 'used', 'KEEPTTL')
             return 1",
        )
        .await;
        let count = load(
            "local count = redis.call('INCR', KEYS[1])
             if count == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
             return count",
        )
        .await;
        let see = load(
            "if redis.call('SISMEMBER', KEYS[2], ARGV[1]) == 1 then return 0 end
             local added = redis.call('SADD', KEYS[1], ARGV[1])
             if redis.call('PTTL', KEYS[1]) < 0 then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
             return added",
        )
        .await;
        let mark = load(
            "local before, seen = 1, 1
             for i = 2, #ARGV do
               if redis.call('GETBIT', KEYS[2], ARGV[i]) == 0 then before = 0 break end
             end
             for i = 2, #ARGV do
               if redis.call('SETBIT', KEYS[1], ARGV[i], 1) == 0 then seen = before end
             end
             if redis.call('PTTL', KEYS[1]) < 0 then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
             return seen",
        )
        .await;
        Self {
            connection,
            redeem,
            count,
            see,
            mark,
        }
    }

    async fn used_memory(&self) -> f64 {
        let mut connection = self.connection.clone();
        let info = cmd("INFO").arg("memory").query_async(&mut connection).await;
        let info: String = info.expect("an answer");
        let used = info
            .lines()
            .find_map(|line| line.strip_prefix("used_memory:"));
        used.expect("a line").trim().parse().expect("a number")
    }

    async fn flush(&self) {
        let mut connection = self.connection.clone();
        let flushed = cmd("FLUSHALL").exec_async(&mut connection).await;
        flushed.expect("an answer");
    }

    async fn call(&self, script: &str, keys: &[&str], args: &[&str]) -> i64 {
        let mut connection = self.connection.clone();
        let mut call = cmd("EVALSHA");
        call.arg(script).arg(keys.len()).arg(keys).arg(args);
        call.query_async(&mut connection).await.expect("an answer")
    }
}

impl Contender for ByHand {
    async fn token(&self, subject: u64) {
        let mut connection = self.connection.clone();
        let token = owner() + &owner();
        let digest = |token: &str| {
            let digest = Sha256::new()
                .chain_update(token)
                .chain_update(OPERATION)
                .chain_update(subject.to_le_bytes())
                .finalize();
            let mut text = [0; 64];
            let text =
                base16ct::lower::encode_str(&digest, &mut text).expect("two characters per byte");
            format!("idem:#token:{OPERATION}:{text}")
        };
        let mut issue = cmd("SET");
        let issued = issue
            .arg(digest(&token))
            .arg("fresh")
            .arg("NX")
            .arg("PX")
            .arg(MILLIS)
            .exec_async(&mut connection);
        issued.await.expect("an answer");
        assert_eq!(self.call(&self.redeem, &[&digest(&token)], &[]).await, 1);
    }

    async fn count(&self, page: u64) {
        let key = format!("idem:#count:{OPERATION}:{}", digest(page));
        assert_eq!(self.call(&self.count, &[&key], &[MILLIS]).await, 1);
    }

    async fn see(&self, member: u64) {
        let keys = ["idem:#seen:{bench.submit}:0", "idem:#seen:{bench.submit}:1"];
        let member = digest(member);
        assert_eq!(self.call(&self.see, &keys, &[&member, TWICE]).await, 1);
    }

    async fn mark(&self, member: u64) {
        // 9.6 bits per member and 7 positions: an error rate of 1 %.
        let bits = MEMBERS * 96 / 10;
        let mix = u128::from_str_radix(&digest(member), 16).expect("digits");
        let [one, other] = [mix, mix >> 64].map(|half| u64::try_from(half & u128::from(u64::MAX)));
        let (one, other) = (one.expect("64 bits"), other.expect("64 bits") | 1);
        let positions: Vec<String> = (0..7)
            .map(|time| (one.wrapping_add(other.wrapping_mul(time)) % bits).to_string())
            .collect();
        let mut args = vec![TWICE];
        args.extend(positions.iter().map(String::as_str));
        let keys = [
            "idem:#bloom:{bench.submit}:0",
            "idem:#bloom:{bench.submit}:1",
        ];
        self.call(&self.mark, &keys, &args).await;
    }
}

const MILLIS: &str = "3600000";

/// The life of a set or a bitmap whose last member is added at its end.
const TWICE: &str = "7200000";

fn digest(member: u64) -> String {
    use md5::Md5;

    let digest = Md5::new().chain_update(member.to_le_bytes()).finalize();
    hex(&digest.into(), &mut [0; 32]).to_owned()
}
