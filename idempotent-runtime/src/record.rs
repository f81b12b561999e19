//! What stands under a key: one readable line, then the bytes of the result.
//!
//! ```text
//! idem1 R owner=0f1e… payload=- since=2026-11-21T09:30:00.250Z for=33000ms by=web-3:4242 codec=-
//! ```
//!
//! The line of a running claim is written once and never changes, so it is its own compare value.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::sync::LazyLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;

/// 128 random bits that one call made for itself.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner(u128);

impl Owner {
    pub(crate) fn random() -> Self {
        Self(rand::random())
    }
}

/// Whether the call that wrote a record was over by then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Running,
    Done,
}

/// Writes the line of a record; `lasts` is the time to live that it is put with.
pub(crate) fn line(state: State, owner: Owner, since: SystemTime, lasts: Duration) -> Bytes {
    let mut line = String::with_capacity(160);
    line.push_str(VERSION);
    line.push_str(match state {
        State::Running => " R owner=",
        State::Done => " D owner=",
    });
    let mut hex = [0; 32];
    line.push_str(
        base16ct::lower::encode_str(&owner.0.to_be_bytes(), &mut hex).unwrap_or_default(),
    );
    line.push_str(" payload=- since=");
    push_time(&mut line, since);
    line.push_str(" for=");
    let lasts = u64::try_from(lasts.as_millis()).unwrap_or(u64::MAX);
    line.push_str(itoa::Buffer::new().format(lasts));
    line.push_str("ms by=");
    line.push_str(&HOLDER);
    line.push_str(" codec=-\n");
    Bytes::from(line)
}

/// Writes `2026-11-21T09:30:00.250Z`. The calendar is worked out once a second: done for every call, it
/// would be a tenth of one that is guarded in memory.
fn push_time(line: &mut String, time: SystemTime) {
    thread_local! {
        static SECOND: RefCell<(u64, String)> = const { RefCell::new((0, String::new())) };
    }
    let since_1970 = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = since_1970.as_secs().min(END_OF_9999);
    SECOND.with_borrow_mut(|(second, text)| {
        if *second != now || text.is_empty() {
            let whole = UNIX_EPOCH + Duration::from_secs(now);
            *second = now;
            *text = humantime::format_rfc3339_seconds(whole).to_string();
            text.truncate(text.len() - 1);
        }
        line.push_str(text);
    });
    // A leading 1 keeps the zeros of the milliseconds, and a dot takes its place.
    let mut millis = itoa::Buffer::new();
    line.push('.');
    line.push_str(&millis.format(1000 + since_1970.subsec_millis())[1..]);
    line.push('Z');
}

/// A record that was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    pub(crate) state: State,
    pub(crate) holder: &'a str,
    since: SystemTime,
    lasts: Duration,
}

impl<'a> Record<'a> {
    /// Reads a record; `None` if it is of another version or another program.
    pub(crate) fn read(bytes: &'a [u8]) -> Option<Self> {
        let end = bytes.iter().position(|byte| *byte == b'\n')?;
        let line = str::from_utf8(&bytes[..end]).ok()?;
        let mut fields = line.split(' ');
        if fields.next()? != VERSION {
            return None;
        }
        let state = match fields.next()? {
            "R" => State::Running,
            "D" => State::Done,
            _ => return None,
        };
        let mut field = |name: &str| fields.next()?.strip_prefix(name)?.strip_prefix('=');
        let owner = field("owner")?;
        field("payload")?;
        let since = humantime::parse_rfc3339(field("since")?).ok()?;
        let lasts = field("for")?.strip_suffix("ms")?.parse().ok()?;
        let holder = field("by")?;
        field("codec")?;
        let whole = owner.len() == 32 && fields.next().is_none();
        whole.then_some(Self {
            state,
            holder,
            since,
            lasts: Duration::from_millis(lasts),
        })
    }

    /// How long ago it was written, by this machine's clock.
    pub(crate) fn age(&self, now: SystemTime) -> Duration {
        now.duration_since(self.since).unwrap_or_default()
    }

    /// How long it will stand if nothing is sent any more. An older one is being renewed.
    pub(crate) fn left(&self, now: SystemTime) -> Duration {
        self.lasts
            .checked_sub(self.age(now))
            .filter(|left| !left.is_zero())
            .unwrap_or(self.lasts)
    }
}

const VERSION: &str = "idem1";
/// The last second that has a date of four digits for its year.
const END_OF_9999: u64 = 253_402_300_799;

/// This process as `host:pid`, in characters that cannot end a field.
static HOLDER: LazyLock<String> = LazyLock::new(|| {
    let host = hostname::get().unwrap_or_default();
    let mut holder: String = host
        .to_string_lossy()
        .chars()
        .filter(|char| char.is_ascii_alphanumeric() || "._-".contains(*char))
        .take(64)
        .collect();
    let _ = write!(holder, ":{}", std::process::id());
    holder
});

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(millis)
    }

    #[test]
    fn the_line_is_frozen() {
        let line = line(
            State::Running,
            Owner(0x0f1e_2d3c),
            at(1_795_253_400_250),
            Duration::from_secs(33),
        );
        assert_eq!(
            line,
            format!(
                "idem1 R owner=0000000000000000000000000f1e2d3c payload=- \
                 since=2026-11-21T09:30:00.250Z for=33000ms by={} codec=-\n",
                *HOLDER
            )
        );
    }

    #[test]
    fn what_is_written_is_read() {
        let line = line(
            State::Done,
            Owner::random(),
            at(5000),
            Duration::from_mins(1),
        );
        let record = Record::read(&line).unwrap();
        assert_eq!(record.state, State::Done);
        assert_eq!(record.holder, *HOLDER);
        assert_eq!(record.age(at(7000)), Duration::from_secs(2));
        assert_eq!(record.left(at(7000)), Duration::from_secs(58));
        assert_eq!(record.left(at(99_000)), Duration::from_mins(1));
        assert_eq!(record.age(at(1000)), Duration::ZERO);
    }

    #[test]
    fn a_clock_that_is_far_off_is_written_and_read() {
        for since in [
            at(0),
            SystemTime::UNIX_EPOCH - Duration::from_secs(5),
            at(253_402_300_799_999),
            at(999_999_999_999_999),
        ] {
            let line = line(State::Running, Owner::random(), since, Duration::MAX);
            assert!(Record::read(&line).is_some(), "{line:?}");
        }
    }

    #[test]
    fn foreign_bytes_are_not_a_record() {
        let good = line(
            State::Running,
            Owner::random(),
            at(5000),
            Duration::from_mins(1),
        );
        let good = str::from_utf8(&good).unwrap();
        for foreign in [
            "",
            "1",
            "\n",
            &good.replace("idem1", "idem2"),
            &good.replace(" R ", " X "),
            &good.replace("codec", "code"),
            &good.replace("codec=-", "codec=- more=1"),
            good.trim_end(),
        ] {
            assert_eq!(Record::read(foreign.as_bytes()), None, "{foreign:?}");
        }
        assert_eq!(Record::read(&[0xff, b'\n']), None);
    }
}
