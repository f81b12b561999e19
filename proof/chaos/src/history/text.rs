//! A line as text, such as `7031337 told 3.17 Pay:42 success`: microseconds, what, call, key, answer.

use std::fmt;
use std::str::FromStr;

use super::{Call, Endpoint, Key, Line, Told, What};

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.process, self.number)
    }
}

impl FromStr for Call {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (process, number) = text.split_once('.').ok_or(())?;
        Ok(Self {
            process: process.parse().map_err(drop)?,
            number: number.parse().map_err(drop)?,
        })
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}:{}", self.endpoint, self.number)
    }
}

impl FromStr for Key {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (endpoint, number) = text.split_once(':').ok_or(())?;
        Ok(Self {
            endpoint: Endpoint::ALL
                .into_iter()
                .find(|known| format!("{known:?}") == endpoint)
                .ok_or(())?,
            number: number.parse().map_err(drop)?,
        })
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Replay(of) => write!(f, "replay={of}"),
            Self::Success => f.write_str("success"),
            Self::Failed => f.write_str("failed"),
            Self::InProgress => f.write_str("in-progress"),
            Self::Done => f.write_str("done"),
            Self::Lost => f.write_str("lost"),
            Self::Unavailable => f.write_str("unavailable"),
            Self::GaveUp => f.write_str("gave-up"),
            Self::Trouble => f.write_str("trouble"),
        }
    }
}

impl FromStr for Told {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Ok(match text {
            "success" => Self::Success,
            "failed" => Self::Failed,
            "in-progress" => Self::InProgress,
            "done" => Self::Done,
            "lost" => Self::Lost,
            "unavailable" => Self::Unavailable,
            "gave-up" => Self::GaveUp,
            "trouble" => Self::Trouble,
            _ => Self::Replay(text.strip_prefix("replay=").ok_or(())?.parse()?),
        })
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.at)?;
        match self.what {
            What::Called(call, key) => write!(f, "called {call} {key}"),
            What::Started(call, key) => write!(f, "started {call} {key}"),
            What::Effect(call, key) => write!(f, "effect {call} {key}"),
            What::Ended(call, key) => write!(f, "ended {call} {key}"),
            What::Told(call, key, told) => write!(f, "told {call} {key} {told}"),
            What::Unrecorded(call) => write!(f, "unrecorded {call}"),
            What::Starved(process, micros) => write!(f, "starved {process} {micros}"),
            What::Panicked(process) => write!(f, "panicked {process}"),
            What::Finished(process) => write!(f, "finished {process}"),
            What::Killed(process) => write!(f, "killed {process}"),
            What::Stopped(process) => write!(f, "stopped {process}"),
            What::Continued(process) => write!(f, "continued {process}"),
            What::Delayed(process, micros) => write!(f, "delayed {process} {micros}"),
            What::ServerAway => f.write_str("server-away"),
            What::ServerBack => f.write_str("server-back"),
            What::ReplyDropped => f.write_str("reply-dropped"),
            What::ScriptsFlushed => f.write_str("scripts-flushed"),
            What::LeaderKilled => f.write_str("leader-killed"),
            What::LeaderBack => f.write_str("leader-back"),
        }
    }
}

impl FromStr for Line {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut words = text.split(' ');
        let at = read_next(&mut words)?;
        let what = match words.next().ok_or(())? {
            "called" => What::Called(read_next(&mut words)?, read_next(&mut words)?),
            "started" => What::Started(read_next(&mut words)?, read_next(&mut words)?),
            "effect" => What::Effect(read_next(&mut words)?, read_next(&mut words)?),
            "ended" => What::Ended(read_next(&mut words)?, read_next(&mut words)?),
            "told" => What::Told(
                read_next(&mut words)?,
                read_next(&mut words)?,
                read_next(&mut words)?,
            ),
            "unrecorded" => What::Unrecorded(read_next(&mut words)?),
            "starved" => What::Starved(read_next(&mut words)?, read_next(&mut words)?),
            "panicked" => What::Panicked(read_next(&mut words)?),
            "finished" => What::Finished(read_next(&mut words)?),
            "killed" => What::Killed(read_next(&mut words)?),
            "stopped" => What::Stopped(read_next(&mut words)?),
            "continued" => What::Continued(read_next(&mut words)?),
            "delayed" => What::Delayed(read_next(&mut words)?, read_next(&mut words)?),
            "server-away" => What::ServerAway,
            "server-back" => What::ServerBack,
            "reply-dropped" => What::ReplyDropped,
            "scripts-flushed" => What::ScriptsFlushed,
            "leader-killed" => What::LeaderKilled,
            "leader-back" => What::LeaderBack,
            _ => return Err(()),
        };
        words
            .next()
            .is_none()
            .then_some(Self { at, what })
            .ok_or(())
    }
}

fn read_next<'a, T: FromStr>(words: &mut impl Iterator<Item = &'a str>) -> Result<T, ()> {
    words.next().ok_or(())?.parse().map_err(drop)
}

#[cfg(test)]
mod tests {
    use super::super::now;
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let call = Call {
            process: 3,
            number: 17,
        };
        let key = Key {
            endpoint: Endpoint::Order,
            number: 42,
        };
        for what in [
            What::Called(call, key),
            What::Started(call, key),
            What::Effect(call, key),
            What::Ended(call, key),
            What::Told(call, key, Told::Replay(call)),
            What::Told(call, key, Told::GaveUp),
            What::Unrecorded(call),
            What::Starved(3, 90_000),
            What::Killed(3),
            What::LeaderBack,
            What::Delayed(3, 5),
        ] {
            let line = Line { at: now(), what };
            assert_eq!(line.to_string().parse(), Ok(line));
        }
        assert_eq!("1 killed 3 more".parse::<Line>(), Err(()));
        assert_eq!(Call::of(call.value()), call);
    }
}
