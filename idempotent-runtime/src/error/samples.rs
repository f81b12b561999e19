//! An error of each variant, for tests.

use std::time::Duration;

use super::call::Error;
use super::duplicate::{Duplicate, DuplicateFacts, DuplicateState};
use super::failure::{Failure, Site};
use super::limited::Limited;
use super::store::{StoreError, StoreErrorKind};
use crate::key::endpoint::Endpoint;
use crate::key::fingerprint::Fingerprint;

impl Error {
    /// One error of each variant.
    pub(crate) fn samples() -> [Self; 17] {
        let site = || {
            let key = Fingerprint::of(&("A-1",)).expect("a text is a key part");
            Site::without_key(Endpoint::named("orders.pay")).with_key(key)
        };
        let duplicate = |state| {
            Duplicate(Box::new(DuplicateFacts {
                site: site(),
                state,
                holder: "web-3:4242".to_owned(),
                age: Duration::from_secs(5),
                retry_after: match state {
                    DuplicateState::Running => Duration::from_secs(5),
                    _ => Duration::from_millis(28_500),
                },
                free_in: Some(Duration::from_millis(28_500)),
                unavailable: None,
                further: None,
                is_equal: true,
                holders: 1,
            }))
        };
        let failure = || {
            let source = "10.0.0.7:6379 sent no answer";
            Failure::new(
                site(),
                "refused because it failed; fix the cause",
                Some(source.into()),
            )
        };
        let refused = |kind| {
            let source = StoreError::new(kind, "10.0.0.7:6379 sent no answer")
                .reason("refused the connection")
                .place("redis 10.0.0.7:6379");
            Self::store(site(), source)
        };
        [
            Self::InProgress(duplicate(DuplicateState::Running)),
            Self::AlreadyDone(duplicate(DuplicateState::Done)),
            Self::Taken(duplicate(DuplicateState::Unknown)),
            Self::OutcomeUnknown(duplicate(DuplicateState::Unknown)),
            Self::PayloadMismatch(duplicate(DuplicateState::Done)),
            Self::ResultUnavailable(duplicate(DuplicateState::Done)),
            Self::TokenUsed(failure()),
            Self::TokenUnknown(failure()),
            Self::TokenMalformed(failure()),
            Self::LimitReached(Limited::new(site(), 4, 3, Duration::from_millis(28_500))),
            refused(StoreErrorKind::NotApplied),
            refused(StoreErrorKind::Misconfigured),
            Self::ForeignRecord(failure()),
            Self::LeaseLost(failure()),
            Self::InvalidKey(failure()),
            Self::InvalidPolicy(failure()),
            Self::NotInstalled(failure()),
        ]
    }
}
