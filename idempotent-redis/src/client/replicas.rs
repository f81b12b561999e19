//! How many replicas must acknowledge a write, and whether they have.

use std::fmt;
use std::time::Duration;

use ::redis::aio::ConnectionLike;
use ::redis::{Cmd, FromRedisValue, RedisError, RedisResult, Value, cmd};
use idempotent_runtime::store::{StoreError, StoreErrorKind};

use crate::client::info::field;

/// The number of replicas that must acknowledge a write, and the longest wait for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Replicas {
    pub(crate) wanted: u32,
    pub(crate) timeout: Duration,
}

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
    /// The command that waits for the writes of its connection.
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
    pub(crate) fn into_error(self) -> StoreError {
        let reason = match &self {
            Self::Few { have, replicas } => format!(
                "has the record on {have} of {} replicas after {:?} (are they connected and in time?)",
                replicas.wanted, replicas.timeout
            ),
            Self::NotKnown(_) => "could not say how many replicas have the record".to_owned(),
        };
        let error = StoreError::new(StoreErrorKind::Unknown, self);
        error.reason(reason)
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
    use idempotent_runtime::port::redis::{DEFAULT_DEADLINE, first_try};

    #[test]
    fn the_default_wait_is_shorter_than_the_first_attempt() {
        let wait = Replicas::default().timeout;
        assert!(wait < first_try(DEFAULT_DEADLINE), "{wait:?}");
    }
}
