//! A script: several commands as one atomic step of the server.
//!
//! A script writes at most once, as the last command that can fail, so a failed script has changed nothing. Scripts that write
//! more explain how they ensure this. All keys of an operation share a slot.
//!
//! Operations of a script made by [`each!`] may share a call, because a call costs the server about 10,000 instructions before the
//! script begins. Such a call returns an answer for each operation, in their order, and an error of one is its answer.
//!
//! A script returns no long value, or limits how many bytes it returns by an argument (`-1` for all), because another program
//! may have stored a gigabyte under the key.
//!
//! The notification after the write cannot fail a script: `pcall` turns every error into a value, for example a missing
//! permission, and the script ignores it. A notification before the write could announce a change that the server then refuses.

#[cfg(test)]
pub(crate) mod scripted;

use std::sync::OnceLock;
use std::time::Duration;

use ::redis::aio::ConnectionLike;
use ::redis::{Arg, Cmd, ErrorKind, RedisError, RedisResult, ServerErrorKind, Value};

/// A script for one operation, and perhaps a script that does many such operations in one call.
pub(crate) struct Script {
    one: Source,
    many: Option<Many>,
}

struct Source {
    text: &'static str,
    hash: OnceLock<String>,
}

struct Many {
    source: Source,
    /// The number of keys of one operation.
    keys: usize,
}

/// Makes a [`Script`] whose operations may share a call: from the number of keys of an operation, and from Lua code that returns
/// the answer of an operation.
///
/// The keys of the operation begin at `KEYS[k]`, and its arguments at `ARGV[a]`. `ARGV[z]` is its last argument. All operations
/// of a call have equally many arguments.
///
/// An error is a table from Redis 7 on, and before a text, which begins with a place in the script if it has no code.
macro_rules! each {
    ($keys:literal, $($code:expr),+) => {
        $crate::script::Script::of_each(
            $keys,
            concat!("local k, a, z = 1, 1, #ARGV\n", $($code),+),
            concat!(
                "local function one(k, a, z)
",
                $($code,)+
                "
end
local operations, answers = #KEYS / ",
                $keys,
                ", {}
local args = #ARGV / operations
for at = 0, operations - 1 do
  local done, answer = pcall(one, at * ",
                $keys,
                " + 1, at * args + 1, (at + 1) * args)
  if not done and type(answer) ~= 'table' then
    answer = {err = string.gsub(answer, '^@', 'ERR @')}
  end
  answers[at + 1] = answer or false
end
return answers"
            ),
        )
    };
}
pub(crate) use each;

impl Source {
    const fn new(text: &'static str) -> Self {
        Self {
            text,
            hash: OnceLock::new(),
        }
    }

    fn hash(&self) -> &str {
        let hash = || ::redis::Script::new(self.text).get_hash().to_owned();
        self.hash.get_or_init(hash)
    }
}

impl Script {
    pub(crate) const fn new(source: &'static str) -> Self {
        Self {
            one: Source::new(source),
            many: None,
        }
    }

    /// For [`each!`].
    pub(crate) const fn of_each(keys: usize, one: &'static str, many: &'static str) -> Self {
        let source = Source::new(many);
        Self {
            one: Source::new(one),
            many: Some(Many { source, keys }),
        }
    }

    /// Whether a call may do many operations.
    pub(crate) fn is_of_each(&self) -> bool {
        self.many.is_some()
    }

    /// The texts that calls of this script send.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &'static str> {
        let many = self.many.as_ref().map(|many| many.source.text);
        [self.one.text].into_iter().chain(many)
    }

    /// A call by the hash of the script. A server that does not have the script refuses the call.
    pub(crate) fn by_hash(&self, keys: &[&str], args: &[&[u8]]) -> Cmd {
        call("EVALSHA", self.one.hash(), keys, args)
    }

    /// A call by the text of the script. `SCRIPT LOAD` would go to all nodes of a cluster and fail if one is down.
    pub(crate) fn by_source(&self, keys: &[&str], args: &[&[u8]]) -> Cmd {
        call("EVAL", self.one.text, keys, args)
    }

    /// One call for several operations, by hash or by source. `calls` are the calls of each, with equally many arguments and about
    /// so many `bytes`. `None` if a call can do one operation only.
    pub(crate) fn together<'a>(
        &self,
        calls: impl Iterator<Item = &'a Cmd> + Clone,
        bytes: usize,
        by_source: bool,
    ) -> Option<Cmd> {
        let Many { source, keys } = self.many.as_ref()?;
        let parts = |call: &'a Cmd| {
            let args = call.args_iter().skip(BEFORE_KEYS);
            args.filter_map(|arg| match arg {
                Arg::Simple(arg) => Some(arg),
                _ => None,
            })
        };
        let keys_of_all = calls.clone().flat_map(|call| parts(call).take(*keys));
        let args_of_all = calls.clone().flat_map(|call| parts(call).skip(*keys));
        let operations = calls.clone().count();
        let number = calls.map(|call| call.args_iter().len()).sum();
        let mut together = Cmd::with_capacity(number, bytes);
        if by_source {
            together.arg("EVAL").arg(source.text);
        } else {
            together.arg("EVALSHA").arg(source.hash());
        }
        together.arg(operations * keys);
        for part in keys_of_all.chain(args_of_all) {
            together.arg(part);
        }
        Some(together)
    }

    /// A call by hash as a call by source, with the same keys and arguments.
    pub(crate) fn again_by_source(&self, call: &Cmd) -> Cmd {
        let mut again = Cmd::new();
        again.arg("EVAL").arg(self.one.text);
        for arg in call.args_iter().skip(2) {
            if let Arg::Simple(arg) = arg {
                again.arg(arg);
            }
        }
        again
    }

    /// Whether the error means that the server does not have the script.
    pub(crate) fn is_unknown(error: &RedisError) -> bool {
        error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
    }
}

fn call(command: &str, script: &str, keys: &[&str], args: &[&[u8]]) -> Cmd {
    let bytes = command.len() + script.len() + MOST_DIGITS + bytes_of(keys, args);
    let mut call = Cmd::with_capacity(3 + keys.len() + args.len(), bytes);
    call.arg(command).arg(script).arg(keys.len());
    with_parts(call, keys, args)
}

/// A command: its name, its keys, its arguments. It has room for a few words and a number after them.
pub(crate) fn command(name: &str, keys: &[&str], args: &[&[u8]]) -> Cmd {
    let bytes = name.len() + MOST_FOLLOWING + bytes_of(keys, args);
    let mut command = Cmd::with_capacity(1 + keys.len() + args.len() + 4, bytes);
    command.arg(name);
    with_parts(command, keys, args)
}

fn bytes_of(keys: &[&str], args: &[&[u8]]) -> usize {
    let keys = keys.iter().map(|key| key.len());
    keys.chain(args.iter().map(|arg| arg.len())).sum()
}

fn with_parts(mut command: Cmd, keys: &[&str], args: &[&[u8]]) -> Cmd {
    for key in keys {
        command.arg(*key);
    }
    for arg in args {
        command.arg(*arg);
    }
    command
}

/// The parts of a call before its keys: the command, the script, and the number of the keys.
const BEFORE_KEYS: usize = 3;

/// The most digits of a number in a command.
const MOST_DIGITS: usize = 20;

/// The most bytes of what may follow the arguments.
const MOST_FOLLOWING: usize = "NXGETPX".len() + MOST_DIGITS;

/// Sends one command. An error reply is an error.
pub(crate) async fn send<C: ConnectionLike>(
    connection: &mut C,
    command: &Cmd,
) -> RedisResult<Value> {
    let reply = connection.req_packed_command(command).await;
    reply.and_then(Value::extract_error)
}

/// The longest time to live that is sent. A server refuses a time that overflows its clock.
const THOUSAND_YEARS: u64 = 1000 * 365 * 24 * 60 * 60 * 1000;

/// `ttl` in whole milliseconds, rounded up: a record may live too long, but never too short.
pub(crate) fn millis(ttl: Duration) -> u64 {
    let millis = ttl.as_nanos().div_ceil(1_000_000);
    u64::try_from(millis).map_or(THOUSAND_YEARS, |millis| millis.clamp(1, THOUSAND_YEARS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_to_live_are_rounded_up_and_capped() {
        for (ttl, expected) in [
            (Duration::ZERO, 1),
            (Duration::from_nanos(1), 1),
            (Duration::from_millis(1), 1),
            (Duration::from_nanos(1_000_001), 2),
            (Duration::from_secs(30), 30_000),
            (Duration::MAX, THOUSAND_YEARS),
        ] {
            assert_eq!(millis(ttl), expected, "{ttl:?}");
        }
    }
}
