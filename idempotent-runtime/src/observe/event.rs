//! The events of calls, and of operations on tokens, counters, sets, filters and order numbers.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use tracing::Level;

use super::kind::EventKind;
use crate::error::catalog::Group;
use crate::error::{Error, Site};

/// One event of a call, or the outcome of an operation on a token, a counter, a set, a filter or order numbers.
///
/// An event contains no argument of the call and not the whole key. Its text is a sentence with the endpoint, the first
/// digits of the key and the reason.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Event<'a> {
    pub(super) site: &'a Site,
    kind: EventKind,
    took: Option<Duration>,
    error: Option<&'a (dyn StdError + 'static)>,
    because: Option<&'a str>,
    /// Whether the event is about a part of a call whose end says the same.
    in_call: bool,
}

impl<'a> Event<'a> {
    /// What happened.
    pub fn kind(&self) -> EventKind {
        self.kind
    }

    /// The name of the endpoint.
    pub fn endpoint(&self) -> &'a str {
        self.site.endpoint.as_str()
    }

    /// The first 8 hexadecimal digits of the key's fingerprint, enough to distinguish keys in a log.
    /// `None` if the call has no key, for example because a part of the key could not be encoded.
    pub fn key(&self) -> Option<impl fmt::Display + fmt::Debug + Copy + use<>> {
        digits(self.site)
    }

    /// How long the call or the operation took, if this event ends it. For [`Waited`](EventKind::Waited): how long the call waited.
    pub fn took(&self) -> Option<Duration> {
        self.took
    }

    /// The error of the refused call, or of the store.
    pub fn error(&self) -> Option<&'a (dyn StdError + 'static)> {
        self.error
    }

    /// The reason, as text, if the kind does not already give it.
    pub fn reason(&self) -> Option<&'a str> {
        self.because
    }

    pub(crate) fn new(site: &'a Site, kind: EventKind) -> Self {
        Self {
            site,
            kind,
            took: None,
            error: None,
            because: None,
            in_call: false,
        }
    }

    /// The event of a call that ends with this error.
    pub(crate) fn refused(error: &'a Error) -> Self {
        Self::new(error.site(), EventKind::from_error(error)).caused_by(error)
    }

    /// The event of an operation that ends with this error.
    pub(crate) fn of_operation(error: &'a Error) -> Self {
        Self::new(error.site(), EventKind::of_operation(error)).caused_by(error)
    }

    pub(crate) fn lasted(mut self, took: Option<Duration>) -> Self {
        self.took = took;
        self
    }

    pub(crate) fn caused_by(mut self, error: &'a (dyn StdError + 'static)) -> Self {
        self.error = Some(error);
        self
    }

    /// The event of an operation that its call has begun. If the operation is refused, the end of the call says why.
    pub(crate) fn in_call(mut self, in_call: bool) -> Self {
        self.in_call = in_call;
        self
    }

    pub(crate) fn because(mut self, why: &'a str) -> Self {
        self.because = Some(why);
        self
    }

    /// The level of its line. What the end of a call says again is logged at DEBUG.
    pub(super) fn level(&self) -> Level {
        if self.in_call {
            Level::DEBUG
        } else {
            self.kind.level()
        }
    }

    /// The sentence without the endpoint and the key.
    pub(super) fn sentence(&self) -> impl fmt::Display + use<'a> {
        Sentence(self.kind, self.because)
    }
}

impl fmt::Display for Event<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.site, self.sentence())
    }
}

/// The digits of a key that may be shown.
pub(super) fn digits(site: &Site) -> Option<impl fmt::Display + fmt::Debug + Copy + use<>> {
    let fingerprint = site.fingerprint.as_ref()?;
    Some(Digits(fingerprint.short()))
}

#[derive(Clone, Copy)]
struct Digits([u8; 4]);

impl fmt::Display for Digits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", u32::from_be_bytes(self.0))
    }
}

impl fmt::Debug for Digits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

struct Sentence<'a>(EventKind, Option<&'a str>);

impl fmt::Display for Sentence<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.sentence())?;
        match self.1 {
            Some(why) => write!(f, ": {why}"),
            None => Ok(()),
        }
    }
}

impl EventKind {
    /// The kind for a call that ends with this error.
    fn from_error(error: &Error) -> Self {
        match error.facts().group {
            Group::Running => Self::InProgress,
            Group::Done => Self::Done,
            Group::Taken => Self::Taken,
            Group::Mismatch => Self::Mismatch,
            Group::NoResult => Self::ResultUnavailable,
            Group::Token => Self::TokenRefused,
            Group::Store => Self::StoreError,
            Group::LeaseLost => Self::LeaseLost,
            // Only counters have limits, and no call ends with `LimitReached`. This function must return an end of a call.
            Group::Invalid | Group::Limit => Self::Invalid,
        }
    }

    /// The kind for an operation that ends with this error.
    fn of_operation(error: &Error) -> Self {
        match error.facts().group {
            Group::Token => Self::TokenRejected,
            Group::Limit => Self::LimitReached,
            Group::Invalid => Self::OperationInvalid,
            // Only calls have duplicates and leases.
            _ => Self::OperationFailed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Failure, Limited};
    use crate::key::fingerprint::{Digest, Keying};

    impl Site {
        pub(in super::super) fn example() -> Self {
            let mut hasher = Keying::new(Digest::Sha256).hasher();
            hasher.part(&42).unwrap();
            let endpoint = crate::key::endpoint::Endpoint::named("orders.pay");
            Self::without_key(endpoint).with_key(hasher.finish())
        }
    }

    #[test]
    fn no_event_prints_more_than_eight_digits_of_a_key() {
        let site = Site::example();
        let whole = site.fingerprint.unwrap().to_string();
        for &kind in EventKind::ALL {
            let event = Event::new(&site, kind).because("of a test");
            let key = event.key().unwrap();
            assert_eq!(key.to_string(), whole[..8]);
            for text in [event.to_string(), format!("{event:?}"), format!("{key:?}")] {
                assert!(text.contains(&whole[..8]), "{text}");
                assert!(!text.contains(&whole[..9]), "{text}");
            }
        }
    }

    #[test]
    fn an_event_is_a_sentence_with_its_reason() {
        let site = Site {
            fingerprint: None,
            ..Site::example()
        };
        let event = Event::new(&site, EventKind::Unrecorded).because("no record is stored");
        assert!(event.key().is_none());
        assert_eq!(
            event.to_string(),
            "call of `orders.pay`: the end of a call is not recorded: no record is stored"
        );
    }

    #[test]
    fn the_error_of_a_call_decides_the_kind_of_its_end() {
        for (error, kind, _) in errors() {
            let event = Event::refused(&error);
            assert_eq!(event.kind(), kind, "{error:?}");
            assert!(event.kind().is_end());
            assert_eq!(kind.is_duplicate(), error.is_duplicate(), "{error:?}");
            assert_eq!(event.endpoint(), "orders.pay");
            assert_eq!(event.error().unwrap().to_string(), error.to_string());
        }
    }

    #[test]
    fn the_error_of_an_operation_decides_the_kind_of_its_event() {
        for (error, _, kind) in errors() {
            let event = Event::of_operation(&error);
            assert_eq!(event.kind(), kind, "{error:?}");
            assert!(event.kind().is_operation());
        }
    }

    /// Errors, each with the kinds of the events for a call and for an operation.
    fn errors() -> [(Error, EventKind, EventKind); 11] {
        use EventKind::{Invalid, LeaseLost, LimitReached, StoreError, TokenRefused};
        use EventKind::{OperationFailed, OperationInvalid, TokenRejected};

        let failure = || Failure::new(Site::example(), "as a test", None);
        let limited = Limited::new(Site::example(), 4, 3, Duration::from_secs(1));
        [
            (Error::LimitReached(limited), Invalid, LimitReached),
            (Error::TokenUsed(failure()), TokenRefused, TokenRejected),
            (Error::TokenUnknown(failure()), TokenRefused, TokenRejected),
            (
                Error::TokenMalformed(failure()),
                TokenRefused,
                TokenRejected,
            ),
            (Error::Unavailable(failure()), StoreError, OperationFailed),
            (Error::Misconfigured(failure()), StoreError, OperationFailed),
            (Error::ForeignRecord(failure()), StoreError, OperationFailed),
            (Error::LeaseLost(failure()), LeaseLost, OperationFailed),
            (Error::InvalidKey(failure()), Invalid, OperationInvalid),
            (Error::InvalidPolicy(failure()), Invalid, OperationInvalid),
            (Error::NotInstalled(failure()), Invalid, OperationInvalid),
        ]
    }
}
