//! The policies and outcomes of calls.

use std::time::Duration;

use idempotent_runtime::{Error, GuardedCall, Idempotency, Release};

/// The policy and the outcome of a call.
#[expect(clippy::struct_excessive_bools, reason = "each is an independent fact")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CallPlan {
    pub(crate) release: Release,
    pub(crate) replay: bool,
    pub(crate) succeeds: bool,
    /// The body runs long enough for a renewal.
    pub(crate) is_long: bool,
    /// The call has a [further key](further).
    pub(crate) also: bool,
}

/// The further key of the call with this key.
pub(crate) fn further(id: u64) -> u64 {
    id + (1 << 32)
}

/// The failure of a call.
#[derive(Debug)]
pub(crate) enum Failure {
    Refused(Error),
    Body,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

pub(crate) type Outcome = Result<u64, Failure>;

// No record expires while a slow machine checks a case.
pub(crate) const TTL: Duration = Duration::from_mins(4);
const LEASE: Duration = Duration::from_mins(2);
/// Renewed after a second.
const SHORT_LEASE: Duration = Duration::from_secs(3);

impl CallPlan {
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        [
            (Release::Always, false, false, false),
            (Release::OnError, false, false, false),
            (Release::OnError, true, false, false),
            (Release::OnError, true, true, false),
            (Release::Never, false, false, false),
            (Release::Never, true, false, false),
            (Release::Always, false, false, true),
        ]
        .into_iter()
        .flat_map(|(release, replay, is_long, also)| {
            [true, false].map(|succeeds| Self {
                release,
                replay,
                succeeds,
                is_long,
                also,
            })
        })
    }

    /// Runs `body` under this policy.
    pub(crate) async fn run(
        self,
        idempotency: &Idempotency,
        id: u64,
        body: impl Future<Output = Outcome>,
    ) -> Outcome {
        let call = self.call(idempotency, id);
        if self.replay {
            call.replay().run(body).await
        } else {
            call.run(body).await
        }
    }

    fn call(self, idempotency: &Idempotency, id: u64) -> GuardedCall {
        let call = idempotency.call("proxied.pay").key(&id);
        let call = if self.also {
            call.also(&further(id))
        } else {
            call
        };
        let call = call.ttl(TTL).release(self.release);
        match self.release {
            Release::OnError if self.is_long => call.lease(SHORT_LEASE),
            Release::OnError => call.lease(LEASE),
            _ => call,
        }
    }
}
