//! What happens to calls, and to operations of tokens, counters, sets, filters and order numbers.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

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
        f.write_str(self.0.what())?;
        match self.1 {
            Some(why) => write!(f, ": {why}"),
            None => Ok(()),
        }
    }
}

/// What happened to a call, or what an operation came to.
///
/// Each call ends with exactly one of the first, `Executed` to `Panicked`. Any number of the next, `Waited` to `AlreadyGone`, may come
/// before or, when a record is settled without the caller, after it. The last, `TokenIssued` to `OperationCancelled`, are of the
/// operations of tokens, counters, seen-sets, Bloom filters and order numbers: each operation has exactly one, wherever it is made (but for
/// [`Bloom::first_time`](crate::Bloom::first_time), which says which it has), and none of them ends a call. As text a kind is the label of the metrics, such as `in_progress`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EventKind {
    /// The body ran; its outcome is a success. DEBUG.
    Executed,
    /// The body ran; its outcome is not a success. DEBUG.
    Failed,
    /// The body ran without a key, because `when` was false in this call. DEBUG.
    Bypassed,
    /// The call got the result of an equal one. DEBUG.
    Replayed,
    /// An equal call is running. DEBUG.
    InProgress,
    /// An equal call ended with a success. DEBUG.
    Done,
    /// An equal call was made, with `release = false`. DEBUG.
    Taken,
    /// The key is that of a call with another payload. INFO.
    Mismatch,
    /// An equal call ended with a success, and its result cannot be given. INFO.
    ResultUnavailable,
    /// The one-time token of the call was used before, is unknown, or is none. INFO.
    TokenRefused,
    /// The store could not be asked, is not set up for the call, or has a foreign record. WARN.
    StoreError,
    /// The call has no key, no policy that makes sense, or no handle. WARN.
    Invalid,
    /// The body was stopped, because its lease was lost, or its row was gone from its caller's transaction when it had ended: its
    /// work may be done or not. WARN.
    LeaseLost,
    /// The caller dropped the call before its end, in the body or while claiming. DEBUG.
    Cancelled,
    /// The body panicked. WARN.
    Panicked,

    /// A duplicate waited for an equal call to end. DEBUG.
    Waited,
    /// The lease was lost while the body ran, so that an equal call may run beside it. ERROR.
    Overrun,
    /// The claim could not be renewed; it is tried again until its lease ends. WARN, once for each row of failures.
    RenewalFailed,
    /// The store is unavailable and the body runs without a claim (`on_store_error = "run"`). ERROR.
    Unguarded,
    /// The end of the call is not recorded, so that an equal one may run again too early, or be
    /// refused for too long. ERROR.
    Unrecorded,
    /// A result is not kept for duplicates: it is too large, cannot be written, or the store has no room. WARN.
    NotKept,
    /// A claim whose answer never came could not be taken back: it may hold the key until its lease ends. WARN.
    NotWithdrawn,
    /// The claim was gone from the store before the call came to take it away. DEBUG.
    AlreadyGone,

    /// A one-time token was issued. DEBUG.
    TokenIssued,
    /// A one-time token was redeemed. DEBUG.
    TokenRedeemed,
    /// A redeemed token was given back, and may be redeemed again. DEBUG.
    TokenGivenBack,
    /// A one-time token or an order number was used before, has expired, is somebody else's, or is none. INFO.
    TokenRejected,
    /// An order number was issued. DEBUG.
    NumberIssued,
    /// An attempt was counted, within the limit. DEBUG.
    Counted,
    /// There were as many attempts as the counter allows in its window. INFO.
    LimitReached,
    /// A member was added to a seen-set or marked in a Bloom filter: it was not there. DEBUG.
    FirstSeen,
    /// A member was in the seen-set already, or in the database that decides for a Bloom filter. DEBUG.
    SeenBefore,
    /// A Bloom filter may have seen a member. DEBUG.
    PerhapsSeen,
    /// A member was taken out of a seen-set again. DEBUG.
    TakenBack,
    /// The token or member that was to be given or taken back is not there any more. DEBUG.
    NotThere,
    /// The store could not be asked, is not set up for the operation, or has a foreign record. WARN.
    OperationFailed,
    /// The operation has a subject or member that could not be serialized, or a name or time that cannot be. WARN.
    OperationInvalid,
    /// The caller dropped the operation before its end. DEBUG.
    OperationCancelled,
}

impl EventKind {
    /// The label of the metrics and the field of tracing, such as `in_progress`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Executed => "executed",
            Self::Failed => "failed",
            Self::Bypassed => "bypassed",
            Self::Replayed => "replayed",
            Self::InProgress => "in_progress",
            Self::Done => "done",
            Self::Taken => "taken",
            Self::Mismatch => "mismatch",
            Self::ResultUnavailable => "result_unavailable",
            Self::TokenRefused => "token_refused",
            Self::StoreError => "store_error",
            Self::Invalid => "invalid",
            Self::LeaseLost => "lease_lost",
            Self::Cancelled => "cancelled",
            Self::Panicked => "panicked",
            Self::Waited => "waited",
            Self::Overrun => "overrun",
            Self::RenewalFailed => "renewal_failed",
            Self::Unguarded => "unguarded",
            Self::Unrecorded => "unrecorded",
            Self::NotKept => "not_kept",
            Self::NotWithdrawn => "not_withdrawn",
            Self::AlreadyGone => "already_gone",
            Self::TokenIssued => "token_issued",
            Self::TokenRedeemed => "token_redeemed",
            Self::TokenGivenBack => "token_given_back",
            Self::TokenRejected => "token_rejected",
            Self::NumberIssued => "number_issued",
            Self::Counted => "counted",
            Self::LimitReached => "limit_reached",
            Self::FirstSeen => "first_seen",
            Self::SeenBefore => "seen_before",
            Self::PerhapsSeen => "perhaps_seen",
            Self::TakenBack => "taken_back",
            Self::NotThere => "not_there",
            Self::OperationFailed => "operation_failed",
            Self::OperationInvalid => "operation_invalid",
            Self::OperationCancelled => "operation_cancelled",
        }
    }

    /// The end of a call that was dropped: by its caller, or because something panicked.
    pub(crate) fn of_a_dropped_call() -> Self {
        if std::thread::panicking() {
            Self::Panicked
        } else {
            Self::Cancelled
        }
    }

    /// Whether it ends a call. Each call has exactly one such event.
    pub const fn is_end(self) -> bool {
        !self.is_operation()
            && !matches!(
                self,
                Self::Waited
                    | Self::Overrun
                    | Self::RenewalFailed
                    | Self::Unguarded
                    | Self::Unrecorded
                    | Self::NotKept
                    | Self::NotWithdrawn
                    | Self::AlreadyGone
            )
    }

    /// Whether it is what an operation of a token, a counter, a seen-set, a Bloom filter or order numbers came to. It never ends a call.
    pub const fn is_operation(self) -> bool {
        matches!(
            self,
            Self::TokenIssued
                | Self::TokenRedeemed
                | Self::TokenGivenBack
                | Self::TokenRejected
                | Self::NumberIssued
                | Self::Counted
                | Self::LimitReached
                | Self::FirstSeen
                | Self::SeenBefore
                | Self::PerhapsSeen
                | Self::TakenBack
                | Self::NotThere
                | Self::OperationFailed
                | Self::OperationInvalid
                | Self::OperationCancelled
        )
    }

    const fn of(error: &Error) -> Self {
        match error {
            Error::InProgress(_) => Self::InProgress,
            Error::AlreadyDone(_) => Self::Done,
            Error::Taken(_) => Self::Taken,
            Error::PayloadMismatch(_) => Self::Mismatch,
            Error::ResultUnavailable(_) => Self::ResultUnavailable,
            Error::TokenUsed(_) | Error::TokenUnknown(_) | Error::TokenMalformed(_) => {
                Self::TokenRefused
            }
            Error::Unavailable(_) | Error::Misconfigured(_) | Error::ForeignRecord(_) => {
                Self::StoreError
            }
            Error::LeaseLost(_) => Self::LeaseLost,
            // The last is a counter's, and no call is refused by one.
            Error::InvalidKey(_)
            | Error::InvalidPolicy(_)
            | Error::NotInstalled(_)
            | Error::LimitReached(_) => Self::Invalid,
        }
    }

    const fn of_operation(error: &Error) -> Self {
        match error {
            Error::TokenUsed(_) | Error::TokenUnknown(_) | Error::TokenMalformed(_) => {
                Self::TokenRejected
            }
            Error::LimitReached(_) => Self::LimitReached,
            Error::InvalidKey(_) | Error::InvalidPolicy(_) | Error::NotInstalled(_) => {
                Self::OperationInvalid
            }
            // Those of duplicates and leases are of calls.
            Error::Unavailable(_)
            | Error::Misconfigured(_)
            | Error::ForeignRecord(_)
            | Error::LeaseLost(_)
            | Error::InProgress(_)
            | Error::AlreadyDone(_)
            | Error::Taken(_)
            | Error::PayloadMismatch(_)
            | Error::ResultUnavailable(_) => Self::OperationFailed,
        }
    }

    const fn what(self) -> &'static str {
        match self {
            Self::Executed => "the body ran, with success",
            Self::Failed => "the body ran, without success",
            Self::Bypassed => "the body ran without a key, because `when` was false",
            Self::Replayed => "an equal call is done and its result was given",
            Self::InProgress => "an equal call is running",
            Self::Done => "an equal call is done",
            Self::Taken => "an equal call was made",
            Self::Mismatch => "the key is that of a call with another payload",
            Self::ResultUnavailable => "an equal call is done and its result cannot be given",
            Self::TokenRefused => "the one-time token is refused",
            Self::StoreError => "the store cannot serve the call",
            Self::Invalid => "the call is not set up right",
            Self::LeaseLost => {
                "its lease, or its row in a transaction, was lost while the body ran"
            }
            Self::Cancelled => "the caller dropped the call",
            Self::Panicked => "the body panicked",
            Self::Waited => "it waited for an equal call to end",
            Self::Overrun => "lease lost; an equal call may run beside this one",
            Self::RenewalFailed => {
                "a claim could not be renewed; it is tried again until its lease ends"
            }
            Self::Unguarded => "the store is unavailable; the body runs unguarded",
            Self::Unrecorded => "the end of a call is not recorded",
            Self::NotKept => "the result is not kept; the claim stays for the whole ttl",
            Self::NotWithdrawn => "what was sent and never answered may stand until it expires",
            Self::AlreadyGone => "the claim is not there any more",
            Self::TokenIssued => "a one-time token was issued",
            Self::TokenRedeemed => "a one-time token was redeemed",
            Self::TokenGivenBack => "a one-time token was given back",
            Self::TokenRejected => "a one-time token or an order number was rejected",
            Self::NumberIssued => "an order number was issued",
            Self::Counted => "an attempt was counted, within the limit",
            Self::LimitReached => "there were too many attempts",
            Self::FirstSeen => "it was seen for the first time",
            Self::SeenBefore => "it was seen before",
            Self::PerhapsSeen => "it was perhaps seen before",
            Self::TakenBack => "a member was taken out of its set again",
            Self::NotThere => "what was to be taken back is not there any more",
            Self::OperationFailed => "the store cannot serve the operation",
            Self::OperationInvalid => "the operation is not set up right",
            Self::OperationCancelled => "the caller dropped the operation",
        }
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
pub(super) use tests::every_kind;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Failure;
    use crate::key::fingerprint::{Digest, Keying};

    /// A kind that is missing here does not compile.
    pub(in super::super) fn every_kind() -> impl Iterator<Item = EventKind> {
        macro_rules! every {
            ($($kind:ident)*) => {{
                let _ = |kind| match kind { $(EventKind::$kind => ()),* };
                [$(EventKind::$kind),*]
            }};
        }
        every! {
            Executed Failed Bypassed Replayed InProgress Done Taken Mismatch ResultUnavailable TokenRefused
            StoreError Invalid LeaseLost Cancelled Panicked
            Waited Overrun RenewalFailed Unguarded Unrecorded NotKept NotWithdrawn AlreadyGone
            TokenIssued TokenRedeemed TokenGivenBack TokenRejected NumberIssued Counted LimitReached FirstSeen
            SeenBefore PerhapsSeen TakenBack NotThere OperationFailed OperationInvalid OperationCancelled
        }
        .into_iter()
    }

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
    fn every_kind_has_its_own_label() {
        let labels: Vec<_> = every_kind().map(EventKind::as_str).collect();
        let known = "executed failed bypassed replayed in_progress done taken mismatch result_unavailable \
                     token_refused store_error invalid lease_lost cancelled panicked waited overrun \
                     renewal_failed unguarded unrecorded not_kept not_withdrawn already_gone \
                     token_issued token_redeemed token_given_back token_rejected number_issued counted limit_reached \
                     first_seen seen_before perhaps_seen taken_back not_there operation_failed operation_invalid \
                     operation_cancelled";
        assert_eq!(labels.join(" "), known);
    }

    #[test]
    fn a_call_ends_in_one_of_the_first_ways_up_to_panicked() {
        let (ends, others): (Vec<_>, Vec<_>) = every_kind().partition(|kind| kind.is_end());
        assert!(every_kind().eq(ends.iter().copied().chain(others)));
        assert_eq!(ends.last(), Some(&EventKind::Panicked));
    }

    #[test]
    fn the_kinds_of_operations_are_the_last_and_end_no_call() {
        let (operations, others): (Vec<_>, Vec<_>) =
            every_kind().partition(|kind| kind.is_operation());
        assert!(every_kind().eq(others.into_iter().chain(operations.iter().copied())));
        assert_eq!(operations[0], EventKind::TokenIssued);
        assert!(operations.iter().all(|kind| !kind.is_end()));
    }

    #[test]
    fn no_event_prints_more_than_eight_digits_of_a_key() {
        let site = Site::example();
        let whole = site.fingerprint.unwrap().to_string();
        for kind in every_kind() {
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
        let failure = || Failure::new(Site::example(), "as a test", None);
        for (error, kind) in [
            (Error::Unavailable(failure()), EventKind::StoreError),
            (Error::Misconfigured(failure()), EventKind::StoreError),
            (Error::ForeignRecord(failure()), EventKind::StoreError),
            (Error::LeaseLost(failure()), EventKind::LeaseLost),
            (Error::InvalidKey(failure()), EventKind::Invalid),
            (Error::InvalidPolicy(failure()), EventKind::Invalid),
            (Error::NotInstalled(failure()), EventKind::Invalid),
        ] {
            let event = Event::refused(&error);
            assert_eq!(event.kind(), kind, "{error:?}");
            assert!(event.kind().is_end());
            assert_eq!(event.endpoint(), "orders.pay");
            assert_eq!(event.error().unwrap().to_string(), error.to_string());
        }
    }
}
