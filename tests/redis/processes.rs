//! Several processes on one Redis. This binary starts itself once for each process.

use std::io::{BufRead, BufReader, Lines, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use idempotence::store::redis::redis::{Client, cmd};
use idempotence::{Error, Idempotency, Once, RedisStore, idempotent};
use idempotence_test_servers::RedisServer;
use tokio::runtime::Runtime;
use tokio::sync::{Barrier, Notify};

const ROUNDS: usize = 100;
const CALLS_PER_PROCESS: usize = 250;

#[test]
fn of_500_equal_calls_in_two_processes_one_runs_each_of_100_rounds() {
    let server = RedisServer::start().unwrap();
    let mut processes = [
        Process::start("race", &server),
        Process::start("race", &server),
    ];
    for process in &mut processes {
        assert_eq!(process.line(), "ready");
    }
    for round in 0..ROUNDS {
        for process in &mut processes {
            process.write(&round.to_string());
        }
        let counts = processes.each_mut().map(|process| {
            let line = process.line();
            let (ran, refused) = line.split_once(' ').unwrap();
            [ran.parse::<usize>().unwrap(), refused.parse().unwrap()]
        });
        let [ran, refused] = [0, 1].map(|i| counts[0][i] + counts[1][i]);
        assert_eq!((ran, refused), (1, 499), "round {round}");
    }
}

#[test]
fn a_process_killed_in_the_body_frees_the_key_after_its_lease() {
    let server = RedisServer::start().unwrap();
    let mut process = Process::start("killed", &server);
    assert_eq!(process.line(), "in the body");

    Runtime::new().unwrap().block_on(async {
        let store = RedisStore::connect(&server.url()).await.unwrap();
        let idempotency = patient(store);
        process.child.kill().unwrap();
        process.child.wait().unwrap();
        let killed = Instant::now();
        let refused = idempotency.scope(endless(1)).await.unwrap_err();
        assert_eq!(refused.code(), "in_progress");
        let freed = loop {
            tokio::select! {
                refused = idempotency.scope(endless(1)) => {
                    assert_eq!(refused.unwrap_err().code(), "in_progress");
                }
                () = ENDLESS.notified() => break killed.elapsed(),
            }
        };
        assert!(freed < LONG_LEASE + Duration::from_secs(20), "{freed:?}");
    });
}

#[test]
fn a_process_that_waits_gets_the_result_of_another() {
    let server = RedisServer::start().unwrap();
    let (mut first, mut second) = one_runs_and_one_waits(&server);
    first.write("a receipt");
    assert_eq!(first.line(), "a receipt, executed");
    assert_eq!(second.line(), "a receipt, replayed");
}

#[test]
fn a_process_that_waits_takes_over_when_the_other_is_killed() {
    let server = RedisServer::start().unwrap();
    let (mut first, mut second) = one_runs_and_one_waits(&server);
    let killed = Instant::now();
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    assert_eq!(second.line(), "in the body");
    let took_over = killed.elapsed();
    assert!(took_over < LEASE + Duration::from_secs(20), "{took_over:?}");
    second.write("another receipt");
    assert_eq!(second.line(), "another receipt, executed");

    let mut third = Process::start("pay", &server);
    assert_eq!(third.line(), "another receipt, replayed");
}

/// Two processes make the same call: the first is in its body, the second waits for the end of the first.
fn one_runs_and_one_waits(server: &RedisServer) -> (Process, Process) {
    let mut first = Process::start("pay", server);
    assert_eq!(first.line(), "in the body");
    let second = Process::start("pay", server);
    let client = Client::open(server.url()).unwrap();
    let mut connection = client.get_connection().unwrap();
    let deadline = Instant::now() + Duration::from_mins(2);
    loop {
        let mut channels = cmd("PUBSUB");
        let channels = channels.arg("CHANNELS").query(&mut connection);
        let channels: Vec<String> = channels.unwrap();
        if channels
            .iter()
            .any(|key| key.starts_with("idem:orders.pay:"))
        {
            return (first, second);
        }
        assert!(
            Instant::now() < deadline,
            "expected a waiting process, got {channels:?}"
        );
    }
}

/// The program of each process. Does nothing without the environment that [`Process::start`] sets.
#[test]
fn another_process() {
    let (Ok(role), Ok(url)) = (std::env::var(ROLE), std::env::var(URL)) else {
        return;
    };
    Runtime::new().unwrap().block_on(async {
        let store = RedisStore::connect(&url).await.unwrap();
        patient(store).install().unwrap();
        match &*role {
            "race" => race().await,
            "pay" => match pay(1).await.unwrap() {
                Once::Executed(receipt) => print(&format!("{receipt}, executed")),
                Once::Replayed(receipt) => print(&format!("{receipt}, replayed")),
            },
            _ => drop(endless(1).await),
        }
    });
}

static RAN: AtomicUsize = AtomicUsize::new(0);

#[idempotent(key = "round", ttl = "1m", release = false)]
async fn once_a_round(round: usize) -> Result<(), Error> {
    RAN.fetch_add(1, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_millis(1)).await;
    Ok(())
}

async fn race() {
    print("ready");
    for round in std::io::stdin().lines() {
        let round = round.unwrap().parse().unwrap();
        let start = Arc::new(Barrier::new(CALLS_PER_PROCESS));
        let calls = (0..CALLS_PER_PROCESS).map(|_| {
            let start = Arc::clone(&start);
            tokio::spawn(async move {
                start.wait().await;
                once_a_round(round).await
            })
        });
        RAN.store(0, Ordering::SeqCst);
        let mut refused = 0;
        for call in calls.collect::<Vec<_>>() {
            if let Err(error) = call.await.unwrap() {
                assert!(error.is_duplicate(), "{error}");
                refused += 1;
            }
        }
        print(&format!("{} {refused}", RAN.load(Ordering::SeqCst)));
    }
}

/// A handle with a deadline that is long enough for a server on a busy machine.
fn patient(store: RedisStore) -> Idempotency {
    let builder = Idempotency::builder(store);
    builder.deadline(Duration::from_mins(1)).build().unwrap()
}

const LEASE: Duration = Duration::from_secs(5);
/// Long enough for a call of another process before the lease of a killed process expires.
const LONG_LEASE: Duration = Duration::from_secs(5);

/// Is notified when the body of [`endless`] runs.
static ENDLESS: Notify = Notify::const_new();

#[idempotent(key = "id", ttl = "1m", lease = "5s")]
async fn endless(id: u64) -> Result<(), Error> {
    print("in the body");
    ENDLESS.notify_one();
    std::future::pending().await
}

#[idempotent(
    key = "id",
    ttl = "1m",
    lease = "5s",
    wait = "1m",
    replay = true,
    name = "orders.pay"
)]
async fn pay(id: u64) -> Result<Once<String>, Error> {
    print("in the body");
    // The test writes the result to this process. A thread reads it, because the lease is renewed in the meantime.
    let receipt = tokio::task::spawn_blocking(|| std::io::stdin().lines().next());
    let receipt = receipt.await.unwrap().unwrap().unwrap();
    Ok(receipt.into())
}

const ROLE: &str = "IDEMPOTENCE_TEST_ROLE";
const URL: &str = "IDEMPOTENCE_TEST_URL";
const MARK: &str = "line: ";

fn print(line: &str) {
    println!("\n{MARK}{line}");
}

struct Process {
    child: Child,
    stdin: ChildStdin,
    stdout: Lines<BufReader<ChildStdout>>,
}

impl Process {
    fn start(role: &str, server: &RedisServer) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "processes::another_process", "--nocapture"])
            .env(ROLE, role)
            .env(URL, server.url())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            stdin: child.stdin.take().unwrap(),
            stdout: BufReader::new(child.stdout.take().unwrap()).lines(),
            child,
        }
    }

    fn write(&mut self, line: &str) {
        writeln!(self.stdin, "{line}").unwrap();
    }

    fn line(&mut self) -> String {
        loop {
            let line = self.stdout.next().unwrap().unwrap();
            if let Some(line) = line.strip_prefix(MARK) {
                return line.to_owned();
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
