//! What happened, line by line: who, what, to which key, and when by a clock that all processes share.

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
    // Neither is negative: the clock counts from the start of the machine.
    now.tv_sec.unsigned_abs() * 1_000_000 + now.tv_nsec.unsigned_abs() / 1000
}

/// One line of a history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// When it was.
    pub at: Micros,
    /// What it was.
    pub what: What,
}

/// A call by the number of its process and its own number in that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Call {
    /// Its process.
    pub process: u32,
    /// Counted from 0 in its process.
    pub number: u32,
}

impl Call {
    /// The call as a number: what its body returns, so that a result names the call it is of.
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
    /// The argument that is its key.
    pub number: u64,
}

/// What the workers call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Endpoint {
    /// Once it has worked it is done, and its result is replayed.
    Pay,
    /// The same, and duplicates wait for it.
    Order,
    /// One at a time.
    Report,
    /// One at a time, and duplicates wait for their turn.
    Turn,
    /// At most once, whatever happens.
    Coupon,
}

impl Endpoint {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Pay,
        Self::Order,
        Self::Report,
        Self::Turn,
        Self::Coupon,
    ];

    /// Whether a success is kept, with its result.
    pub fn is_kept(self) -> bool {
        matches!(self, Self::Pay | Self::Order)
    }
}

/// What a line says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// A caller makes a call.
    Called(Call, Key),
    /// Its body starts.
    Started(Call, Key),
    /// Its body has its effect; the body does nothing after it.
    Effect(Call, Key),
    /// Its body ends without an effect, by itself or because it was dropped.
    Ended(Call, Key),
    /// Its caller has an answer.
    Told(Call, Key, Told),
    /// Its success was not recorded, and the crate said so before the caller had the answer.
    Unrecorded(Call),
    /// The process did not run for so long, up to now.
    Starved(u32, Micros),
    /// A thread of the process panicked.
    Panicked(u32),
    /// The process has ended by itself, in order.
    Finished(u32),
    /// The process was killed; it did not run any more from here on.
    Killed(u32),
    /// The process was stopped in its tracks.
    Stopped(u32),
    /// It goes on.
    Continued(u32),
    /// The server, or the one that leads, was killed or stopped.
    ServerAway,
    /// It answers again.
    ServerBack,
    /// A request of the process was held back for so long by the proxy, and sent now.
    Delayed(u32, Micros),
    /// A reply was thrown away by the proxy.
    ReplyDropped,
    /// The server forgot its scripts.
    ScriptsFlushed,
    /// A leading server was killed that has replicas.
    LeaderKilled,
    /// Another one leads.
    LeaderBack,
}

/// The answer that a caller gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Told {
    /// Its own body ran and succeeded.
    Success,
    /// Its own body ran and failed.
    Failed,
    /// The result of another call.
    Replay(Call),
    /// Another one is running.
    InProgress,
    /// Another one is done, or was made.
    Done,
    /// The lease was lost, and the body stopped.
    Lost,
    /// The store did not answer in time.
    Unavailable,
    /// The caller gave up waiting and dropped the call.
    GaveUp,
    /// Anything else, which is not expected.
    Trouble,
}

/// Appends lines to a file that several may write to: one `write` for each.
#[derive(Debug)]
pub struct History {
    file: File,
    process: u32,
}

/// A pause that is long enough to be noted: well below the shortest grace, which is 250 ms.
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

    /// Notes what happens now.
    ///
    /// # Panics
    ///
    /// If it cannot be written: a history with a hole in it proves nothing.
    pub fn note(&self, what: What) {
        let at = now();
        self.append(&Line { at, what });
        let took = now() - at;
        if took > NOTED {
            // Whoever wrote it was held up by its own history.
            let what = What::Starved(self.process, took);
            self.append(&Line { at: now(), what });
        }
    }

    /// Notes what happened before.
    ///
    /// # Panics
    ///
    /// As [`note`](Self::note).
    pub fn append(&self, line: &Line) {
        let line = format!("{line}\n");
        let written = (&self.file).write(line.as_bytes());
        assert_eq!(written.ok(), Some(line.len()), "the history is not whole");
    }
}

/// Reads a history. A line that a kill cut off at the end is left out.
///
/// # Errors
///
/// If the file cannot be read, or a line makes no sense.
pub fn read(path: &Path) -> io::Result<Vec<Line>> {
    let text = std::fs::read_to_string(path)?;
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let lines = whole.lines().map(|line| {
        line.parse().map_err(|()| {
            let message = format!("{}: `{line}` is no line of a history", path.display());
            io::Error::new(io::ErrorKind::InvalidData, message)
        })
    });
    lines.collect()
}
