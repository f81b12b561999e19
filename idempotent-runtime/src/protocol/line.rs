//! The calls of one process that wait for a permit of one key stand in a line, in the order in which they were made. Calls with different
//! numbers of permits have different lines: what is taken for one may be free for the other.
//!
//! Only the first call of a line asks the store. When it has a permit, is refused or is dropped, the next call is the first. A call
//! that finds a line goes to its end, and asks the store when it is the first. If the store does not answer, the line ends, and each of
//! its calls asks the store itself: one after another they would wait for as many deadlines.
//!
//! A first call whose future nobody polls gives no sign of life. After a time any other call of the line ends its turn. If it is polled
//! again, it asks the store once, and stands in the line again, by its number. A call that was not polled for that time does not become
//! the first while another call is polled.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout_at};

use crate::mutation::mutation;
use crate::protocol::seen::{LastHolder, SeenRecord};
use crate::sync::{Mutex, MutexGuard};

/// The lines of a handle, by the keys and the numbers of permits. A key that no call waits for has no line.
#[derive(Default)]
pub(crate) struct Lines(Mutex<AllLines>);

#[derive(Default)]
struct AllLines {
    /// How many places were made.
    made: u64,
    lines: HashMap<(Box<str>, u8), Line>,
}

#[derive(Default)]
struct Line {
    /// The calls by their numbers.
    calls: BTreeMap<u64, Standing>,
    /// The number of the call that asks the store.
    first: u64,
    /// From then on the first call counts as not polled.
    silent_at: Option<Instant>,
    /// How many answers the first calls got, and the last of them.
    answers: u32,
    last: Option<LineAnswer>,
    /// The notifications of the store for the next first call.
    hints: Hints,
}

/// A call in its line.
struct Standing {
    woken: Arc<Notify>,
    /// When the call was last seen to be polled.
    polled_at: Instant,
}

/// The notifications of each slot of a key.
pub(crate) type Hints = Vec<(u8, watch::Receiver<()>)>;

/// The longest pause between two polls, without its jitter.
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// The answer of the store that all permits are taken.
#[derive(Clone)]
pub(crate) struct LineAnswer {
    /// The record that expires first.
    pub(crate) record: Arc<SeenRecord>,
    pub(crate) holders: usize,
    pub(crate) at: Instant,
    pub(crate) holder: LastHolder,
}

/// The place of a call in the line of its key. Dropping it leaves the line.
pub(crate) struct Place {
    lines: Arc<Lines>,
    key: (Box<str>, u8),
    number: u64,
    woken: Arc<Notify>,
    /// How many answers the line had when this call was made.
    answers_before: u32,
    /// So long may a first call give no sign of life.
    patience: Duration,
}

impl Place {
    /// The place of a call that is made now. It is not in the line yet.
    pub(crate) fn new(lines: &Arc<Lines>, key: &str, permits: u8, patience: Duration) -> Self {
        let key = (key.into(), permits);
        let mut all = lines.lock();
        all.made += 1;
        let (number, line) = (all.made, all.lines.get(&key));
        Self {
            answers_before: line.map_or(0, |line| line.answers),
            lines: Arc::clone(lines),
            key,
            number,
            woken: Arc::default(),
            patience,
        }
    }

    /// Whether other calls wait.
    pub(crate) fn is_behind(&self) -> bool {
        self.lines.lock().lines.contains_key(&self.key)
    }

    /// Notes that the store has refused this call, which enters the line. Returns how many calls are in the line if this call is the
    /// first; `None` if it is not.
    pub(crate) fn note_refused(&self, answer: LineAnswer) -> Option<u32> {
        let mut all = self.lines.lock();
        let line = self.enter(&mut all);
        if line.first != self.number {
            return None;
        }
        line.answers = line.answers.wrapping_add(1);
        line.last = Some(answer);
        Some(self.give_sign(line))
    }

    /// Notes that the store does not answer this call. Returns how many calls are in the line if this call is the first; `None` if it is
    /// not.
    pub(crate) fn note_unanswered(&self) -> Option<u32> {
        let mut all = self.lines.lock();
        let line = all.lines.get_mut(&self.key);
        let line = line.filter(|line| line.first == self.number)?;
        Some(self.give_sign(line))
    }

    /// Enters the line, and waits until this call may ask the store. `None`: no time remains. The notifications are those of the call
    /// that was the first before.
    pub(crate) async fn turn(&self, until: Instant) -> Option<Hints> {
        self.enter(&mut self.lines.lock());
        while Instant::now() < until {
            let look_at = match self.look() {
                Ok(hints) => return Some(hints),
                Err(look_at) => look_at.min(until),
            };
            // An error only means that it is time to look again.
            let _ = timeout_at(look_at, self.woken.notified()).await;
        }
        None
    }

    /// The notifications for this call if it may ask the store. `Err`: when this call must look again.
    fn look(&self) -> Result<Hints, Instant> {
        let mut all = self.lines.lock();
        let line = all.lines.get_mut(&self.key);
        // Without a place the line has ended, or this call was not polled when it was the first.
        let Some(line) = line.filter(|line| line.calls.contains_key(&self.number)) else {
            return Ok(Hints::new());
        };
        let now = Instant::now();
        self.stand(line, now);
        let silent_at = *line.silent_at.get_or_insert(now + self.patience);
        let is_silent = silent_at <= now && line.first != self.number;
        let next = (is_silent && !mutation!(WaitsForUnpolled)).then(|| {
            let first = line.first;
            line.calls.remove(&first);
            line.pass_on(self.patience)
        });
        if line.first == self.number {
            self.give_sign(line);
            return Ok(std::mem::take(&mut line.hints));
        }
        // Often enough to be seen as polled.
        let look_at = line.silent_at.unwrap_or(silent_at);
        drop(all);
        wake(next.flatten());
        Err(look_at.min(now + self.patience / 2))
    }

    /// The last answer of the store to a call of the line, if it was asked after this call was made and is fresh.
    pub(crate) fn last_answer(&self) -> Option<LineAnswer> {
        let all = self.lines.lock();
        let line = all.lines.get(&self.key)?;
        // The store may have got the first of them before this call was made.
        let is_younger = line.answers.wrapping_sub(self.answers_before) > 1;
        let last = line.last.clone().filter(|_| is_younger);
        last.filter(|answer| answer.at.elapsed() < LONGEST_PAUSE)
    }

    /// The holder that the last answer of the store names.
    pub(crate) fn last_holder(&self) -> LastHolder {
        let all = self.lines.lock();
        all.lines.get(&self.key)?.last.as_ref()?.holder.clone()
    }

    /// Leaves the notifications for the next first call.
    pub(crate) fn leave_hints(&self, hints: Hints) {
        if let Some(line) = self.lines.lock().lines.get_mut(&self.key)
            && line.first == self.number
        {
            line.hints = hints;
        }
    }

    /// Ends the line if this call is its first: each call asks the store itself.
    pub(crate) fn end_line(&self) {
        let mut all = self.lines.lock();
        let line = all.lines.get(&self.key);
        if line.is_some_and(|line| line.first == self.number) {
            let ended = all.lines.remove(&self.key);
            drop(all);
            let calls = ended.into_iter().flat_map(|line| line.calls.into_values());
            wake(calls.map(|call| call.woken));
        }
    }

    /// A sign of life of the first call. Returns how many calls are in the line.
    fn give_sign(&self, line: &mut Line) -> u32 {
        line.silent_at = Some(Instant::now() + self.patience);
        u32::try_from(line.calls.len()).unwrap_or(u32::MAX)
    }

    fn enter<'a>(&self, all: &'a mut AllLines) -> &'a mut Line {
        let line = all.lines.entry(self.key.clone()).or_default();
        if line.calls.is_empty() {
            line.first = self.number;
        }
        self.stand(line, Instant::now());
        line
    }

    /// Notes that this call is polled.
    fn stand(&self, line: &mut Line, polled_at: Instant) {
        let woken = Arc::clone(&self.woken);
        line.calls
            .insert(self.number, Standing { woken, polled_at });
    }
}

impl Line {
    /// Makes the call that was made first the first of the line, of those that are polled. Returns what wakes it.
    fn pass_on(&mut self, patience: Duration) -> Option<Arc<Notify>> {
        let now = Instant::now();
        let is_polled = |call: &Standing| now < call.polled_at + patience;
        let mut calls = self.calls.iter();
        let next = calls.find(|(_, call)| is_polled(call));
        let (number, next) = next.or_else(|| self.calls.iter().next())?;
        self.silent_at = Some(now + patience);
        self.first = *number;
        Some(Arc::clone(&next.woken))
    }
}

impl Lines {
    fn lock(&self) -> MutexGuard<'_, AllLines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    fn count(&self) -> usize {
        self.lock().lines.len()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut all = self.lines.lock();
        let Some(line) = all.lines.get_mut(&self.key) else {
            return;
        };
        line.calls.remove(&self.number);
        let is_first = line.first == self.number;
        let next = is_first.then(|| line.pass_on(self.patience)).flatten();
        let is_empty = line.calls.is_empty();
        let ended = is_empty.then(|| all.lines.remove(&self.key));
        drop(all);
        drop(ended);
        wake(next);
    }
}

/// Wakes calls outside of the lock, because a waker may drop a call of the same line.
fn wake(calls: impl IntoIterator<Item = Arc<Notify>>) {
    for call in calls {
        call.notify_one();
    }
}

impl fmt::Debug for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lines").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
