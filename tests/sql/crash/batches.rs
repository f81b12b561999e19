//! PostgreSQL and MariaDB: many calls of one process go in batches on one connection, and the process or the server is killed at
//! every message of that connection.

use std::collections::BTreeSet;
use std::env::var;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use idempotence::testkit::batch_counts;
use idempotence_test_servers::{MariaDbServer, PostgresServer};
use idempotent_runtime::{Error, Idempotency, Release};
use idempotent_sql::sql::Database;
use idempotent_sql::{MySqlStore, PostgresStore, SqlStore};
use sqlx::pool::PoolOptions;
use sqlx::{Connection, MySql, Postgres};
use tokio::runtime::{Builder, Runtime};

use crate::crash::lanes::{LANES, Server, Victim, databases, stop_at};
use crate::crash::process::{CALL, Process, URL};
use support::wire::Point;

/// When a process answers its client, for a call whose result is recorded.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Answers {
    /// When the call has its answer.
    AfterTheRecord,
    /// When the body ends: a mistake that the test must find.
    BeforeTheRecord,
}

macro_rules! tests {
    ($database:ident, $Server:ty) => {
        mod $database {
            use super::*;

            #[test]
            fn a_process_killed_at_any_message_of_its_batches_loses_nothing() {
                let server = <$Server>::shared().unwrap();
                nothing_is_lost(server, Victim::Process);
            }

            #[test]
            fn a_server_killed_at_any_message_of_a_batch_loses_nothing() {
                let server = <$Server>::start().unwrap();
                nothing_is_lost(&server, Victim::Server);
            }

            #[test]
            fn an_answer_before_the_batch_is_committed_is_found() {
                let server = <$Server>::shared().unwrap();
                let crashes = at_every_message(server, Victim::Process, Answers::BeforeTheRecord);
                assert!(crashes.iter().any(Crash::has_lost));
            }
        }
    };
}

tests!(postgres, PostgresServer);
tests!(mariadb, MariaDbServer);

/// The calls of a process whose connection stopped, and the calls of the retry.
#[derive(Debug)]
struct Crash {
    #[expect(dead_code, reason = "it is printed")]
    point: Point,
    /// The calls that the first process answered.
    answered: BTreeSet<usize>,
    /// Who ran each call, according to the answers of the retry.
    retried: Vec<String>,
}

/// Every third call releases its key.
fn is_released(call: usize) -> bool {
    call.is_multiple_of(3)
}

impl Crash {
    /// Whether the retry did not get an answer of the first process.
    fn has_lost(&self) -> bool {
        let mut answered = self.answered.iter();
        answered.any(|call| !is_released(*call) && self.retried[*call] != FIRST)
    }

    /// How many results of the first process are recorded.
    fn recorded(&self) -> usize {
        self.retried.iter().filter(|by| *by == FIRST).count()
    }
}

/// Repeats the crashes until some were before the first commit, some between two commits and some after the last commit, and
/// some calls were answered. On a busy machine that may need more than one round.
fn nothing_is_lost(server: &impl Server, victim: Victim) {
    let mut crashes = Vec::new();
    for _ in 0..5 {
        crashes.extend(at_every_message(server, victim, Answers::AfterTheRecord));
        for crash in &crashes {
            assert!(!crash.has_lost(), "{crash:#?}");
            let runs_again = |call| !is_released(call) || crash.retried[call] == RETRY;
            assert!((0..CALLS).all(runs_again), "{crash:#?}");
        }
        let recorded: BTreeSet<_> = crashes.iter().map(Crash::recorded).collect();
        let is_answered = crashes.iter().any(|crash| !crash.answered.is_empty());
        if recorded.len() > 2 && recorded.contains(&0) && recorded.contains(&all()) && is_answered {
            return;
        }
    }
    panic!("5 rounds of crashes do not show all sides of the commits: {crashes:#?}");
}

/// How many calls record a result.
fn all() -> usize {
    (0..CALLS).filter(|call| !is_released(*call)).count()
}

/// More calls than callers that send their own changes, so the others go in batches.
const CALLS: usize = 24;
/// Far more than a process has.
const MOST_POINTS: usize = 500;
const FIRST: &str = "the first";
const RETRY: &str = "the retry";
const TTL: Duration = Duration::from_hours(1);
/// The lease of the first process, for which the retry waits.
const LEASE: Duration = Duration::from_secs(1);
/// The deadline of the first process.
const DEADLINE: Duration = Duration::from_secs(3);
/// The lease and the grace of a dead process, and time for a busy machine.
const MAX_WAIT: Duration = Duration::from_mins(1);

/// Kills the victim at each message, until a crash is after the last message, or has lost an answer.
fn at_every_message(server: &impl Server, victim: Victim, answers: Answers) -> Vec<Crash> {
    let databases = databases(server, set_up);
    let runtime = Runtime::new().unwrap();
    let mut crashes: Vec<Crash> = Vec::new();
    // For a server, a message that does not arrive is the end of the message before.
    let is_other = |point: &Point| victim == Victim::Process || !matches!(point, Point::Lost(_));
    let mut points = Point::all().filter(is_other).take(MOST_POINTS);
    loop {
        let points: Vec<_> = points.by_ref().take(LANES).collect();
        if points.is_empty() {
            break;
        }
        let name = |point| format!("{point:?} {victim:?}");
        let start = |point, url: &str| {
            let call = format!("{answers:?} {}", name(point));
            let mut process =
                Process::spawn("crash::batches::a_process_with_many_calls", &call, url);
            process.go_on();
            process
        };
        let stopped = stop_at(&points, &databases, server, victim, start, Printed::of);
        let (reached, ended): (Vec<_>, Vec<_>) =
            stopped.into_iter().partition(|lane| lane.is_reached);
        let retries = reached.into_iter().map(async |lane| {
            let handle = handle(&lane.url, MAX_WAIT);
            let name = name(lane.point);
            let calls = (0..CALLS).map(|call| pay(&handle, &name, call, RETRY, || ()));
            let retried: Result<_, _> = join_all(calls).await.into_iter().collect();
            let retried = retried.map_err(|error| format!("after {name}: {error}"));
            Crash {
                point: lane.point,
                answered: lane.printed.answered,
                retried: retried.unwrap(),
            }
        });
        crashes.extend(runtime.block_on(join_all(retries)));
        for lane in &ended {
            // The number of messages differs from process to process. Some of them were batches.
            assert!(lane.printed.has_batches, "{:?}", lane.point);
        }
        let is_over = crashes.iter().any(|crash| crash.recorded() == all());
        if crashes.iter().any(Crash::has_lost) || (is_over && !ended.is_empty()) {
            break;
        }
    }
    crashes
}

/// What a process printed.
struct Printed {
    answered: BTreeSet<usize>,
    has_batches: bool,
}

impl Printed {
    fn of(process: &mut Process) -> Self {
        let mut printed = Self {
            answered: BTreeSet::new(),
            has_batches: false,
        };
        for line in process.all_after(PRINTED) {
            match line.parse() {
                Ok(call) => drop(printed.answered.insert(call)),
                Err(_) => printed.has_batches = line == BATCHES,
            }
        }
        printed
    }
}

/// Makes the tables.
fn set_up(url: &str) {
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        match scheme(url) {
            "postgres" => drop(PostgresStore::connect(url).await.unwrap()),
            _ => drop(MySqlStore::connect(url).await.unwrap()),
        }
    });
}

async fn pay(
    handle: &Idempotency,
    point: &str,
    call: usize,
    by: &str,
    at_its_end: impl Fn() + Send + Sync,
) -> Result<String, Error> {
    let guarded = handle.call("orders.pay").key(point);
    let guarded = guarded.key(&call).wait(MAX_WAIT);
    let lease = if by == FIRST { LEASE } else { MAX_WAIT };
    let body = async {
        at_its_end();
        Ok(by.to_owned())
    };
    if is_released(call) {
        let guarded = guarded.ttl(lease).release(Release::Always);
        guarded.run(body).await
    } else {
        guarded.ttl(TTL).lease(lease).replay().run(body).await
    }
}

fn handle(url: &str, deadline: Duration) -> Idempotency {
    match scheme(url) {
        "postgres" => on_one_connection::<Postgres>(url, deadline),
        _ => on_one_connection::<MySql>(url, deadline),
    }
}

fn scheme(url: &str) -> &str {
    url.split_once(':').unwrap().0
}

fn on_one_connection<DB: Database>(url: &str, deadline: Duration) -> Idempotency {
    let options: <DB::Connection as Connection>::Options = url.parse().unwrap();
    let pool = PoolOptions::<DB>::new().max_connections(1);
    let pool = pool.test_before_acquire(false).connect_lazy_with(options);
    let handle = Idempotency::builder(SqlStore::new(pool));
    handle.deadline(deadline).build().unwrap()
}

const PRINTED: &str = "printed: ";
const BATCHES: &str = "batches";

/// The code of the processes. Does nothing without the environment that [`Process::spawn`] sets.
#[test]
fn a_process_with_many_calls() {
    let (Ok(call), Ok(url)) = (var(CALL), var(URL)) else {
        return;
    };
    let (answers, point) = call.split_once(' ').unwrap();
    let is_early = answers == format!("{:?}", Answers::BeforeTheRecord);
    // One thread, so that all calls begin before the first message.
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let handle = handle(&url, DEADLINE);
        let calls = (0..CALLS).map(async |call| {
            let ended = OnceLock::new();
            let at_its_end = || {
                ended.get_or_init(Instant::now);
                if is_early {
                    answered(call);
                }
            };
            let paid = pay(&handle, point, call, FIRST, at_its_end).await;
            // After a longer time the call may have given up to record its result.
            let is_recorded = paid.is_ok()
                && ended
                    .get()
                    .is_some_and(|ended| ended.elapsed() < DEADLINE / 3);
            if is_recorded && !is_early {
                answered(call);
            }
        });
        join_all(calls).await;
    });
    let counts = batch_counts();
    if counts.batches > 1 && counts.operations > 10 {
        println!("\n{PRINTED}{BATCHES}");
    }
}

fn answered(call: usize) {
    println!("\n{PRINTED}{call}");
}
