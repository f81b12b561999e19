//! A worker process. It uses the crate like its users and writes the history of its calls.

mod job;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use std::{io, panic, thread};

use idempotence::store::{Store, StoreError};
use idempotence::testkit::batch_counts;
use idempotence::{Event, EventKind, Idempotency, MySqlStore, RedisStore, Settings};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::time::{Instant, sleep, timeout};

use self::job::Job;
use crate::broken::{BrokenStore, Fault};
use crate::history::{
    Answer, Batches, Call, Endpoint, History, HistoryEvent, Key, Micros, NOTED, now,
};

/// The lease of all claims except those of `Coupon`.
pub const LEASE: Micros = 400_000;
/// The grace after the lease: the shortest possible grace.
pub const GRACE: Micros = 250_000;
/// How long a call waits for the store before its body, and again after it.
pub const DEADLINE: Micros = 1_000_000;

/// Whether the calls of this worker have `settle = "background"`, by a setting in its environment.
pub const fn settles_in_background(process: u32) -> bool {
    process.is_multiple_of(2)
}

/// A variable and its value for these workers.
pub(crate) const BACKGROUND: (&str, &str) = ("IDEMPOTENCE_SETTLE", "background");

/// The arguments of a worker.
#[derive(Debug, Clone)]
pub struct Work {
    /// The number of the worker in the run.
    pub process: u32,
    /// The URL of the store.
    pub url: String,
    /// The path of its history.
    pub history: PathBuf,
    /// The seed of its random numbers.
    pub seed: u64,
    /// The number of its callers.
    pub callers: u32,
    /// The mistake.
    pub fault: Fault,
}

impl Work {
    /// The work as arguments of the command line.
    pub fn args(&self) -> [String; 6] {
        [
            self.process.to_string(),
            self.url.clone(),
            self.history.display().to_string(),
            self.seed.to_string(),
            self.callers.to_string(),
            self.fault.to_string(),
        ]
    }

    /// Parses the arguments of [`args`](Self::args).
    pub fn from_args(args: &[String]) -> Option<Self> {
        let [process, url, history, seed, callers, fault] = args else {
            return None;
        };
        Some(Self {
            process: process.parse().ok()?,
            url: url.clone(),
            history: history.into(),
            seed: seed.parse().ok()?,
            callers: callers.parse().ok()?,
            fault: fault.parse().ok()?,
        })
    }
}

/// Works until the standard input is closed, also by the death of the parent process.
///
/// # Errors
///
/// If the history cannot be opened.
pub async fn run(work: Work) -> io::Result<()> {
    let process = work.process;
    let history = Arc::new(History::open(&work.history, process)?);
    note_panics(&history, process);
    note_starvation(&history, process);
    // A body runs beside another one only if its tasks are late for the grace, when its lease ends and when it is dropped.
    tokio::spawn(note_late_tasks(Arc::clone(&history), process, GRACE / 2));
    let stop = Arc::new(AtomicBool::new(false));
    let answer = Arc::clone(&stop);
    thread::spawn(move || {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        answer.store(true, Ordering::Relaxed);
    });

    let Some(store) = connect(&work.url, &stop).await else {
        history.note(HistoryEvent::Finished(process));
        return Ok(());
    };
    let idempotency = handle(store, &work, &history);
    let calls = Arc::new(AtomicU32::new(0));
    let callers = (0..work.callers).map(|caller| {
        let caller = Caller {
            process,
            calls: Arc::clone(&calls),
            history: Arc::clone(&history),
            idempotency: idempotency.clone(),
            fault: work.fault,
            random: StdRng::seed_from_u64(work.seed ^ u64::from(process) << 16 ^ u64::from(caller)),
        };
        tokio::spawn(caller.call_until(Arc::clone(&stop)))
    });
    let counting = tokio::spawn(note_batches(Arc::clone(&history), process));
    for caller in callers.collect::<Vec<_>>() {
        // The panic hook has noted a panic.
        let _ = caller.await;
    }
    let _ = idempotency.drain(Duration::from_secs(5)).await;
    counting.abort();
    history.note(HistoryEvent::Batches(process, batches()));
    history.note(HistoryEvent::Finished(process));
    Ok(())
}

pub(crate) fn note_panics(history: &Arc<History>, process: u32) {
    let history = Arc::clone(history);
    let default = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        history.note(HistoryEvent::Panicked(process));
        default(panic);
    }));
}

/// Starts a thread that notes pauses. A machine that is too busy to run this thread does not run the other threads. The effect
/// is the same as of a planned pause. Also notes that the process runs, because a process that is killed in a pause cannot note the
/// pause.
pub(crate) fn note_starvation(history: &Arc<History>, process: u32) {
    let history = Arc::clone(history);
    thread::spawn(move || {
        let mut last = now();
        let mut awake = 0;
        loop {
            thread::sleep(Duration::from_millis(10));
            let paused = now() - last;
            if paused > NOTED {
                history.note(HistoryEvent::Starved(process, paused));
            }
            last = now();
            if last - awake > NOTED / 2 {
                history.note(HistoryEvent::Awake(process));
                awake = last;
            }
        }
    });
}

/// Notes when the tasks of the process run later than `least`. A machine that is too busy for all tasks may still run the thread of
/// [`note_starvation`], which sleeps most of the time.
pub(crate) async fn note_late_tasks(history: Arc<History>, process: u32, least: Micros) {
    loop {
        let before = now();
        sleep(Duration::from_millis(10)).await;
        let paused = now() - before;
        if paused > least {
            history.note(HistoryEvent::Starved(process, paused));
        }
    }
}

/// Notes the batches of the process again and again, because the process may be killed at any time.
async fn note_batches(history: Arc<History>, process: u32) {
    let mut noted = Batches::default();
    loop {
        sleep(Duration::from_millis(50)).await;
        let batches = batches();
        if batches != noted {
            history.note(HistoryEvent::Batches(process, batches));
            noted = batches;
        }
    }
}

fn batches() -> Batches {
    let counts = batch_counts();
    let count = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
    Batches {
        sent: count(counts.batches),
        operations: count(counts.operations),
        broken: count(counts.broken),
    }
}

/// Connects to the store, and tries again until it answers or `stop` is set.
pub(crate) async fn connect(url: &str, stop: &AtomicBool) -> Option<Arc<dyn Store>> {
    while !stop.load(Ordering::Relaxed) {
        match connect_once(url).await {
            Ok(store) => return Some(store),
            // The server may be down at this moment.
            Err(_) => sleep(Duration::from_millis(20)).await,
        }
    }
    None
}

async fn connect_once(url: &str) -> Result<Arc<dyn Store>, StoreError> {
    if url.starts_with("mysql") {
        return Ok(Arc::new(MySqlStore::connect(url).await?));
    }
    let options = RedisStore::options().batch_above(2);
    Ok(Arc::new(options.connect(url).await?))
}

tokio::task_local! {
    /// The call of a task.
    static CALL: Call;
}

fn handle(store: Arc<dyn Store>, work: &Work, history: &Arc<History>) -> Idempotency {
    let fault = work.fault;
    let builder = match fault {
        Fault::RemovesOthers | Fault::RefusesItself | Fault::LosesResults => {
            Idempotency::builder(BrokenStore { store, fault })
        }
        _ => Idempotency::builder(store),
    };
    let history = Arc::clone(history);
    let builder = if settles_in_background(work.process) {
        builder.settings(Settings::env())
    } else {
        builder
    };
    builder
        .deadline(Duration::from_micros(DEADLINE))
        .observer(move |event: &Event<'_>| {
            // Events of background tasks come after the answer to the caller.
            if matches!(event.kind(), EventKind::Unrecorded | EventKind::Unconfirmed)
                && let Ok(call) = CALL.try_with(|call| *call)
            {
                history.note(HistoryEvent::Unrecorded(call));
            }
        })
        .build()
        .expect("a deadline and settings that are allowed")
}

/// A caller. It repeats a call until it gets a result.
struct Caller {
    process: u32,
    calls: Arc<AtomicU32>,
    history: Arc<History>,
    idempotency: Idempotency,
    fault: Fault,
    random: StdRng,
}

/// New keys start after this time, in microseconds.
const EPOCH: u64 = 250_000;
/// The number of new keys of each epoch.
const KEYS: u64 = 6;
/// The number of epochs whose keys are called.
const EPOCHS: u64 = 5;
/// Most calls and bodies begin and end at a multiple of this time, in microseconds. Then the operations of many callers go to
/// the store together, in batches.
const TICK: Micros = 20_000;
const LONGEST_RETRY: Duration = Duration::from_secs(4);

/// Waits for the next multiple of [`TICK`].
async fn next_tick() {
    sleep(Duration::from_micros(TICK - now() % TICK)).await;
}

impl Caller {
    async fn call_until(mut self, stop: Arc<AtomicBool>) {
        while !stop.load(Ordering::Relaxed) {
            let first = self.next_call();
            let key = if self.random.random_ratio(1, 8) {
                self.private_key(first)
            } else {
                self.shared_key()
            };
            let give_up_at = Instant::now() + LONGEST_RETRY;
            let mut call = first;
            loop {
                let answer = self.call(call, key).await;
                sleep(self.pause()).await;
                if self.random.random_ratio(3, 4) {
                    next_tick().await;
                }
                let again = !matches!(answer, Answer::Success | Answer::Replay(_) | Answer::Done);
                if !again || stop.load(Ordering::Relaxed) || Instant::now() > give_up_at {
                    break;
                }
                call = self.next_call();
            }
        }
    }

    fn next_call(&self) -> Call {
        Call {
            process: self.process,
            number: self.calls.fetch_add(1, Ordering::Relaxed),
        }
    }

    fn pause(&mut self) -> Duration {
        Duration::from_millis(self.random.random_range(5..50))
    }

    /// A key that all processes call at this time. New keys are more frequent.
    fn shared_key(&mut self) -> Key {
        let back = self.random.random_range(0..EPOCHS);
        let back = back.min(self.random.random_range(0..EPOCHS));
        let epoch = (now() / EPOCH).saturating_sub(back);
        let number = epoch * KEYS + self.random.random_range(0..KEYS);
        let endpoint = Endpoint::ALL[usize::try_from(number % 5).unwrap_or_default()];
        Key { endpoint, number }
    }

    /// A key that no other caller uses. A duplicate of it was refused for its own call.
    fn private_key(&mut self, first: Call) -> Key {
        Key {
            endpoint: Endpoint::ALL[self.random.random_range(0..Endpoint::ALL.len())],
            number: 1 << 62 | first.value(),
        }
    }

    async fn call(&mut self, call: Call, key: Key) -> Answer {
        let lasts = match self.random.random_range(0..100) {
            0..60 => 0..20,
            60..90 => 20..300,
            // Longer than the lease.
            _ => 400..1500,
        };
        let job = Job {
            call,
            key,
            history: &self.history,
            lasts: Duration::from_millis(self.random.random_range(lasts)),
            fails: self.random.random_ratio(1, 8),
            ends_at_tick: self.random.random_ratio(3, 4),
        };
        let caller_timeout = if self.random.random_ratio(1, 25) {
            Duration::from_millis(self.random.random_range(1..400))
        } else {
            Duration::from_mins(1)
        };
        self.history.note(HistoryEvent::Called(call, key));
        let answer = CALL.scope(call, job.call(self.fault));
        let answer = timeout(caller_timeout, self.idempotency.scope(answer)).await;
        let answer = answer.unwrap_or(Answer::GaveUp);
        self.history.note(HistoryEvent::Answered(call, key, answer));
        answer
    }
}
