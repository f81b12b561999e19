//! What happens to calls, and to operations of tokens, counters, sets, filters and order numbers.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use super::kind::EventKind;
use crate::error::catalog::Group;
use crate::error::{Error, Site};

/// One thing that happened to a call, or that an operation of a token, a counter, a set, a filter or order numbers came to.
///
/// It has no argument of the call and not the whole key. As text it is a sentence with the endpoint,
/// the key's first digits and the reason.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Event<'a> {
    pub(super) site: &'a Site,
    kind: EventKind,
    took: Option<Duration>,
    error: Option<&'a (dyn StdError + 'static)>,
    because: Option<&'a str>,
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

    /// The first 8 hexadecimal digits of the key's fingerprint, enough to tell keys apart in a log.
    /// `None` if the call has no key, as when a part of it could not be encoded.
    pub fn key(&self) -> Option<impl fmt::Display + fmt::Debug + Copy + use<>> {
        digits(self.site)
    }

    /// How long the call or the operation took, if this ended it; how long it waited, if it [`Waited`](EventKind::Waited).
    pub fn took(&self) -> Option<Duration> {
        self.took
    }

    /// The error that the call was refused with, or that the store gave.
    pub fn error(&self) -> Option<&'a (dyn StdError + 'static)> {
        self.error
    }

    /// Why, in words for people, where the kind does not say it.
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
        }
    }

    /// The end of the call that gets this error.
    pub(crate) fn refused(error: &'a Error) -> Self {
        Self::new(error.site(), EventKind::of(error)).caused_by(error)
    }

    /// What an operation came to that got this error.
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

    pub(crate) fn because(mut self, why: &'a str) -> Self {
        self.because = Some(why);
        self
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

/// As much of a key as may be seen.
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
    /// How a call that is refused with this error ends.
    const fn of(error: &Error) -> Self {
        match error.facts().group {
            Group::Running => Self::InProgress,
            Group::Done => Self::Done,
            Group::Taken => Self::Taken,
            Group::Mismatch => Self::Mismatch,
            Group::NoResult => Self::ResultUnavailable,
            Group::Token => Self::TokenRefused,
            Group::Store => Self::StoreError,
            Group::LeaseLost => Self::LeaseLost,
            // A limit is a counter's. No call is refused by it, and what ends a call has to be an end.
            Group::Invalid | Group::Limit => Self::Invalid,
        }
    }

    /// What an operation that gets this error comes to.
    const fn of_operation(error: &Error) -> Self {
        match error.facts().group {
            Group::Token => Self::TokenRejected,
            Group::Limit => Self::LimitReached,
            Group::Invalid => Self::OperationInvalid,
            // Duplicates and lost leases are of calls only.
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
            Self {
                endpoint: crate::key::endpoint::Endpoint::named("orders.pay"),
                fingerprint: Some(hasher.finish()),
            }
        }
    }

    #[test]
    fn no_event_prints_more_than_eight_digits_of_a_key() {
        let site = Site::example();
        let whole = site.fingerprint.unwrap().to_string();
        for &kind in EventKind::ALL {
            let event = Event::new(&site, kind).because("it is so");
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
        let event =
            Event::new(&site, EventKind::Unrecorded).because("nothing stands under its key");
        assert!(event.key().is_none());
        assert_eq!(
            event.to_string(),
            "call of `orders.pay`: the end of a call is not recorded: nothing stands under its key"
        );
    }

    #[test]
    fn a_refused_call_ends_as_its_error_says() {
        for (error, kind, _) in errors() {
            let event = Event::refused(&error);
            assert_eq!(event.kind(), kind, "{error:?}");
            assert!(event.kind().is_end());
            assert_eq!(event.endpoint(), "orders.pay");
            assert_eq!(event.error().unwrap().to_string(), error.to_string());
        }
    }

    #[test]
    fn a_refused_operation_comes_to_what_its_error_says() {
        for (error, _, kind) in errors() {
            let event = Event::of_operation(&error);
            assert_eq!(event.kind(), kind, "{error:?}");
            assert!(event.kind().is_operation());
        }
    }

    /// Errors, with what a call and an operation make of each.
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
