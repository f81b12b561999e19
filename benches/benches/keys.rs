//! Prints the table "memory of a key": the bytes that a store needs for each of many keys, beside the same by hand. Bytes do not
//! depend on the load of the machine, and a build without optimization gives the same table:
//! `cargo bench --profile dev --bench keys`.
//!
//! `-- redis` runs one of the stores `redis`, `postgres`, `mariadb` and `sqlite`.

use std::fs;
use std::io;
use std::time::Duration;

use idempotence::sql;
use idempotence::sql::sqlx::{MySql, Pool, Postgres, Sqlite};
use idempotence::{Error, Idempotency, RedisStore, Release, SqlStore};
use idempotence_benches::on_sql::Statements;
use idempotence_benches::rounds::{is_asked_for, machine};
use idempotence_test_servers::{MariaDbServer, PostgresServer, RedisServer};
use redis::aio::MultiplexedConnection;
use redis::{Client, cmd};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

/// The number of keys of a row.
const KEYS: u32 = 200_000;
/// The number of tasks that store them.
const TASKS: u32 = 200;
const LIFE: Duration = Duration::from_hours(1);
/// The length of the owner in records by hand: 32 hexadecimal digits.
const OWNER: &str = "9e107d9d372bb6826bd81d3542a419d6";

fn main() {
    let runtime = Runtime::new().expect("a runtime");
    println!("{}", machine("200,000 keys"));
    println!("\n| bytes of a key | crate | by hand | of by hand |");
    println!("| --- | ---: | ---: | ---: |");
    if is_asked_for("redis") {
        runtime.block_on(on_redis());
    }
    if is_asked_for("postgres") {
        let server = PostgresServer::start().expect("postgres is installed");
        runtime.block_on(on_sql::<Postgres>("PostgreSQL", || server.database()));
    }
    if is_asked_for("mariadb") {
        let server = MariaDbServer::start().expect("mariadbd is installed");
        runtime.block_on(on_sql::<MySql>("MariaDB", || server.database()));
    }
    if is_asked_for("sqlite") {
        let folder = std::env::temp_dir().join(format!("idempotence-keys-{}", std::process::id()));
        fs::create_dir(&folder).expect("a new folder");
        let mut files = 0;
        let file = || {
            files += 1;
            Ok(format!(
                "sqlite:{}",
                folder.join(files.to_string()).display()
            ))
        };
        runtime.block_on(on_sql::<Sqlite>("SQLite", file));
        let _ = fs::remove_dir_all(&folder);
    }
}

/// What is stored under a key.
#[derive(Clone, Copy)]
enum Stored {
    Held,
    Result,
    Member,
    Token,
    Count,
}

impl Stored {
    const ALL: [(Self, &'static str); 5] = [
        (Self::Held, "a held key"),
        (Self::Result, "with a result of 100 bytes"),
        (Self::Member, "a member of a seen-set"),
        (Self::Token, "a token"),
        (Self::Count, "a counter"),
    ];

    /// The value by hand: the owner, the owner and the result, a mark, the digest of the subject, or a number.
    fn by_hand(self) -> String {
        match self {
            Self::Held | Self::Token => OWNER.to_owned(),
            Self::Result => OWNER.to_owned() + &"r".repeat(100),
            Self::Member | Self::Count => "1".to_owned(),
        }
    }

    /// Stores one key with the crate.
    async fn store(self, idempotency: &Idempotency, number: u32) {
        let call = || {
            let call = idempotency.call("bench.upload").key(&number);
            call.ttl(LIFE)
        };
        match self {
            // The claim of such a call stays as it is.
            Self::Held => {
                let call = call().release(Release::Never);
                let held: Result<(), Error> = call.run(async { Ok(()) }).await;
                held.expect("a free key");
            }
            Self::Result => {
                // The quotes of JSON are two bytes.
                let result = async { Ok::<_, Error>("r".repeat(98)) };
                call().replay().run(result).await.expect("a free key");
            }
            Self::Member => {
                let seen = idempotency.seen_set("bench.upload", LIFE);
                let seen = seen.expect("a set");
                let _ = seen.first_time(&number).await.expect("an answer");
            }
            Self::Token => {
                let tokens = idempotency.tokens();
                let issued = tokens.issue(&number, "bench.upload", LIFE).await;
                issued.expect("a token");
            }
            Self::Count => {
                let counter = idempotency.counter("bench.upload", 5, LIFE);
                let counter = counter.expect("a counter");
                counter.attempt(&number).await.expect("an answer");
            }
        }
    }
}

/// Stores all keys from many tasks.
async fn store_all(idempotency: &Idempotency, stored: Stored) {
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let idempotency = idempotency.clone();
        tasks.spawn(async move {
            for number in (task..KEYS).step_by(TASKS as usize) {
                stored.store(&idempotency, number).await;
            }
        });
    }
    tasks.join_all().await;
}

/// The bytes of a row: of the crate and by hand.
fn print(store: &str, name: &str, [ours, by_hand]: [i64; 2]) {
    let per_key = |bytes: i64| bytes / i64::from(KEYS);
    #[expect(clippy::cast_precision_loss, reason = "a few digits are enough")]
    let ratio = ours as f64 / by_hand as f64;
    println!(
        "| {store}, {name} | {} | {} | {ratio:.2} |",
        per_key(ours),
        per_key(by_hand)
    );
}

async fn on_redis() {
    let server = RedisServer::start().expect("redis-server is installed");
    let store = RedisStore::connect(&server.url()).await;
    let idempotency = Idempotency::new(store.expect("a store"));
    let client = Client::open(server.url()).expect("a client");
    let connection = client.get_multiplexed_async_connection().await;
    let mut connection = connection.expect("a connection");
    for (stored, name) in Stored::ALL {
        let empty = emptied(&mut connection).await;
        store_all(&idempotency, stored).await;
        let ours = used_memory(&mut connection).await - empty;
        let empty = emptied(&mut connection).await;
        for first in (0..KEYS).step_by(1000) {
            let mut batch = redis::pipe();
            for number in first..KEYS.min(first + 1000) {
                let set = batch.cmd("SET").arg(key(number)).arg(stored.by_hand());
                set.arg("PX").arg(3_600_000).ignore();
            }
            let () = batch.query_async(&mut connection).await.expect("an answer");
        }
        let by_hand = used_memory(&mut connection).await - empty;
        print("Redis", name, [ours, by_hand]);
    }
}

/// Empties the server. Returns its `used_memory`.
async fn emptied(connection: &mut MultiplexedConnection) -> i64 {
    let () = cmd("FLUSHALL")
        .query_async(connection)
        .await
        .expect("an answer");
    used_memory(connection).await
}

async fn used_memory(connection: &mut MultiplexedConnection) -> i64 {
    let info = cmd("INFO").arg("memory").query_async(connection).await;
    let info: String = info.expect("an answer");
    let used = info
        .lines()
        .find_map(|line| line.strip_prefix("used_memory:"));
    used.and_then(|used| used.trim().parse().ok())
        .expect("a number")
}

/// The key by hand: as long as the key of a call of the crate.
fn key(number: u32) -> String {
    format!("idem:bench.upload:{number:032x}")
}

/// How a database says what its tables and their indexes need.
trait Size: Statements {
    /// Statements that give the space of removed rows back.
    const PACK: &'static [&'static str];
    /// Reads the bytes of all tables. Only one of them has rows.
    const BYTES: &'static str;
}

impl Size for Postgres {
    const PACK: &'static [&'static str] = &["VACUUM FULL idempotence", "VACUUM FULL by_hand"];
    const BYTES: &'static str =
        "SELECT (pg_total_relation_size('idempotence') + pg_total_relation_size('by_hand'))::text";
}

impl Size for MySql {
    const PACK: &'static [&'static str] = &["OPTIMIZE TABLE idempotence, by_hand"];
    const BYTES: &'static str = "SELECT CAST(sum(data_length + index_length) AS CHAR) \
        FROM information_schema.tables WHERE table_schema = database()";
}

impl Size for Sqlite {
    const PACK: &'static [&'static str] = &["VACUUM"];
    const BYTES: &'static str =
        "SELECT CAST(page_count * page_size AS TEXT) FROM pragma_page_count, pragma_page_size";
}

/// Each row has two new databases. By hand has the same table under another name.
async fn on_sql<DB: Size>(store: &str, mut database: impl FnMut() -> io::Result<String>) {
    for (stored, name) in Stored::ALL {
        let idempotency = new_table::<DB>(database()).await;
        store_all(&Idempotency::new(idempotency.clone()), stored).await;
        let ours = size(idempotency.pool()).await;
        let by_hand = new_table::<DB>(database()).await;
        let fill = DB::FILL.replace("{table}", "by_hand");
        let fill = fill.replace("{rows}", &KEYS.to_string());
        let fill = fill.replace("{size}", &stored.by_hand().len().to_string());
        DB::apply(by_hand.pool(), &fill).await;
        let by_hand = size(by_hand.pool()).await;
        print(store, name, [ours, by_hand]);
    }
}

async fn new_table<DB: Size>(url: io::Result<String>) -> SqlStore<DB> {
    let store = SqlStore::<DB>::connect(&url.expect("a database")).await;
    let store = store.expect("a store");
    for statement in sql::schema::<DB>()
        .replace("idempotence", "by_hand")
        .split(';')
    {
        if !statement.trim().is_empty() {
            DB::apply(store.pool(), statement).await;
        }
    }
    store
}

async fn size<DB: Size>(pool: &Pool<DB>) -> i64 {
    for statement in DB::PACK {
        DB::apply(pool, statement).await;
    }
    DB::text(pool, DB::BYTES).await.parse().expect("a number")
}
