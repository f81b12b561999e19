//! Removing a record if it has the expected value: with the server's own command if it has one, else with a script.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ::redis::aio::ConnectionLike;
use ::redis::{Cmd, ErrorKind, FromRedisValue, RedisError, RedisResult, Value, cmd, pipe};

use super::failure::is_forbidden;
use super::info::version;
use super::record_scripts::{READ, REMOVE};
use super::script::SILENT;

/// The command for removals. A clone shares what is found out.
#[derive(Clone, Default)]
pub(super) struct Removal {
    native: Option<Native>,
    /// The server lost the command, for example by a fail-over to an older one, or does not let this user run it.
    refused: Arc<AtomicBool>,
}

/// A command that compares and deletes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Native {
    /// `DELIFEQ key value`, from Valkey 9.0 on.
    DelIfEq,
    /// `DELEX key IFEQ value`, from Redis 8.4 on.
    DelEx,
}

impl Removal {
    /// Uses the command that all of these servers have according to `INFO`.
    pub(super) fn of_servers(info: &[String]) -> Self {
        let mut natives = info.iter().map(|info| Native::of(info));
        let first = natives.next().flatten();
        Self {
            native: first.filter(|_| natives.all(|native| native == first)),
            refused: Arc::default(),
        }
    }

    /// Removes the value and answers as [`REMOVE`].
    ///
    /// Takes one round trip, and two if the server's own command removes nothing.
    pub(super) async fn run<C: ConnectionLike>(
        &self,
        connection: &mut C,
        key: &str,
        expected: &[u8],
        channel: &str,
        most: &str,
    ) -> RedisResult<Value> {
        let Some(native) = self.native() else {
            return by_script(connection, key, expected, channel, most).await;
        };
        match native.run(connection, key, expected, channel).await {
            Ok(Value::Int(0)) => {
                let reply = READ.run(connection, &[key], &[most.as_bytes()]).await?;
                let (stored, _): (Value, Value) = FromRedisValue::from_redis_value(reply)?;
                Ok(match stored {
                    // A late claim stored it just now. When the command ran, nothing was stored.
                    Value::BulkString(stored) if stored == expected => Value::Nil,
                    stored => stored,
                })
            }
            Ok(removed) => Ok(removed),
            // The command has changed nothing, and the kinds of the script's errors are known.
            Err(error) if is_refusal(&error) => {
                if is_forbidden(&error) {
                    self.refused.store(true, Ordering::Relaxed);
                    tracing::debug!(%error, "{native:?} cannot be used: keys are removed by a script");
                }
                by_script(connection, key, expected, channel, most).await
            }
            Err(error) => Err(error),
        }
    }

    /// The name of the server's own command.
    pub(super) fn command(&self) -> Option<&'static str> {
        self.native.map(Native::name)
    }

    /// Whether the server has the command but refused it.
    pub(super) fn is_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }

    fn native(&self) -> Option<Native> {
        self.native.filter(|_| !self.is_refused())
    }
}

impl fmt::Debug for Removal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.native().fmt(f)
    }
}

impl Native {
    fn of(info: &str) -> Option<Self> {
        if let Some(valkey) = version(info, "valkey_version") {
            return (valkey >= (9, 0)).then_some(Self::DelIfEq);
        }
        // Other servers report a Redis version for compatibility. If they lack the command, the first removal finds out.
        let redis = version(info, "redis_version")?;
        (redis >= (8, 4)).then_some(Self::DelEx)
    }

    /// Returns `1` if it removed the value, else `0`.
    ///
    /// The notification goes in the same pipeline. If nothing was removed, it is spurious and harmless.
    async fn run<C: ConnectionLike>(
        self,
        connection: &mut C,
        key: &str,
        expected: &[u8],
        channel: &str,
    ) -> RedisResult<Value> {
        let command = self.command(key, expected);
        if channel == SILENT {
            return command.query_async(connection).await;
        }
        let mut together = pipe();
        together.add_command(command);
        together.cmd("PUBLISH").arg(channel).arg("");
        // `query_async` would fail the removal if the notification is refused.
        let replies = connection.req_packed_commands(&together, 0, 2).await?;
        let Some(reply) = replies.into_iter().next() else {
            let message = "two commands have no reply";
            return Err(RedisError::from((ErrorKind::UnexpectedReturnType, message)));
        };
        reply.extract_error()
    }

    fn name(self) -> &'static str {
        match self {
            Self::DelIfEq => "DELIFEQ",
            Self::DelEx => "DELEX",
        }
    }

    fn command(self, key: &str, expected: &[u8]) -> Cmd {
        let mut command = cmd(self.name());
        command.arg(key);
        if self == Self::DelEx {
            command.arg("IFEQ");
        }
        command.arg(expected);
        command
    }
}

async fn by_script<C: ConnectionLike>(
    connection: &mut C,
    key: &str,
    expected: &[u8],
    channel: &str,
    most: &str,
) -> RedisResult<Value> {
    let args = [expected, channel.as_bytes(), most.as_bytes()];
    REMOVE.run(connection, &[key], &args).await
}

/// Whether the server refused the command itself.
fn is_refusal(error: &RedisError) -> bool {
    matches!(error.code(), Some("ERR" | "NOPERM"))
}

#[cfg(test)]
mod tests {
    use super::super::scripted::Scripted;
    use super::*;

    #[test]
    fn the_command_of_all_servers_is_used() {
        let valkey_8 = "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.1\r\n";
        let valkey_9 = "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.0.0\r\n";
        let redis = |version| format!("# Server\r\nredis_version:{version}\r\n");
        for (info, expected) in [
            (vec![], None),
            (vec![redis("8.4.0")], Some(Native::DelEx)),
            (vec![redis("10.0.1")], Some(Native::DelEx)),
            (vec![redis("8.2.9")], None),
            (vec![redis("7.4.0")], None),
            (vec![redis("unstable")], None),
            (vec![valkey_9.to_owned()], Some(Native::DelIfEq)),
            (vec![valkey_8.to_owned()], None),
            (vec![redis("8.4.0"), redis("8.6.0")], Some(Native::DelEx)),
            (vec![redis("8.4.0"), redis("8.2.0")], None),
            (vec![redis("8.2.0"), redis("8.4.0")], None),
            (vec![redis("8.4.0"), valkey_9.to_owned()], None),
        ] {
            let removal = Removal::of_servers(&info);
            assert_eq!(removal.native(), expected, "{info:?}");
        }
    }

    fn redis_8_4() -> Removal {
        Removal::of_servers(&["redis_version:8.4.0".to_owned()])
    }

    async fn remove(removal: &Removal, server: Scripted, channel: &str) -> RedisResult<Value> {
        let mut server = server;
        let reply = removal.run(&mut server, "key", b"own", channel, "9").await;
        server.assert_all_sent();
        reply
    }

    const DELEX: [&str; 4] = ["DELEX", "key", "IFEQ", "own"];

    #[tokio::test]
    async fn delex_answers_as_the_script_does() {
        let other = Value::BulkString(b"other".to_vec());
        for (stored, expected) in [
            (None, Value::Int(1)),
            (Some("*2\r\n$-1\r\n:-2\r\n"), Value::Nil),
            (Some("*2\r\n$5\r\nother\r\n:9\r\n"), other),
            // A late claim stored it after the command ran.
            (Some("*2\r\n$3\r\nown\r\n:9\r\n"), Value::Nil),
        ] {
            let mut server = Scripted::default();
            server = match stored {
                None => server.answers(&DELEX, &[":1\r\n"]),
                Some(stored) => server
                    .answers(&DELEX, &[":0\r\n"])
                    .answers(&["EVALSHA", "key", "9"], &[stored]),
            };
            let reply = remove(&redis_8_4(), server, SILENT).await;
            assert_eq!(reply.expect("a reply"), expected);
        }
    }

    #[tokio::test]
    async fn the_notification_goes_in_the_same_round_trip_and_may_be_refused() {
        for hint in [":0\r\n", "-NOPERM no such channel for you\r\n"] {
            let sent = ["DELEX", "key", "IFEQ", "own", "PUBLISH", "channel"];
            let server = Scripted::default().answers(&sent, &[":1\r\n", hint]);
            let reply = remove(&redis_8_4(), server, "channel").await;
            assert_eq!(reply.expect("a reply"), Value::Int(1));
        }
    }

    #[tokio::test]
    async fn a_server_that_lost_the_command_is_sent_the_script_from_then_on() {
        for refusal in [
            "-ERR unknown command 'DELEX', with args beginning with: 'key'\r\n",
            "-NOPERM this user has no permissions to run the 'delex' command\r\n",
        ] {
            let removal = redis_8_4();
            let server = Scripted::default()
                .answers(&DELEX, &[refusal])
                .answers(&["EVALSHA", "key", "own"], &[":1\r\n"]);
            let reply = remove(&removal, server, SILENT).await;
            assert_eq!(reply.expect("a reply"), Value::Int(1));
            let server = Scripted::default().answers(&["EVALSHA", "key", "own"], &["$-1\r\n"]);
            let reply = remove(&removal.clone(), server, SILENT).await;
            assert_eq!(reply.expect("a reply"), Value::Nil);
        }
    }

    #[tokio::test]
    async fn a_refusal_of_the_command_is_repeated_by_the_script() {
        let removal = redis_8_4();
        let server = Scripted::default()
            .answers(&DELEX, &["-ERR Key should be of string type\r\n"])
            .answers(
                &["EVALSHA", "key"],
                &["-WRONGTYPE Operation against a key\r\n"],
            );
        let error = remove(&removal, server, SILENT).await.expect_err("refused");
        assert_eq!(error.code(), Some("WRONGTYPE"));
        assert_eq!(removal.native(), Some(Native::DelEx));

        let server = Scripted::default().answers(&DELEX, &["-READONLY a replica\r\n"]);
        let error = remove(&removal, server, SILENT).await.expect_err("refused");
        assert_eq!(error.code(), Some("READONLY"));
    }
}
