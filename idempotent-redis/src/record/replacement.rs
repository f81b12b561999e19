//! Replaces a record if it has the expected value: by `SET … IFEQ` if the server has it, else by a script.

use ::redis::Value;

use crate::client::connection_like::StoreClient;
use crate::record::refused::Refused;
use crate::record::scripts::{
    REPLACE, REPLACE_AND_NOTIFY, REPLACE_AND_NOTIFY_REPLICATED, REPLACE_REPLICATED,
};
use crate::send::op::{Op, OpKind, Order, Reply, SendError};
use crate::send::sender::Sender;

/// The command for replacements. Clones share what the store learns about the server.
#[derive(Clone)]
pub(crate) struct Replacement {
    has_ifeq: bool,
    refused: Refused,
}

/// The expected value, the new value, and its time to live in digits.
type Args<'a> = [&'a [u8]; 3];

impl Replacement {
    /// `has_ifeq`: the servers have `SET … IFEQ`, as Redis 8.4 and Valkey 9.0.
    pub(crate) fn new(has_ifeq: bool) -> Self {
        Self {
            has_ifeq,
            refused: Refused::default(),
        }
    }

    /// The operation that replaces the value, or renews its time to live if both values are the same.
    pub(crate) fn op<'a, C>(
        &self,
        sender: &Sender<C>,
        notifies: bool,
        keys: &'a [&'a str; 1],
        args: &'a Args<'a>,
    ) -> Op<'a>
    where
        C: StoreClient,
    {
        // A server without memory refuses every `SET`, so a renewal needs the script. Before a `WAIT` a repeated write must write
        // again, as the script does.
        let is_renewal = args[0] == args[1];
        let has_ifeq = self.has_ifeq && !self.refused.is_noted();
        if is_renewal || sender.replicas().is_some() || !has_ifeq {
            return script(notifies, keys, args);
        }
        let set = Op::set_if_equal(keys, args);
        set.in_order(Order::OfKey).and_notify(notifies)
    }

    /// The reply to the operation: `1` if the value is replaced, nil if nothing is stored, `0` if the key must be read, else the stored
    /// value. `None` if the server refused `IFEQ`: the script then finds out what is stored.
    pub(crate) fn reply(&self, op: &Op<'_>, reply: Reply) -> Option<Reply> {
        if !matches!(op.call, OpKind::SetIfEqual) {
            return Some(reply);
        }
        Some(match reply {
            Ok(Value::Okay) => Ok(Value::Int(1)),
            // Nothing is stored, or another value, or the new value after an earlier send.
            Ok(Value::Nil) => Ok(Value::Int(0)),
            // A server without memory refuses every `SET` before it compares.
            Err(SendError::Redis(error)) if matches!(error.code(), Some("ERR" | "OOM")) => {
                self.refused.note("SET … IFEQ", &error);
                return None;
            }
            reply => reply,
        })
    }
}

/// Replaces the value by the script.
pub(crate) async fn by_script<C: StoreClient>(
    sender: &Sender<C>,
    notifies: bool,
    key: &str,
    args: Args<'_>,
) -> Reply {
    sender.send(&script(notifies, &[key], &args)).await
}

fn script<'a>(notifies: bool, keys: &'a [&'a str; 1], args: &'a Args<'a>) -> Op<'a> {
    let order = if args[0] == args[1] {
        Order::Renewal
    } else {
        Order::OfKey
    };
    let (script, replicated) = if notifies {
        (&REPLACE_AND_NOTIFY, &REPLACE_AND_NOTIFY_REPLICATED)
    } else {
        (&REPLACE, &REPLACE_REPLICATED)
    };
    let replace = Op::script(script, keys, args).in_order(order);
    replace.replicated_by(replicated)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use idempotent_runtime::store::{StoreError, StoreErrorKind, Swap};

    use super::*;
    use crate::record::records::RecordCommands;
    use crate::script::scripted::Scripted;
    use crate::send::compose::SendSettings;

    const TTL: Duration = Duration::from_secs(9);
    const SET: [&str; 6] = ["SET", "key", "new", "IFEQ", "own", "PX"];
    const SCRIPT: &[&str] = &["EVALSHA", "key", "own", "new", "9000"];

    fn on(version: &str) -> RecordCommands {
        let records = RecordCommands::of_servers(&[format!("{version}\r\n")]);
        records.allow(8);
        records
    }

    async fn replace(
        records: &RecordCommands,
        server: Scripted,
        [expected, value]: [&str; 2],
        notifies: bool,
    ) -> Result<Swap, StoreError> {
        let sender = Sender::new(server.clone(), SendSettings::default());
        let (expected, value) = (expected.as_bytes(), value.as_bytes());
        let swap = records.replace(&sender, notifies, "key", expected, value, TTL);
        let swap = swap.await;
        server.assert_all_sent();
        swap
    }

    #[tokio::test]
    async fn ifeq_answers_as_the_script_does() {
        let other = Swap::Other(Bytes::from_static(b"other"));
        for (stored, expected) in [
            (None, Swap::Done),
            (Some("*2\r\n$-1\r\n:-2\r\n"), Swap::Absent),
            (Some("*2\r\n$5\r\nother\r\n:9\r\n"), other),
            // The command ran before, and its reply was lost.
            (Some("*2\r\n$3\r\nnew\r\n:9\r\n"), Swap::Done),
            // A late claim has stored the expected value after the command ran.
            (Some("*2\r\n$3\r\nown\r\n:9\r\n"), Swap::Absent),
        ] {
            for version in ["redis_version:8.4.0", "valkey_version:9.0.0"] {
                let server = match stored {
                    None => Scripted::default().answers(&SET, &["+OK\r\n"]),
                    Some(stored) => Scripted::default()
                        .answers(&SET, &["$-1\r\n"])
                        .answers(&["EVALSHA", "key", "9"], &[stored]),
                };
                let swap = replace(&on(version), server, ["own", "new"], false).await;
                assert_eq!(swap.expect("a reply"), expected);
            }
        }
    }

    #[tokio::test]
    async fn a_first_call_sends_no_script_and_notifies_in_the_same_round_trip() {
        let records = on("redis_version:8.4.0");
        let claim = ["SET", "key", "own", "NX", "GET", "PX"];
        let end = ["SET", "key", "new", "IFEQ", "own", "PX", "9000", "PUBLISH"];
        let server = Scripted::default()
            .answers(&claim, &["$-1\r\n"])
            .answers(&end, &["+OK\r\n", ":0\r\n"]);
        let sender = Sender::new(server.clone(), SendSettings::default());
        let claimed = records.claim(&sender, "key", b"own", TTL).await;
        claimed.expect("a reply");
        let done = replace(&records, server, ["own", "new"], true).await;
        assert_eq!(done.expect("a reply"), Swap::Done);
    }

    #[tokio::test]
    async fn a_renewal_and_an_older_server_get_the_script() {
        let renewal = Scripted::default().answers(&["EVALSHA", "key", "own", "own"], &[":1\r\n"]);
        let records = on("redis_version:8.4.0");
        let done = replace(&records, renewal, ["own", "own"], false).await;
        assert_eq!(done.expect("a reply"), Swap::Done);
        for version in ["redis_version:8.2.0", "valkey_version:8.0.0"] {
            let server = Scripted::default().answers(SCRIPT, &[":1\r\n"]);
            let done = replace(&on(version), server, ["own", "new"], false).await;
            assert_eq!(done.expect("a reply"), Swap::Done);
        }
    }

    #[tokio::test]
    async fn a_server_that_lost_ifeq_later_gets_the_script() {
        let records = on("redis_version:8.4.0");
        let server = Scripted::default()
            .answers(&SET, &["-ERR syntax error\r\n"])
            .answers(SCRIPT, &[":1\r\n"]);
        let done = replace(&records, server, ["own", "new"], false).await;
        assert_eq!(done.expect("a reply"), Swap::Done);
        let server = Scripted::default().answers(SCRIPT, &["$-1\r\n"]);
        let absent = replace(&records.clone(), server, ["own", "new"], false).await;
        assert_eq!(absent.expect("a reply"), Swap::Absent);
    }

    #[tokio::test]
    async fn a_server_that_refused_ifeq_once_gets_it_again() {
        let records = on("redis_version:8.4.0");
        let proxy = Scripted::default()
            .answers(&SET, &["-ERR Connection timed out\r\n"])
            .answers(SCRIPT, &[":1\r\n"]);
        let done = replace(&records, proxy, ["own", "new"], false).await;
        assert_eq!(done.expect("a reply"), Swap::Done);
        let server = Scripted::default().answers(&SET, &["+OK\r\n"]);
        let done = replace(&records, server, ["own", "new"], false).await;
        assert_eq!(done.expect("a reply"), Swap::Done);
    }

    #[tokio::test]
    async fn a_full_server_says_whether_the_record_is_stored() {
        let records = on("redis_version:8.4.0");
        for (reply, expected) in [
            // The command ran before, and its reply was lost.
            (":1\r\n", Ok(Swap::Done)),
            ("$-1\r\n", Ok(Swap::Absent)),
            ("-OOM command not allowed\r\n", Err(StoreErrorKind::Full)),
        ] {
            let server = Scripted::default()
                .answers(&SET, &["-OOM command not allowed\r\n"])
                .answers(SCRIPT, &[reply]);
            let swap = replace(&records, server, ["own", "new"], false).await;
            assert_eq!(swap.map_err(|error| error.kind()), expected);
        }
        let server = Scripted::default().answers(&SET, &["+OK\r\n"]);
        let done = replace(&records, server, ["own", "new"], false).await;
        assert_eq!(done.expect("a reply"), Swap::Done);
    }

    #[tokio::test]
    async fn the_error_of_a_key_of_another_type_is_kept() {
        let server = Scripted::default().answers(&SET, &["-WRONGTYPE a list\r\n"]);
        let records = on("redis_version:8.4.0");
        let refused = replace(&records, server, ["own", "new"], false).await;
        let kind = refused.expect_err("refused").kind();
        assert_eq!(kind, StoreErrorKind::Misconfigured);
    }
}
