//! Removes a record if it has the expected value: with a command of the server if it has one, else with a script.

use std::fmt;

use ::redis::RedisError;

use crate::client::connection_like::StoreClient;
use crate::client::info::version;
use crate::record::refused::Refused;
use crate::record::scripts::{REMOVE, REMOVE_AND_NOTIFY};
use crate::send::op::{Op, Order, Reply, SendError};
use crate::send::sender::Sender;

/// The command for removals. Clones share what the store learns about the server.
#[derive(Clone, Default)]
pub(crate) struct RemovalCommand {
    native: Option<Native>,
    refused: Refused,
}

/// A command that compares and deletes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Native {
    /// `DELIFEQ key value`, from Valkey 9.0 on.
    DelIfEq,
    /// `DELEX key IFEQ value`, from Redis 8.4 on.
    DelEx,
}

impl RemovalCommand {
    /// Uses the command that all of these servers have according to `INFO`.
    pub(crate) fn of_servers(info: &[String]) -> Self {
        let mut natives = info.iter().map(|info| Native::from_info(info));
        let first = natives.next().flatten();
        Self {
            native: first.filter(|_| natives.all(|native| native == first)),
            refused: Refused::default(),
        }
    }

    /// Removes the value, and publishes a notification on the channel with the name of the key if it `notifies`.
    ///
    /// Returns `1` if the value is removed, nil if nothing is stored, `0` if the key must be read, else the stored value. Takes one
    /// round trip, or two if the server refuses its own command.
    #[expect(
        clippy::manual_async_fn,
        reason = "the future of an `async fn` stores its arguments twice"
    )]
    pub(crate) fn send<C: StoreClient>(
        &self,
        sender: &Sender<C>,
        notifies: bool,
        key: &str,
        expected: &[u8],
    ) -> impl Future<Output = Reply> + Send {
        async move {
            let keys = [key];
            if let Some(native) = self.native() {
                let args: [&[u8]; 2] = [b"IFEQ", expected];
                let op = Op::command(native.name(), &keys, native.args(&args)).and_notify(notifies);
                match sender.send(&op.in_order(Order::OfKey)).await {
                    Err(SendError::Redis(error)) if is_refusal(&error) => {
                        self.refused.note(native.name(), &error);
                    }
                    reply => return reply,
                }
            }
            let script = if notifies {
                &REMOVE_AND_NOTIFY
            } else {
                &REMOVE
            };
            // A refused command has changed nothing. The script gives errors whose kinds are known.
            let args = [expected];
            let script = Op::script(script, &keys, &args);
            sender.send(&script.in_order(Order::OfKey)).await
        }
    }

    /// The name of the server's own command.
    pub(crate) fn command(&self) -> Option<&'static str> {
        self.native.map(Native::name)
    }

    /// Whether the server has the command but refused it.
    pub(crate) fn is_refused(&self) -> bool {
        self.refused.is_noted()
    }

    fn native(&self) -> Option<Native> {
        self.native.filter(|_| !self.is_refused())
    }
}

impl fmt::Debug for RemovalCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.native().fmt(f)
    }
}

impl Native {
    fn from_info(info: &str) -> Option<Self> {
        if let Some(valkey) = version(info, "valkey_version") {
            return (valkey >= (9, 0)).then_some(Self::DelIfEq);
        }
        // Other servers report a Redis version for compatibility. If they lack the command, the first removal shows it.
        let redis = version(info, "redis_version")?;
        (redis >= (8, 4)).then_some(Self::DelEx)
    }

    fn name(self) -> &'static str {
        match self {
            Self::DelIfEq => "DELIFEQ",
            Self::DelEx => "DELEX",
        }
    }

    /// The arguments after the key: all, or without `IFEQ`. The command returns `1` if it removed the value, else `0`.
    fn args<'a>(self, all: &'a [&'a [u8]; 2]) -> &'a [&'a [u8]] {
        match self {
            Self::DelIfEq => &all[1..],
            Self::DelEx => all,
        }
    }
}

/// Whether the server refused the command itself.
fn is_refusal(error: &RedisError) -> bool {
    matches!(error.code(), Some("ERR" | "NOPERM"))
}

#[cfg(test)]
mod tests {
    use ::redis::{RedisResult, Value};
    use bytes::Bytes;

    use super::*;
    use crate::record::records::RecordCommands;
    use crate::script::scripted::Scripted;
    use crate::send::compose::SendSettings;
    use idempotent_runtime::store::Swap;

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
            let removal = RemovalCommand::of_servers(&info);
            assert_eq!(removal.native(), expected, "{info:?}");
        }
    }

    fn redis_8_4() -> RemovalCommand {
        RemovalCommand::of_servers(&["redis_version:8.4.0".to_owned()])
    }

    async fn send(
        removal: &RemovalCommand,
        server: Scripted,
        notifies: bool,
    ) -> RedisResult<Value> {
        let sender = Sender::new(server.clone(), SendSettings::default());
        let reply = removal.send(&sender, notifies, "key", b"own").await;
        server.assert_all_sent();
        reply.map_err(|error| match error {
            SendError::Redis(error) => error,
            SendError::Store(error) => panic!("{error}"),
        })
    }

    /// Removes on a server with this version.
    async fn remove(version: &str, server: Scripted) -> Swap {
        let records = RecordCommands::of_servers(&[format!("redis_version:{version}")]);
        records.allow(8);
        let sender = Sender::new(server.clone(), SendSettings::default());
        let expected = Bytes::from_static(b"own");
        let swap = records.remove(&sender, false, "key", &expected).await;
        server.assert_all_sent();
        swap.expect("a reply")
    }

    const DELEX: [&str; 4] = ["DELEX", "key", "IFEQ", "own"];

    #[tokio::test]
    async fn delex_answers_as_the_script_does() {
        let other = Swap::Other(Bytes::from_static(b"other"));
        for (stored, expected) in [
            (None, Swap::Done),
            (Some("*2\r\n$-1\r\n:-2\r\n"), Swap::Absent),
            (Some("*2\r\n$5\r\nother\r\n:9\r\n"), other),
            // A record without a byte is of another program.
            (Some("*2\r\n$0\r\n\r\n:9\r\n"), Swap::Other(Bytes::new())),
            // A late claim has stored the value after the command ran.
            (Some("*2\r\n$3\r\nown\r\n:9\r\n"), Swap::Absent),
        ] {
            let mut server = Scripted::default();
            server = match stored {
                None => server.answers(&DELEX, &[":1\r\n"]),
                Some(stored) => server
                    .answers(&DELEX, &[":0\r\n"])
                    .answers(&["EVALSHA", "key", "9"], &[stored]),
            };
            assert_eq!(remove("8.4.0", server).await, expected);
        }
    }

    #[tokio::test]
    async fn a_long_value_that_the_script_found_is_read_up_to_the_limit() {
        let other = Swap::Other(Bytes::from_static(b"other"));
        for (stored, expected) in [
            ("*2\r\n$5\r\nother\r\n:9\r\n", other),
            ("*2\r\n$-1\r\n:-2\r\n", Swap::Absent),
        ] {
            let server = Scripted::default()
                .answers(&["EVALSHA", "key", "own"], &["-NOSCRIPT No script.\r\n"])
                .answers(&["EVAL", "redis.call", "key", "own"], &[":0\r\n"])
                .answers(&["EVALSHA", "key", "9"], &[stored]);
            assert_eq!(remove("7.4.0", server).await, expected);
        }
    }

    #[tokio::test]
    async fn the_notification_is_in_the_same_round_trip_and_may_be_refused() {
        for hint in [":0\r\n", "-NOPERM no such channel for you\r\n"] {
            let sent = ["DELEX", "key", "IFEQ", "own", "PUBLISH", "key"];
            let server = Scripted::default().answers(&sent, &[":1\r\n", hint]);
            let reply = send(&redis_8_4(), server, true).await;
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
            let reply = send(&removal, server, false).await;
            assert_eq!(reply.expect("a reply"), Value::Int(1));
            let server = Scripted::default().answers(&["EVALSHA", "key", "own"], &["$-1\r\n"]);
            let reply = send(&removal.clone(), server, false).await;
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
        let error = send(&removal, server, false).await.expect_err("refused");
        assert_eq!(error.code(), Some("WRONGTYPE"));
        assert_eq!(removal.native(), Some(Native::DelEx));

        let server = Scripted::default().answers(&DELEX, &["-READONLY a replica\r\n"]);
        let error = send(&removal, server, false).await.expect_err("refused");
        assert_eq!(error.code(), Some("READONLY"));
    }
}
