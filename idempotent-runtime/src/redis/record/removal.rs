//! Removes a record if it has the expected value: with a command of the server if it has one, else with a script.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ::redis::aio::ConnectionLike;
use ::redis::{Cmd, ErrorKind, FromRedisValue, RedisError, RedisResult, Value, cmd, pipe};
use bytes::Bytes;

use crate::redis::client::failure::is_forbidden;
use crate::redis::client::info::version;
use crate::redis::record::oversize::Oversize;
use crate::redis::record::scripts::{READ, REMOVE, REMOVE_AND_NOTIFY};
use crate::redis::script::{Script, send};
use crate::redis::send::batching::Request;

/// The command for removals. Clones share what the store learns about the server.
#[derive(Clone, Default)]
pub(crate) struct Removal {
    native: Option<Native>,
    /// The server lost the command, for example by a fail-over to an older server, or does not let this user run it.
    refused: Arc<AtomicBool>,
}

/// What to remove, and where to publish a notification.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    pub(crate) key: &'a str,
    pub(crate) expected: &'a Bytes,
    /// Publishes a notification on the channel with the name of the key.
    pub(crate) notifies: bool,
}

impl Target<'_> {
    fn script(self) -> &'static Script {
        if self.notifies {
            &REMOVE_AND_NOTIFY
        } else {
            &REMOVE
        }
    }
}

/// A command that compares and deletes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Native {
    /// `DELIFEQ key value`, from Valkey 9.0 on.
    DelIfEq,
    /// `DELEX key IFEQ value`, from Redis 8.4 on.
    DelEx,
}

impl Removal {
    /// Uses the command that all of these servers have according to `INFO`.
    pub(crate) fn of_servers(info: &[String]) -> Self {
        let mut natives = info.iter().map(|info| Native::of(info));
        let first = natives.next().flatten();
        Self {
            native: first.filter(|_| natives.all(|native| native == first)),
            refused: Arc::default(),
        }
    }

    /// Removes the value. Returns `1` if it is removed, nil if nothing is stored, else the stored value.
    ///
    /// Takes one round trip, or two if the server's own command removes nothing or the stored value is long.
    pub(crate) async fn run<C: ConnectionLike>(
        &self,
        connection: &mut C,
        target: Target<'_>,
        oversize: &Oversize,
    ) -> RedisResult<Value> {
        let native = self.native();
        let reply = match native {
            Some(native) if target.notifies => {
                Box::pin(native.run_and_notify(connection, target)).await
            }
            _ => {
                let command = match native {
                    Some(native) => native.command(target.key, target.expected),
                    None => target.script().by_hash(&[target.key], &[target.expected]),
                };
                send(connection, &command).await
            }
        };
        let sent = (native, reply);
        self.resolve(connection, target, sent, oversize).await
    }

    /// The removal as an operation of a batch, and the server's command in it. Its reply is for [`resolve`](Self::resolve).
    pub(crate) fn request(&self, target: Target<'_>, digest: u64) -> (Request, Option<Native>) {
        let Target { key, expected, .. } = target;
        let Some(native) = self.native() else {
            let removal = Request::script(target.script(), &[key], &[expected], Some(digest));
            return (removal, None);
        };
        let size = key.len() + expected.len();
        let mut removal = Request::command(native.command(key, expected), size, Some(digest));
        if target.notifies {
            removal = removal.and_notify(cmd("PUBLISH").arg(key).arg("").clone());
        }
        (removal, Some(native))
    }

    /// Returns the reply to a removal that was `sent` by this command; sends more if the reply is not conclusive.
    pub(crate) async fn resolve<C: ConnectionLike>(
        &self,
        connection: &mut C,
        target: Target<'_>,
        sent: (Option<Native>, RedisResult<Value>),
        oversize: &Oversize,
    ) -> RedisResult<Value> {
        match sent {
            (_, Ok(Value::Int(0)) | Err(_)) => {
                let resolving = async {
                    match self.repeat(connection, target, sent).await? {
                        Value::Int(0) => read(connection, target, oversize).await,
                        reply => Ok(reply),
                    }
                };
                // Boxed, because this is rare and the future of each removal would have room for it.
                Box::pin(resolving).await
            }
            (_, reply) => reply,
        }
    }

    /// Removes by the script if the server refused its own command, or by its source if the server does not know it. Otherwise
    /// returns the reply.
    async fn repeat<C: ConnectionLike>(
        &self,
        connection: &mut C,
        target: Target<'_>,
        (native, reply): (Option<Native>, RedisResult<Value>),
    ) -> RedisResult<Value> {
        let error = match reply {
            Ok(reply) => return Ok(reply),
            Err(error) => error,
        };
        let (script, keys, args) = (target.script(), [target.key], [&target.expected[..]]);
        // A refused command has changed nothing. The script gives errors whose kinds are known.
        if let Some(native) = native
            && is_refusal(&error)
        {
            if is_forbidden(&error) {
                self.refused.store(true, Ordering::Relaxed);
                tracing::debug!(target: "idempotence", %error, "{native:?} cannot be used: keys are removed by a script");
            }
            return script.run(connection, &keys, &args).await;
        }
        if native.is_none() && Script::is_unknown(&error) {
            return send(connection, &script.by_source(&keys, &args)).await;
        }
        Err(error)
    }

    /// The name of the server's own command.
    pub(crate) fn command(&self) -> Option<&'static str> {
        self.native.map(Native::name)
    }

    /// Whether the server has the command but refused it.
    pub(crate) fn is_refused(&self) -> bool {
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
        // Other servers report a Redis version for compatibility. If they lack the command, the first removal shows it.
        let redis = version(info, "redis_version")?;
        (redis >= (8, 4)).then_some(Self::DelEx)
    }

    /// Returns `1` if it removed the value, else `0`.
    ///
    /// The notification is in the same pipeline. If nothing was removed, the notification is spurious and harmless.
    async fn run_and_notify<C: ConnectionLike>(
        self,
        connection: &mut C,
        target: Target<'_>,
    ) -> RedisResult<Value> {
        let mut together = pipe();
        together.add_command(self.command(target.key, target.expected));
        together.cmd("PUBLISH").arg(target.key).arg("");
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
        let name = self.name();
        let bytes = name.len() + key.len() + expected.len() + "IFEQ".len();
        let mut command = Cmd::with_capacity(4, bytes);
        command.arg(name).arg(key);
        if self == Self::DelEx {
            command.arg("IFEQ");
        }
        command.arg(expected);
        command
    }
}

/// The value that a removal has found.
async fn read<C: ConnectionLike>(
    connection: &mut C,
    target: Target<'_>,
    oversize: &Oversize,
) -> RedisResult<Value> {
    let most = oversize.limit();
    let (keys, args) = ([target.key], [most.as_bytes()]);
    let reply = READ.run(connection, &keys, &args).await?;
    let (stored, _): (Value, Value) = FromRedisValue::from_redis_value(reply)?;
    Ok(match stored {
        // A late claim has stored the value just now. When the removal ran, the value was not stored.
        Value::BulkString(stored) if stored == *target.expected => Value::Nil,
        stored => stored,
    })
}

/// Whether the server refused the command itself.
fn is_refusal(error: &RedisError) -> bool {
    matches!(error.code(), Some("ERR" | "NOPERM"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redis::script::scripted::Scripted;

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

    async fn remove(removal: &Removal, server: Scripted, notifies: bool) -> RedisResult<Value> {
        let mut server = server;
        let oversize = Oversize::default();
        oversize.allow(8);
        let target = Target {
            key: "key",
            expected: &Bytes::from_static(b"own"),
            notifies,
        };
        let reply = removal.run(&mut server, target, &oversize).await;
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
            // A late claim has stored the value after the command ran.
            (Some("*2\r\n$3\r\nown\r\n:9\r\n"), Value::Nil),
        ] {
            let mut server = Scripted::default();
            server = match stored {
                None => server.answers(&DELEX, &[":1\r\n"]),
                Some(stored) => server
                    .answers(&DELEX, &[":0\r\n"])
                    .answers(&["EVALSHA", "key", "9"], &[stored]),
            };
            let reply = remove(&redis_8_4(), server, false).await;
            assert_eq!(reply.expect("a reply"), expected);
        }
    }

    #[tokio::test]
    async fn a_long_value_that_the_script_found_is_read_up_to_the_limit() {
        let other = Value::BulkString(b"other".to_vec());
        for (stored, expected) in [
            ("*2\r\n$5\r\nother\r\n:9\r\n", other),
            ("*2\r\n$-1\r\n:-2\r\n", Value::Nil),
        ] {
            let server = Scripted::default()
                .answers(&["EVALSHA", "key", "own"], &["-NOSCRIPT No script.\r\n"])
                .answers(&["EVAL", "redis.call", "key", "own"], &[":0\r\n"])
                .answers(&["EVALSHA", "key", "9"], &[stored]);
            let reply = remove(&Removal::default(), server, false).await;
            assert_eq!(reply.expect("a reply"), expected);
        }
    }

    #[tokio::test]
    async fn the_notification_is_in_the_same_round_trip_and_may_be_refused() {
        for hint in [":0\r\n", "-NOPERM no such channel for you\r\n"] {
            let sent = ["DELEX", "key", "IFEQ", "own", "PUBLISH", "key"];
            let server = Scripted::default().answers(&sent, &[":1\r\n", hint]);
            let reply = remove(&redis_8_4(), server, true).await;
            assert_eq!(reply.expect("a reply"), Value::Int(1));
        }
    }

    #[tokio::test]
    async fn a_server_that_lost_the_command_later_gets_the_script() {
        for refusal in [
            "-ERR unknown command 'DELEX', with args beginning with: 'key'\r\n",
            "-NOPERM this user has no permissions to run the 'delex' command\r\n",
        ] {
            let removal = redis_8_4();
            let server = Scripted::default()
                .answers(&DELEX, &[refusal])
                .answers(&["EVALSHA", "key", "own"], &[":1\r\n"]);
            let reply = remove(&removal, server, false).await;
            assert_eq!(reply.expect("a reply"), Value::Int(1));
            let server = Scripted::default().answers(&["EVALSHA", "key", "own"], &["$-1\r\n"]);
            let reply = remove(&removal.clone(), server, false).await;
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
        let error = remove(&removal, server, false).await.expect_err("refused");
        assert_eq!(error.code(), Some("WRONGTYPE"));
        assert_eq!(removal.native(), Some(Native::DelEx));

        let server = Scripted::default().answers(&DELEX, &["-READONLY a replica\r\n"]);
        let error = remove(&removal, server, false).await.expect_err("refused");
        assert_eq!(error.code(), Some("READONLY"));
    }
}
