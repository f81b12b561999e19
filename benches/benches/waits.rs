//! Prints how long the calls wait of 64 that want one key at once, on each store: the longest wait, half of the waits, and the time
//! until all have run. The body takes 5 ms, so calls without pauses between them end after 320 ms, with three permits after 110 ms.
//!
//! The calls are made by one process, where they follow each other, or by eight, which compete for the key: eight handles with
//! connections of their own. `-- redis` measures one of `memory`, `redis`, `postgres`, `mariadb` and `sqlite`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use idempotence::{Error, Idempotency, MemoryStore, Release};
use idempotence_benches::rounds::{is_asked_for, machine};
use idempotence_test_servers::{MariaDbServer, PostgresServer, RedisServer};
use tokio::runtime::Runtime;
use tokio::sync::Barrier;

const CALLS: usize = 64;
const PROCESSES: usize = 8;
const ROUNDS: u64 = 9;
const BODY: Duration = Duration::from_millis(5);

fn main() {
    println!("{}", machine("Rust client sqlx 0.9"));
    println!(
        "\n| {CALLS} calls of one key | longest wait | half wait at most | all have run after |"
    );
    println!("| --- | ---: | ---: | ---: |");
    let runtime = Runtime::new().expect("a runtime");
    if is_asked_for("memory") {
        let store = Arc::new(MemoryStore::new());
        let handles: Vec<_> = (0..PROCESSES)
            .map(|_| Idempotency::new(Arc::clone(&store)))
            .collect();
        compare(&runtime, "memory", &handles);
    }
    if is_asked_for("redis") {
        let server = RedisServer::start().expect("redis-server is installed");
        on_url(&runtime, "Redis", &server.url());
    }
    if is_asked_for("postgres") {
        let server = PostgresServer::start_with(["-c", "fsync=on"]).expect("postgres is installed");
        on_url(
            &runtime,
            "PostgreSQL",
            &server.database().expect("a database"),
        );
    }
    if is_asked_for("mariadb") {
        let server = MariaDbServer::start_with(["--innodb-flush-log-at-trx-commit=1"]);
        let server = server.expect("mariadbd is installed");
        on_url(&runtime, "MariaDB", &server.database().expect("a database"));
    }
    if is_asked_for("sqlite") {
        let file = format!("idempotence-waits-{}", std::process::id());
        let file = std::env::temp_dir().join(file);
        on_url(&runtime, "SQLite", &format!("sqlite:{}", file.display()));
        for end in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{end}", file.display()));
        }
    }
}

fn on_url(runtime: &Runtime, name: &str, url: &str) {
    let handles = runtime.block_on(async {
        let mut handles = Vec::new();
        for _ in 0..PROCESSES {
            handles.push(Idempotency::from_url(url).await.expect("a store"));
        }
        handles
    });
    compare(runtime, name, &handles);
}

fn compare(runtime: &Runtime, name: &str, handles: &[Idempotency]) {
    for (way, handles, permits) in [
        ("1 process", &handles[..1], None),
        ("8 processes", handles, None),
        ("8 processes, `permits = 3`", handles, Some(3)),
    ] {
        let rounds: Vec<_> = (0..ROUNDS)
            .map(|round| runtime.block_on(round_of(handles, round, permits)))
            .collect();
        let [longest, half, all] = [0, 1, 2].map(|column| {
            let mut values: Vec<_> = rounds.iter().map(|round| round[column]).collect();
            values.sort();
            values[values.len() / 2].as_millis()
        });
        println!("| {name}, {way} | {longest} ms | {half} ms | {all} ms |");
    }
}

/// The longest wait, half of the waits, and the time until all have run.
async fn round_of(handles: &[Idempotency], round: u64, permits: Option<u32>) -> [Duration; 3] {
    let start = Arc::new(Barrier::new(CALLS));
    let calls: Vec<_> = (0..CALLS)
        .map(|number| {
            let (handle, start) = (handles[number % handles.len()].clone(), Arc::clone(&start));
            tokio::spawn(async move {
                start.wait().await;
                let made = Instant::now();
                let call = handle.call("bench.waits").key(&(round, permits));
                let call = call.ttl(Duration::from_secs(30)).release(Release::Always);
                let call = call.wait(Duration::from_mins(5));
                let call = match permits {
                    Some(permits) => call.permits(permits),
                    None => call,
                };
                let waited = call.run(async {
                    let waited = made.elapsed();
                    tokio::time::sleep(BODY).await;
                    Ok::<_, Error>(waited)
                });
                (waited.await.expect("the call runs"), made.elapsed())
            })
        })
        .collect();
    let (mut waits, mut all) = (Vec::new(), Duration::ZERO);
    for call in calls {
        let (waited, ended) = call.await.expect("a call ends");
        waits.push(waited);
        all = all.max(ended);
    }
    waits.sort();
    [waits[CALLS - 1], waits[CALLS / 2], all]
}
