//! A process that uses the crate as its users do, and notes what happens to its calls.

mod job;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use std::{io, panic, thread};

use idempotence::{Event, EventKind, Idempotency, RedisStore};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::time::{Instant, sleep, timeout};

use self::job::Job;
use crate::broken::{BrokenStore, Fault};
use crate::history::{Call, Endpoint, History, Key, Micros, NOTED, Told, What, now};

/// The lease of every claim but a coupon's.
pub const LEASE: Micros = 400_000;
/// What the store adds to it: the shortest grace there is.
pub const GRACE: Micros = 250_000;
/// How long the store is waited for before a body, and again after it.
pub const DEADLINE: Micros = 1_000_000;

/// What a worker is started with.
#[derive(Debug, Clone)]
pub struct Work {
    /// Its number among all that are started in a run.
    pub process: u32,
    /// The store.
    pub url: String,
    /// Where it notes what happens.
    pub history: PathBuf,
    /// What its random numbers come from.
    pub seed: u64,
    /// How many callers it has.
    pub callers: u32,
    /// What is broken.
    pub fault: Fault,
}

impl Work {
    /// What it is told on its command line.
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

    /// The work that [`args`](Self::args) describes.
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

/// Works until the standard input ends, as it does when whoever started this is gone.
///
/// # Errors
///
/// If the history cannot be opened.
pub async fn run(work: Work) -> io::Result<()> {
    let process = work.process;
    let history = Arc::new(History::open(&work.history, process)?);
    note_panics(&history, process);
    note_starvation(&history, process);
    let over = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&over);
    thread::spawn(move || {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        told.store(true, Ordering::Relaxed);
    });

    let Some(store) = connect(&work.url, &over).await else {
        history.note(What::Finished(process));
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
        tokio::spawn(caller.call_until(Arc::clone(&over)))
    });
    for caller in callers.collect::<Vec<_>>() {
        // A panic was noted by then.
        let _ = caller.await;
    }
    let _ = idempotency.drain(Duration::from_secs(5)).await;
    history.note(What::Finished(process));
    Ok(())
}

fn note_panics(history: &Arc<History>, process: u32) {
    let history = Arc::clone(history);
    let default = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        history.note(What::Panicked(process));
        default(panic);
    }));
}

/// Has a thread look at the clock again and again. A machine that is too busy to run it does not run
/// the other threads either, and that is a pause as if it was made.
fn note_starvation(history: &Arc<History>, process: u32) {
    let history = Arc::clone(history);
    thread::spawn(move || {
        let mut last = now();
        loop {
            thread::sleep(Duration::from_millis(10));
            let paused = now() - last;
            if paused > NOTED {
                history.note(What::Starved(process, paused));
            }
            last = now();
        }
    });
}

async fn connect(url: &str, over: &AtomicBool) -> Option<RedisStore> {
    while !over.load(Ordering::Relaxed) {
        match RedisStore::connect(url).await {
            Ok(store) => return Some(store),
            // The server may be away just now.
            Err(_) => sleep(Duration::from_millis(20)).await,
        }
    }
    None
}

tokio::task_local! {
    /// The call that a task makes.
    static CALL: Call;
}

fn handle(store: RedisStore, work: &Work, history: &Arc<History>) -> Idempotency {
    let fault = work.fault;
    let builder = match fault {
        Fault::RemovesOthers | Fault::KnowsNotItself | Fault::LosesResults => {
            Idempotency::builder(BrokenStore { store, fault })
        }
        _ => Idempotency::builder(store),
    };
    let history = Arc::clone(history);
    builder
        .deadline(Duration::from_micros(DEADLINE))
        .observer(move |event: &Event<'_>| {
            // What is told by the keeper's task comes after the caller's answer.
            if event.kind() == EventKind::Unrecorded
                && let Ok(call) = CALL.try_with(|call| *call)
            {
                history.note(What::Unrecorded(call));
            }
        })
        .build()
        .expect("a prefix and a deadline that are allowed")
}

/// One who calls, and calls again until there is an answer that is worth something.
struct Caller {
    process: u32,
    calls: Arc<AtomicU32>,
    history: Arc<History>,
    idempotency: Idempotency,
    fault: Fault,
    random: StdRng,
}

/// Keys move on after so long, in microseconds.
const EPOCH: u64 = 250_000;
/// Keys that are new in each epoch.
const KEYS: u64 = 6;
/// Epochs whose keys are called.
const EPOCHS: u64 = 5;
const LONGEST_PERSISTENCE: Duration = Duration::from_secs(4);

impl Caller {
    async fn call_until(mut self, over: Arc<AtomicBool>) {
        while !over.load(Ordering::Relaxed) {
            let first = self.next_call();
            let key = if self.random.random_ratio(1, 8) {
                self.key_of_nobody_else(first)
            } else {
                self.key_of_many()
            };
            let persistent = Instant::now() + LONGEST_PERSISTENCE;
            let mut call = first;
            loop {
                let told = self.call(call, key).await;
                sleep(self.pause()).await;
                let again = !matches!(told, Told::Success | Told::Replay(_) | Told::Done);
                if !again || over.load(Ordering::Relaxed) || Instant::now() > persistent {
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

    /// A key that all processes call in these milliseconds: the newest most often.
    fn key_of_many(&mut self) -> Key {
        let back = self.random.random_range(0..EPOCHS);
        let back = back.min(self.random.random_range(0..EPOCHS));
        let epoch = (now() / EPOCH).saturating_sub(back);
        let number = epoch * KEYS + self.random.random_range(0..KEYS);
        let endpoint = Endpoint::ALL[usize::try_from(number % 5).unwrap_or_default()];
        Key { endpoint, number }
    }

    /// A key that nobody else calls: whoever is told of another call has met itself.
    fn key_of_nobody_else(&mut self, first: Call) -> Key {
        Key {
            endpoint: Endpoint::ALL[self.random.random_range(0..Endpoint::ALL.len())],
            number: 1 << 62 | first.value(),
        }
    }

    async fn call(&mut self, call: Call, key: Key) -> Told {
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
        };
        let patience = if self.random.random_ratio(1, 25) {
            Duration::from_millis(self.random.random_range(1..400))
        } else {
            Duration::from_mins(1)
        };
        self.history.note(What::Called(call, key));
        let answer = CALL.scope(call, job.call(self.fault));
        let answer = timeout(patience, self.idempotency.scope(answer)).await;
        let told = answer.unwrap_or(Told::GaveUp);
        self.history.note(What::Told(call, key, told));
        told
    }
}
