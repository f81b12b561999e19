//! The history of a run, line by line: time, event, call and key. All processes share the clock.

mod text;

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

use rustix::time::{ClockId, clock_gettime};

/// Microseconds of the machine's monotonic clock, which is the same for all of its processes.
pub type Micros = u64;

/// The time now.
pub fn now() -> Micros {
    let now = clock_gettime(ClockId::Monotonic);
    // Neither is negative, because the clock counts from the start of the machine.
    now.tv_sec.unsigned_abs() * 1_000_000 + now.tv_nsec.unsigned_abs() / 1000
}

/// One line of a history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The time.
    pub at: Micros,
    /// The event.
    pub event: HistoryEvent,
}

/// A call: the number of its process, and its number in the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Call {
    /// The number of the process.
    pub process: u32,
    /// Counted from 0 in its process.
    pub number: u32,
}

impl Call {
    /// The call as a number. Its body returns it, so that a result identifies its call.
    pub fn value(self) -> u64 {
        u64::from(self.process) << 32 | u64::from(self.number)
    }

    /// The call that returned `value`.
    pub fn of(value: u64) -> Self {
        Self {
            process: u32::try_from(value >> 32).unwrap_or(u32::MAX),
            number: u32::try_from(value & u64::from(u32::MAX)).unwrap_or(u32::MAX),
        }
    }
}

/// One key of one endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The endpoint.
    pub endpoint: Endpoint,
    /// The argument of the function.
    pub number: u64,
}

/// The functions that the workers call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Endpoint {
    /// Done once, with a replayed result.
    Pay,
    /// Done once, with a replayed result; duplicates wait.
    Order,
    /// One at a time.
    Report,
    /// One at a time; duplicates wait.
    Turn,
    /// At most once.
    Coupon,
}

impl Endpoint {
    /// All functions.
    pub const ALL: [Self; 5] = [
        Self::Pay,
        Self::Order,
        Self::Report,
        Self::Turn,
        Self::Coupon,
    ];

    /// Whether a success is stored with its result.
    pub fn stores_result(self) -> bool {
        matches!(self, Self::Pay | Self::Order)
    }
}

/// The event of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HistoryEvent {
    /// A caller starts a call.
    Called(Call, Key),
    /// Its body starts.
    Started(Call, Key),
    /// The body has its effect, and then returns.
    Effect(Call, Key),
    /// The body ends without an effect: it returned an error or was dropped.
    Ended(Call, Key),
    /// The caller gets its answer.
    Answered(Call, Key, Answer),
    /// The success was not recorded, and the crate reported that before the caller got the answer.
    Unrecorded(Call),
    /// The batches of the process since its start.
    Batches(u32, Batches),
    /// The process runs. A process notes this again and again, because it may be killed while it does not run.
    Awake(u32),
    /// The process did not run for this time, which ends now.
    Starved(u32, Micros),
    /// A thread of the process panicked.
    Panicked(u32),
    /// The process has ended by itself.
    Finished(u32),
    /// The process is killed from now on.
    Killing(u32),
    /// The process was killed.
    Killed(u32),
    /// The process was paused.
    Stopped(u32),
    /// The process continues.
    Continued(u32),
    /// The server, or a leader, was killed or paused.
    ServerDown,
    /// The server answers again.
    ServerUp,
    /// The proxy delayed a request of the process for this time, and sent it now.
    Delayed(u32, Micros),
    /// The proxy dropped a reply.
    ReplyDropped,
    /// The proxy forwarded the beginning of a reply, and cut the connection.
    ReplyCut,
    /// The proxy forwarded the beginning of a request, and cut the connection.
    RequestCut,
    /// A server has closed the connections of all its clients.
    ClientsCut,
    /// The scripts of the server were flushed.
    ScriptsFlushed,
    /// A leader with replicas was killed.
    LeaderKilled,
    /// Another server is the leader.
    LeaderReplaced,
}

/// The batches of a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Batches {
    /// Requests to the store with the operations of several calls.
    pub sent: usize,
    /// The operations of these requests.
    pub operations: usize,
    /// Requests that failed as a whole, or whose callers all stopped waiting before the answer.
    pub broken: usize,
}

/// The answer that a caller gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Answer {
    /// Its own body ran and succeeded.
    Success,
    /// Its own body ran and failed.
    Failed,
    /// The result of another call.
    Replay(Call),
    /// Refused: another call runs.
    InProgress,
    /// Refused: another call is done, or the key is taken.
    Done,
    /// The lease was lost, and the body was stopped.
    LeaseLost,
    /// The store did not answer in time.
    Unavailable,
    /// The caller dropped the call.
    GaveUp,
    /// An unexpected error.
    Unexpected,
}

/// Appends lines to a file, each with one `write`, so that several threads can append.
#[derive(Debug)]
pub struct History {
    file: File,
    process: u32,
}

/// The shortest pause that is noted. It is well below the shortest grace, which is 250 ms.
pub const NOTED: Micros = 80_000;

impl History {
    /// Opens the history of a process.
    ///
    /// # Errors
    ///
    /// If the file cannot be opened.
    pub fn open(path: &Path, process: u32) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Self { file, process })
    }

    /// Appends an event that happens now.
    ///
    /// # Panics
    ///
    /// If the line cannot be written, because an incomplete history proves nothing.
    pub fn note(&self, event: HistoryEvent) {
        let at = now();
        self.append(&Line { at, event });
        let took = now() - at;
        if took > NOTED {
            // Writing the history delayed its process.
            let event = HistoryEvent::Starved(self.process, took);
            self.append(&Line { at: now(), event });
        }
    }

    /// Appends an earlier event.
    ///
    /// # Panics
    ///
    /// Like [`note`](Self::note).
    pub fn append(&self, line: &Line) {
        let line = format!("{line}\n");
        let written = (&self.file).write(line.as_bytes());
        assert_eq!(
            written.ok(),
            Some(line.len()),
            "a line of the history could not be written"
        );
    }
}

/// Reads a history. Ignores a last line that a kill has cut off.
///
/// # Errors
///
/// If the file cannot be read, or a line is invalid.
pub fn read(path: &Path) -> io::Result<Vec<Line>> {
    let text = std::fs::read_to_string(path)?;
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let lines = whole.lines().map(|line| {
        line.parse().map_err(|()| {
            let message = format!("{}: `{line}` is not a line of a history", path.display());
            io::Error::new(io::ErrorKind::InvalidData, message)
        })
    });
    lines.collect()
}
