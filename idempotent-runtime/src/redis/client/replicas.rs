//! Writes that wait for replicas.

use std::fmt;
use std::time::Duration;

use ::redis::aio::ConnectionLike;
use ::redis::{Cmd, ErrorKind, FromRedisValue, RedisError, RedisResult, Value, cmd, pipe};

use crate::redis::client::info::field;
use crate::redis::script::Script;
use crate::store::{StoreError, StoreErrorKind};

/// The number of replicas that must acknowledge a write, and the longest wait for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Replicas {
    pub(crate) wanted: u32,
    pub(crate) timeout: Duration,
}

/// The reply to a write, and whether enough replicas have the write.
pub(crate) type Acknowledged = (Value, Result<(), Short>);

impl Default for Replicas {
    fn default() -> Self {
        Self {
            wanted: 0,
            // Shorter than the first attempt under the default deadline, so that the answer of `WAIT` comes before the attempt
            // ends.
            timeout: Duration::from_millis(200),
        }
    }
}

impl Replicas {
    /// Runs a script that writes, and waits for the replicas.
    ///
    /// An error comes from the script. The second part of the reply says whether enough replicas answered.
    pub(crate) async fn run<C: ConnectionLike>(
        self,
        connection: &mut C,
        script: &Script,
        keys: &[&str],
        args: &[&[u8]],
    ) -> RedisResult<Acknowledged> {
        let reply = self.send(connection, script.by_hash(keys, args)).await;
        match reply {
            Err(error) if Script::is_unknown(&error) => {
                self.send(connection, script.by_source(keys, args)).await
            }
            reply => reply,
        }
    }

    /// Sends the script and `WAIT` in one pipeline. `WAIT` waits only for the writes of its connection, so on another
    /// connection it would return at once, although no replica has the write.
    async fn send<C: ConnectionLike>(
        self,
        connection: &mut C,
        call: Cmd,
    ) -> RedisResult<Acknowledged> {
        let mut together = pipe();
        together.add_command(call).add_command(self.wait());
        // `query_async` would merge both replies into one error.
        let replies = connection.req_packed_commands(&together, 0, 2).await?;
        let Ok([reply, have]) = <[Value; 2]>::try_from(replies) else {
            let message = "two commands have not two replies";
            return Err(RedisError::from((ErrorKind::UnexpectedReturnType, message)));
        };
        Ok((reply.extract_error()?, self.check_count(have)))
    }

    pub(crate) fn wait(self) -> Cmd {
        let mut wait = cmd("WAIT");
        // Zero milliseconds would mean no limit.
        let millis = self.timeout.as_millis().clamp(1, u128::from(u32::MAX));
        wait.arg(self.wanted).arg(millis.to_string());
        wait
    }

    /// Whether the reply to `WAIT` names enough replicas.
    pub(crate) fn check_count(self, have: Value) -> Result<(), Short> {
        let have = have
            .extract_error()
            .and_then(|have| Ok(u32::from_redis_value(have)?));
        match have {
            Ok(have) if have >= self.wanted => Ok(()),
            Ok(have) => Err(Short::Few {
                have,
                replicas: self,
            }),
            Err(error) => Err(Short::NotKnown(error)),
        }
    }

    /// Checks that this user may run `WAIT`, and warns if there are too few replicas now.
    pub(crate) async fn check<C: ConnectionLike>(
        self,
        connection: &mut C,
        info: &[String],
    ) -> RedisResult<()> {
        for info in info {
            if field(info, "role") == Some("slave") {
                continue;
            }
            let connected = field(info, "connected_slaves").and_then(|text| text.parse().ok());
            if connected.is_some_and(|connected: u32| connected < self.wanted) {
                tracing::warn!(
                    target: "idempotence", connected,
                    wanted = self.wanted,
                    "the server has fewer replicas than each write waits for: no call runs until more \
                     are connected"
                );
            }
        }
        cmd("WAIT").arg(0).arg(1).exec_async(connection).await
    }
}

/// Too few replicas acknowledged a write. The primary has it.
#[derive(Debug, Clone)]
pub(crate) enum Short {
    Few { have: u32, replicas: Replicas },
    NotKnown(RedisError),
}

impl Short {
    /// The write is done and may be lost, so the caller repeats it or takes it back.
    pub(crate) fn into_error(self, place: &str) -> StoreError {
        let reason = match &self {
            Self::Few { have, replicas } => format!(
                "has the record on {have} of {} replicas after {:?} (are they connected and in time?)",
                replicas.wanted, replicas.timeout
            ),
            Self::NotKnown(_) => "could not say how many replicas have the record".to_owned(),
        };
        let error = StoreError::new(StoreErrorKind::Unknown, self);
        error.reason(reason).place(place.to_owned())
    }
}

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Few { have, replicas } => {
                let Replicas { wanted, timeout } = replicas;
                write!(f, "{have} of {wanted} replicas have it after {timeout:?}")
            }
            Self::NotKnown(_) => f.write_str("it is not known how many replicas have it"),
        }
    }
}

impl std::error::Error for Short {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Few { .. } => None,
            Self::NotKnown(error) => Some(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::deadline;
    use crate::redis::record::scripts::CLAIM_REPLICATED;
    use crate::redis::script::scripted::Scripted;

    const TWO: Replicas = Replicas {
        wanted: 2,
        timeout: Duration::from_millis(70),
    };

    async fn run(mut server: Scripted) -> RedisResult<Acknowledged> {
        let args = [&b"own"[..], b"1000"];
        let reply = TWO.run(&mut server, &CLAIM_REPLICATED, &["key"], &args);
        let reply = reply.await;
        server.assert_all_sent();
        reply
    }

    #[test]
    fn the_default_wait_is_shorter_than_the_first_attempt() {
        let wait = Replicas::default().timeout;
        assert!(wait < deadline::first_try(deadline::DEFAULT), "{wait:?}");
    }

    const BY_HASH: [&str; 6] = ["EVALSHA", "key", "own", "WAIT", "2", "70"];
    const BY_SOURCE: [&str; 7] = ["EVAL", "redis.call", "key", "own", "WAIT", "2", "70"];

    #[tokio::test]
    async fn the_write_and_its_wait_are_one_pipeline() {
        for (have, expected) in [
            (":3\r\n", None),
            (":2\r\n", None),
            (":1\r\n", Some("1 of 2 replicas have it after 70ms")),
            (":0\r\n", Some("0 of 2 replicas have it after 70ms")),
            (
                "-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n",
                Some("it is not known how many replicas have it"),
            ),
        ] {
            let server = Scripted::default().answers(&BY_HASH, &[":1\r\n", have]);
            let (reply, enough) = run(server).await.expect("a reply");
            assert_eq!(reply, Value::Int(1));
            let short = enough.err().map(|short| short.to_string());
            assert_eq!(short.as_deref(), expected);
        }
    }

    #[tokio::test]
    async fn a_script_that_is_sent_again_has_its_own_wait() {
        let no_script = "-NOSCRIPT No matching script.\r\n";
        let server = Scripted::default()
            .answers(&BY_HASH, &[no_script, ":2\r\n"])
            .answers(&BY_SOURCE, &[":1\r\n", ":0\r\n"]);
        let (reply, enough) = run(server).await.expect("a reply");
        assert_eq!(reply, Value::Int(1));
        assert!(enough.is_err(), "the first wait does not count");
    }

    #[tokio::test]
    async fn a_refusal_of_the_script_is_the_error() {
        let server = Scripted::default().answers(&BY_HASH, &["-READONLY a replica\r\n", ":0\r\n"]);
        let error = run(server).await.expect_err("refused");
        assert_eq!(error.code(), Some("READONLY"));
    }
}
