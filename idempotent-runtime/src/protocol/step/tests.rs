//! Calls with three steps, with a fault at every message: a step that is recorded never runs again, and no other is skipped.

mod link;
mod lost;
mod misuse;
mod recorders;

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use self::link::{Link, Shared};
use crate::mutation::{Mutation, assert_kept};
use crate::record::steps as format;
use crate::{AnyIntent, Error, Idempotency, IdempotencyContext, MemoryStore, Store};

const TTL: Duration = Duration::from_mins(10);
const LEASE: Duration = Duration::from_secs(10);
const STEPS: [&str; 3] = ["flight", "hotel", "car"];

/// Why a body fails.
#[derive(Debug)]
enum Failed {
    Refused(Error),
    Body,
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

type Cx = IdempotencyContext<AnyIntent>;

/// What happens to one message.
#[derive(Debug, Clone, Copy)]
enum Fault {
    LosesRequest,
    LosesReply,
    NotApplied,
    ComesLate,
    /// The process dies before it sends the message.
    DiesBefore,
    /// The process dies before it gets the answer.
    DiesAfter,
    /// The caller drops the call.
    Drops,
    /// The caller drops the call after the message is applied, and the answer does not come.
    DropsAfter,
    /// The body fails after its next step.
    BodyFails,
}

const FAULTS: [Fault; 9] = [
    Fault::LosesRequest,
    Fault::LosesReply,
    Fault::NotApplied,
    Fault::ComesLate,
    Fault::DiesBefore,
    Fault::DiesAfter,
    Fault::Drops,
    Fault::DropsAfter,
    Fault::BodyFails,
];

/// What happens in one history.
#[derive(Default)]
struct World {
    faults: HashMap<usize, Fault>,
    messages: usize,
    dead: HashSet<usize>,
    body_fails: bool,
    /// The values that each step returned, in the order of its runs.
    ran: HashMap<&'static str, Vec<u32>>,
    /// What the body got from each step since the last success.
    known: HashMap<&'static str, u32>,
    broken: Vec<&'static str>,
}

impl World {
    fn begins(&mut self, step: &'static str, is_stored: bool) {
        if is_stored || self.known.contains_key(step) {
            self.broken.push("a recorded step runs again");
        }
    }

    fn ends(&mut self, step: &'static str) -> u32 {
        let runs = self.ran.entry(step).or_default();
        runs.push(u32::try_from(runs.len()).expect("few runs") + 100);
        runs[runs.len() - 1]
    }

    fn returned(&mut self, step: &'static str, value: u32) {
        if !self.ran.get(step).is_some_and(|ran| ran.contains(&value)) {
            self.broken.push("a step is skipped that did not run");
        }
        if self
            .known
            .insert(step, value)
            .is_some_and(|known| known != value)
        {
            self.broken.push("a recorded step changes its result");
        }
    }
}

/// One history: the call is made again until it succeeds.
struct History {
    shared: Arc<Shared>,
    store: Arc<MemoryStore>,
    processes: usize,
    /// No fault may delay the first record.
    is_plain: bool,
}

impl History {
    fn new(faults: HashMap<usize, Fault>) -> Self {
        let is_plain = faults.len() < 2 && !faults.contains_key(&FIRST_RECORD);
        let shared = Arc::new(Shared::default());
        shared.world().faults = faults;
        Self {
            shared,
            store: Arc::new(MemoryStore::new()),
            processes: 0,
            is_plain,
        }
    }

    fn process(&mut self) -> Idempotency {
        self.processes += 1;
        Idempotency::new(Link {
            process: self.processes,
            store: Arc::clone(&self.store),
            shared: Arc::clone(&self.shared),
        })
    }

    /// The names of the steps that the store has.
    async fn stored(&self) -> Vec<String> {
        stored(&self.store).await
    }

    /// Makes the call once. Returns its outcome, unless it is stopped.
    async fn call(&self, idempotency: &Idempotency) -> Option<Result<(), Failed>> {
        let call = idempotency.call("trip").key(&1).ttl(TTL).lease(LEASE);
        let body = async |cx: Cx| {
            for step in STEPS {
                let value = cx
                    .step(step, async || {
                        let is_stored = self.stored().await.iter().any(|name| name == step);
                        self.shared.world().begins(step, is_stored);
                        sleep(Duration::from_millis(10)).await;
                        Ok::<_, Failed>(self.shared.world().ends(step))
                    })
                    .await?;
                let mut world = self.shared.world();
                world.returned(step, value);
                if std::mem::take(&mut world.body_fails) {
                    return Err(Failed::Body);
                }
            }
            Ok(())
        };
        let call = call.run_with(body);
        tokio::select! {
            biased;
            () = self.shared.stops.notified() => None,
            outcome = call => Some(outcome),
        }
    }

    /// Makes the call until it succeeds, and once more after its `ttl`. Returns the promises that are broken.
    async fn run(mut self) -> Vec<&'static str> {
        let mut idempotency = self.process();
        let mut succeeded = false;
        for _ in 0..30 {
            match self.call(&idempotency).await {
                Some(Ok(())) => succeeded = true,
                // The answer to the end of the call was lost.
                Some(Err(Failed::Refused(Error::AlreadyDone(_)))) => {
                    (succeeded, self.is_plain) = (true, false);
                }
                _ => {}
            }
            if succeeded {
                break;
            }
            let is_dead = {
                let world = self.shared.world();
                world.dead.contains(&self.processes)
            };
            if is_dead {
                idempotency = self.process();
            }
            sleep(LEASE + Duration::from_secs(2)).await;
        }
        let _ = idempotency.drain(Duration::from_mins(1)).await;
        let is_dead = self.shared.world().dead.contains(&self.processes);
        let stays = !self.stored().await.is_empty();
        let mut broken = Vec::new();
        if !succeeded {
            broken.push("the call never succeeds");
        }
        if stays && !is_dead && self.is_plain {
            broken.push("the record stays after a success");
        }
        // Messages that come late have come.
        sleep(2 * LEASE).await;
        let lives = async |key: String| {
            let entry = self.store.get(&key).await.expect("the store in memory");
            entry.and_then(|entry| entry.ttl)
        };
        if lives(steps_key()).await > lives(call_key()).await {
            broken.push("the record outlives the success");
        }
        let mut world = self.shared.world();
        broken.append(&mut world.broken);
        broken
    }
}

async fn stored(store: &MemoryStore) -> Vec<String> {
    let key = steps_key();
    let Some(entry) = store.get(&key).await.expect("the store in memory") else {
        return Vec::new();
    };
    // A deliberate mistake may write a step twice, which is no record.
    let entries = format::read(&entry.value).unwrap_or_default();
    entries.into_iter().map(|entry| entry.name).collect()
}

fn call_key() -> String {
    let fingerprint = crate::fingerprint::Fingerprint::of(&(1,)).expect("a key");
    format!("idem:trip:{fingerprint}")
}

fn steps_key() -> String {
    format!("idem:#steps:{{{}}}", call_key())
}

/// Runs a test on a paused clock, and returns its result.
fn on_paused_clock<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(test)
}

/// The promises that a history with these faults breaks.
fn broken(faults: &[(usize, Fault)]) -> Vec<&'static str> {
    on_paused_clock(History::new(faults.iter().copied().collect()).run())
}

/// The message after the claim and the read.
const FIRST_RECORD: usize = 2;
/// How many messages a history has in which nothing happens, and one more.
const MESSAGES: usize = 8;

fn no_promise_is_broken() -> bool {
    let mut all = vec![Vec::new()];
    for fault in FAULTS {
        all.extend((0..MESSAGES).map(|message| vec![(message, fault)]));
    }
    let mut state = 37_u32;
    let mut below = |most: usize| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        usize::try_from(state >> 16).expect("a small number") % most
    };
    for _ in 0..600 {
        let faults = 2 + below(4);
        let one = |_| (below(25), FAULTS[below(FAULTS.len())]);
        all.push((0..faults).map(one).collect());
    }
    all.iter().all(|faults| {
        let broken = broken(faults);
        if !broken.is_empty() {
            eprintln!("{faults:?}: {broken:?}");
        }
        broken.is_empty()
    })
}

#[test]
fn no_recorded_step_runs_again_and_no_other_is_skipped_whatever_message_is_lost() {
    assert_kept(
        no_promise_is_broken,
        &[
            Mutation::NeverReads,
            Mutation::SkipsNext,
            Mutation::RemovesAfterError,
            Mutation::StaysAfterSuccess,
            Mutation::LivesLonger,
            Mutation::RemovesBeforeLate,
        ],
    );
}

#[test]
fn a_call_with_three_steps_has_five_messages_more() {
    let messages = on_paused_clock(async {
        let history = History::new(HashMap::new());
        let shared = Arc::clone(&history.shared);
        assert_eq!(history.run().await, [""; 0]);
        shared.world().messages
    });
    // Claim, read, three records, end, removal.
    assert_eq!(messages, MESSAGES - 1);
}

#[test]
fn a_first_record_that_comes_late_does_not_outlive_the_success() {
    assert_eq!(broken(&[(FIRST_RECORD, Fault::ComesLate)]), [""; 0]);
}
