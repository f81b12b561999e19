//! Removing what stands under a key if it is what was expected: by the server's own command where it
//! has one, else by a script.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ::redis::aio::ConnectionLike;
use ::redis::{Cmd, ErrorKind, FromRedisValue, RedisError, RedisResult, Value, cmd, pipe};

use super::failure::is_forbidden;
use super::info::version;
use super::record_scripts::{READ, REMOVE};
use super::script::SILENT;

/// How this server removes. A clone shares what was learnt.
#[derive(Clone, Default)]
pub(super) struct Removal {
    native: Option<Native>,
    /// The server has lost the command, as by a fail-over to an older one, or keeps it from this user.
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
    /// By the command that all of these servers have, going by what they say of themselves.
    pub(super) fn of_servers(info: &[String]) -> Self {
        let mut natives = info.iter().map(|info| Native::of(info));
        let first = natives.next().flatten();
        Self {
            native: first.filter(|_| natives.all(|native| native == first)),
            refused: Arc::default(),
        }
    }

    /// Answers as [`REMOVE`]: a number if it is done, nil, or what stands there.
    ///
    /// One round trip if it is done, two if not and the command is the server's own.
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
                let (standing, _): (Value, Value) = FromRedisValue::from_redis_value(reply)?;
                Ok(match standing {
                    // Put just now, by a claim that was late: what this was to remove was not there.
                    Value::BulkString(standing) if standing == expected => Value::Nil,
                    standing => standing,
                })
            }
            Ok(removed) => Ok(removed),
            // It has changed nothing, and the script's refusals are well known.
            Err(error) if is_refusal(&error) => {
                if is_forbidden(&error) {
                    self.refused.store(true, Ordering::Relaxed);
                    tracing::debug!(%error, "{native:?} is not to be had: keys are removed by a script");
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

    /// Whether the server has the command, and it is not to be had.
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
        // Others speak the protocol and tell a version for its sake: what they lack is found out.
        let redis = version(info, "redis_version")?;
        (redis >= (8, 4)).then_some(Self::DelEx)
    }

    /// `1`: removed. `0`: not.
    ///
    /// The hint goes beside the command. If nothing was removed it is about nothing, which harms
    /// nobody.
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
        // Not by `query_async`: a hint that is refused would refuse the removal.
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

/// Whether the server has understood that it is not to do this, for a reason of the command's own.
fn is_refusal(error: &RedisError) -> bool {
    matches!(error.code(), Some("ERR" | "NOPERM"))
}

#[cfg(test)]
mod tests {
    use super::super::scripted::Scripted;
    use super::*;

    #[test]
    fn the_command_that_all_servers_have_is_used() {
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
        server.has_been_asked_all();
        reply
    }

    const DELEX: [&str; 4] = ["DELEX", "key", "IFEQ", "own"];

    #[tokio::test]
    async fn delex_answers_as_the_script_does() {
        let other = Value::BulkString(b"other".to_vec());
        for (standing, expected) in [
            (None, Value::Int(1)),
            (Some("*2\r\n$-1\r\n:-2\r\n"), Value::Nil),
            (Some("*2\r\n$5\r\nother\r\n:9\r\n"), other),
            // A straggling claim put it after the command had looked.
            (Some("*2\r\n$3\r\nown\r\n:9\r\n"), Value::Nil),
        ] {
            let mut server = Scripted::default();
            server = match standing {
                None => server.answers(&DELEX, &[":1\r\n"]),
                Some(standing) => server
                    .answers(&DELEX, &[":0\r\n"])
                    .answers(&["EVALSHA", "key", "9"], &[standing]),
            };
            let reply = remove(&redis_8_4(), server, SILENT).await;
            assert_eq!(reply.expect("a reply"), expected);
        }
    }

    #[tokio::test]
    async fn the_hint_goes_in_the_same_round_trip_and_may_be_refused() {
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
    async fn what_the_command_refuses_is_told_in_the_words_of_the_script() {
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
