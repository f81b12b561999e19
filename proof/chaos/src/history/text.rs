//! A line as text, such as `7031337 answered 3.17 Pay:42 success`: microseconds, event, call, key, answer.

use std::fmt;
use std::str::FromStr;

use super::{Answer, Batches, Call, Endpoint, HistoryEvent, Key, Line};

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

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Replay(of) => write!(f, "replay={of}"),
            Self::Success => f.write_str("success"),
            Self::Failed => f.write_str("failed"),
            Self::InProgress => f.write_str("in-progress"),
            Self::Done => f.write_str("done"),
            Self::LeaseLost => f.write_str("lost"),
            Self::Unavailable => f.write_str("unavailable"),
            Self::GaveUp => f.write_str("gave-up"),
            Self::Unexpected => f.write_str("unexpected"),
        }
    }
}

impl FromStr for Answer {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Ok(match text {
            "success" => Self::Success,
            "failed" => Self::Failed,
            "in-progress" => Self::InProgress,
            "done" => Self::Done,
            "lost" => Self::LeaseLost,
            "unavailable" => Self::Unavailable,
            "gave-up" => Self::GaveUp,
            "unexpected" => Self::Unexpected,
            _ => Self::Replay(text.strip_prefix("replay=").ok_or(())?.parse()?),
        })
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.at)?;
        match self.event {
            HistoryEvent::Called(call, key) => write!(f, "called {call} {key}"),
            HistoryEvent::Started(call, key) => write!(f, "started {call} {key}"),
            HistoryEvent::Effect(call, key) => write!(f, "effect {call} {key}"),
            HistoryEvent::Ended(call, key) => write!(f, "ended {call} {key}"),
            HistoryEvent::Answered(call, key, answer) => {
                write!(f, "answered {call} {key} {answer}")
            }
            HistoryEvent::Unrecorded(call) => write!(f, "unrecorded {call}"),
            HistoryEvent::Batches(process, batches) => {
                let Batches {
                    sent,
                    operations,
                    broken,
                } = batches;
                write!(f, "batches {process} {sent} {operations} {broken}")
            }
            HistoryEvent::Awake(process) => write!(f, "awake {process}"),
            HistoryEvent::Starved(process, micros) => write!(f, "starved {process} {micros}"),
            HistoryEvent::Panicked(process) => write!(f, "panicked {process}"),
            HistoryEvent::Finished(process) => write!(f, "finished {process}"),
            HistoryEvent::Killing(process) => write!(f, "killing {process}"),
            HistoryEvent::Killed(process) => write!(f, "killed {process}"),
            HistoryEvent::Stopped(process) => write!(f, "stopped {process}"),
            HistoryEvent::Continued(process) => write!(f, "continued {process}"),
            HistoryEvent::Delayed(process, micros) => write!(f, "delayed {process} {micros}"),
            HistoryEvent::ServerDown => f.write_str("server-down"),
            HistoryEvent::ServerUp => f.write_str("server-up"),
            HistoryEvent::ReplyDropped => f.write_str("reply-dropped"),
            HistoryEvent::ReplyCut => f.write_str("reply-cut"),
            HistoryEvent::RequestCut => f.write_str("request-cut"),
            HistoryEvent::ClientsCut => f.write_str("clients-cut"),
            HistoryEvent::ScriptsFlushed => f.write_str("scripts-flushed"),
            HistoryEvent::LeaderKilled => f.write_str("leader-killed"),
            HistoryEvent::LeaderReplaced => f.write_str("leader-replaced"),
        }
    }
}

impl FromStr for Line {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut words = text.split(' ');
        let at = read_next(&mut words)?;
        let event = match words.next().ok_or(())? {
            "called" => HistoryEvent::Called(read_next(&mut words)?, read_next(&mut words)?),
            "started" => HistoryEvent::Started(read_next(&mut words)?, read_next(&mut words)?),
            "effect" => HistoryEvent::Effect(read_next(&mut words)?, read_next(&mut words)?),
            "ended" => HistoryEvent::Ended(read_next(&mut words)?, read_next(&mut words)?),
            "answered" => HistoryEvent::Answered(
                read_next(&mut words)?,
                read_next(&mut words)?,
                read_next(&mut words)?,
            ),
            "unrecorded" => HistoryEvent::Unrecorded(read_next(&mut words)?),
            "batches" => {
                let process = read_next(&mut words)?;
                let batches = Batches {
                    sent: read_next(&mut words)?,
                    operations: read_next(&mut words)?,
                    broken: read_next(&mut words)?,
                };
                HistoryEvent::Batches(process, batches)
            }
            "awake" => HistoryEvent::Awake(read_next(&mut words)?),
            "starved" => HistoryEvent::Starved(read_next(&mut words)?, read_next(&mut words)?),
            "panicked" => HistoryEvent::Panicked(read_next(&mut words)?),
            "finished" => HistoryEvent::Finished(read_next(&mut words)?),
            "killing" => HistoryEvent::Killing(read_next(&mut words)?),
            "killed" => HistoryEvent::Killed(read_next(&mut words)?),
            "stopped" => HistoryEvent::Stopped(read_next(&mut words)?),
            "continued" => HistoryEvent::Continued(read_next(&mut words)?),
            "delayed" => HistoryEvent::Delayed(read_next(&mut words)?, read_next(&mut words)?),
            "server-down" => HistoryEvent::ServerDown,
            "server-up" => HistoryEvent::ServerUp,
            "reply-dropped" => HistoryEvent::ReplyDropped,
            "reply-cut" => HistoryEvent::ReplyCut,
            "request-cut" => HistoryEvent::RequestCut,
            "clients-cut" => HistoryEvent::ClientsCut,
            "scripts-flushed" => HistoryEvent::ScriptsFlushed,
            "leader-killed" => HistoryEvent::LeaderKilled,
            "leader-replaced" => HistoryEvent::LeaderReplaced,
            _ => return Err(()),
        };
        words
            .next()
            .is_none()
            .then_some(Self { at, event })
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
    fn a_written_line_can_be_read() {
        let call = Call {
            process: 3,
            number: 17,
        };
        let key = Key {
            endpoint: Endpoint::Order,
            number: 42,
        };
        for event in [
            HistoryEvent::Called(call, key),
            HistoryEvent::Started(call, key),
            HistoryEvent::Effect(call, key),
            HistoryEvent::Ended(call, key),
            HistoryEvent::Answered(call, key, Answer::Replay(call)),
            HistoryEvent::Answered(call, key, Answer::GaveUp),
            HistoryEvent::Unrecorded(call),
            HistoryEvent::Awake(3),
            HistoryEvent::Starved(3, 90_000),
            HistoryEvent::Batches(
                3,
                Batches {
                    sent: 2,
                    operations: 9,
                    broken: 1,
                },
            ),
            HistoryEvent::Killing(3),
            HistoryEvent::Killed(3),
            HistoryEvent::LeaderReplaced,
            HistoryEvent::Delayed(3, 5),
        ] {
            let line = Line { at: now(), event };
            assert_eq!(line.to_string().parse(), Ok(line));
        }
        assert_eq!("1 killed 3 more".parse::<Line>(), Err(()));
        assert_eq!(Call::of(call.value()), call);
    }
}
