//! The table of the kinds of events.

use std::fmt;

use tracing::Level;

macro_rules! event_kinds {
    ($($(#[$more:meta])* $kind:ident => $word:literal, $class:ident, $level:ident, $sentence:literal;)*) => {
        /// What happened to a call, or the outcome of an operation.
        ///
        /// Each call ends with exactly one of the kinds `Executed` to `Panicked`. Any number of the kinds `Waited` to
        /// `AlreadyGone` may come before this end, or after it if the record is settled in the background. The kinds
        /// `TokenIssued` to `OperationCancelled` belong to operations on tokens, counters, seen-sets, Bloom filters and order
        /// numbers, and never end a call. Each operation has exactly one of them, also inside a call, except
        /// [`Bloom::first_time`](crate::Bloom::first_time), which documents its events. The text of a kind is its label in the
        /// metrics, such as `in_progress`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum EventKind {
            $(
                #[doc = concat!("`", $word, "` (", stringify!($level), "): ", $sentence, ".")]
                $(#[doc = ""] #[$more])*
                $kind,
            )*
        }

        impl EventKind {
            /// Every kind, in the order of the docs: the ends of calls, the other events of calls, the operations.
            pub const ALL: &'static [Self] = &[$(Self::$kind),*];

            const fn facts(self) -> &'static KindRow {
                match self {
                    $(Self::$kind => &KindRow {
                        word: $word,
                        class: Class::$class,
                        level: Level::$level,
                        sentence: $sentence,
                    },)*
                }
            }
        }
    };
}

// Each row: the name in code, the word for programs, the class, the level in the log, and the sentence for people. The docs are
// generated from the rows. The comment above a row adds details to the sentence. INFO marks unusual behaviour of the caller,
// not of this program.
event_kinds! {
    Executed => "executed", End, DEBUG, "the body ran, with success";
    Failed => "failed", End, DEBUG, "the body ran, without success";
    Bypassed => "bypassed", End, DEBUG, "the body ran without a key, because `when` was false";
    /// An equal call may run at the same time, or again.
    Disabled => "disabled", End, WARN, "the body ran unguarded, because the setting `disabled` is true";
    Replayed => "replayed", End, DEBUG, "an equal call has ended, and its result was returned";
    InProgress => "in_progress", End, DEBUG, "an equal call is running";
    /// The equal call succeeded.
    Done => "done", End, DEBUG, "an equal call has ended with success";
    /// With `release = false`: the equal call may be running or may have ended. Also if the outcome of an equal call is not known.
    Taken => "taken", End, DEBUG, "an equal call was made";
    Mismatch => "mismatch", End, INFO, "a call with another payload has the key";
    ResultUnavailable => "result_unavailable", End, INFO, "an equal call has ended, and its result cannot be returned";
    /// The token was used before, is unknown, or is malformed.
    TokenRefused => "token_refused", End, INFO, "the one-time token is refused";
    /// The store is unavailable, is not set up for the call, or has a foreign record.
    StoreError => "store_error", End, WARN, "the store cannot serve the call";
    /// The call has no key, no valid policy, or no handle.
    Invalid => "invalid", End, WARN, "the call is not set up correctly";
    /// The body was stopped, or its row was missing from the caller's transaction when it returned: its work may or may not be
    /// done.
    LeaseLost => "lease_lost", End, WARN, "the call lost its lease, or its row in a transaction, while the body ran";
    /// The call was dropped while its body ran or while it claimed its key.
    Cancelled => "cancelled", End, DEBUG, "the caller dropped the call";
    Panicked => "panicked", End, WARN, "the body panicked";

    Waited => "waited", Note, DEBUG, "the call waited for an equal call to end";
    /// A duplicate of the process has found that the holder has not renewed for longer than a renewal is due: its process died, or
    /// its future was dropped. Once for each claim that the process meets.
    Stuck => "stuck", Note, INFO, "the holder of the key does not renew its lease";
    /// The holder died, was dropped, or lost its lease, so its work may or may not be done: a duplicate of this process has met its
    /// key as `stuck`, or the record of a `fence` says so.
    TookOver => "took_over", Note, INFO, "the call got a key whose last call did not record its end";
    /// The lease was lost while the body ran.
    Overrun => "overrun", Note, ERROR, "the lease was lost; an equal call may run at the same time";
    /// Logged once for consecutive failures, while the body runs.
    RenewalFailed => "renewal_failed", Note, WARN, "a claim could not be renewed; the renewal is tried again until the lease ends";
    /// The body runs without a claim because of `on_store_error = "run"`, or without the number of its `fence` while the setting
    /// `disabled` is true.
    Unguarded => "unguarded", Note, ERROR, "the store is unavailable; the body runs unguarded";
    /// The store did not take a success, or an unknown outcome (`hold_err`), within the deadline, or another call has claimed the key after
    /// the lease and may fail. The process sends it again for the `ttl`, for an hour at most; [`Confirmed`](Self::Confirmed) or [`Unrecorded`](Self::Unrecorded) follows. If the process is killed
    /// before, nothing follows, and an equal call runs again when no claim has the key: after the lease, with `release = false` after the
    /// `ttl`.
    Unconfirmed => "unconfirmed", Note, WARN, "the outcome of a call is not recorded yet; it is sent again in the background";
    /// Follows [`Unconfirmed`](Self::Unconfirmed).
    Confirmed => "confirmed", Note, INFO, "the outcome of a call that was not recorded in time is recorded now";
    /// An equal call may run again too early, or be refused for too long.
    Unrecorded => "unrecorded", Note, ERROR, "the end of a call is not recorded";
    /// The call ended with an error that `hold_err` names.
    OutcomeUnknown => "outcome_unknown", Note, WARN, "it is not known whether the call did its work; its key stays taken for the ttl";
    /// The result is too large or cannot be serialized, or the store is full.
    NotKept => "not_kept", Note, WARN, "the result was not stored, so no duplicate gets it";
    /// A claim without an answer could not be withdrawn: it may hold the key until its lease expires.
    NotWithdrawn => "not_withdrawn", Note, WARN, "an unanswered claim could not be withdrawn; it may hold the key until it expires";
    /// The claim had expired or was removed before the call removed it.
    AlreadyGone => "already_gone", Note, DEBUG, "the claim was already removed, or had expired";

    TokenIssued => "token_issued", Operation, DEBUG, "a one-time token was issued";
    TokenRedeemed => "token_redeemed", Operation, DEBUG, "a one-time token was redeemed";
    /// The token may be redeemed again.
    TokenGivenBack => "token_given_back", Operation, DEBUG, "a one-time token was given back";
    /// The token or number was used before, has expired, was issued to another subject, or is malformed.
    TokenRejected => "token_rejected", Operation, INFO, "a one-time token or an order number was rejected";
    NumberIssued => "number_issued", Operation, DEBUG, "an order number was issued";
    Counted => "counted", Operation, DEBUG, "an attempt was counted, within the limit";
    /// The counter allows no more attempts in its window.
    LimitReached => "limit_reached", Operation, INFO, "there were too many attempts";
    /// A new member was added to a seen-set or a Bloom filter.
    FirstSeen => "first_seen", Operation, DEBUG, "the member was seen for the first time";
    /// The member was already in the seen-set, or in the database that decides for a Bloom filter.
    SeenBefore => "seen_before", Operation, DEBUG, "the member was seen before";
    /// A Bloom filter may have seen the member.
    PerhapsSeen => "perhaps_seen", Operation, DEBUG, "the member was perhaps seen before";
    TakenBack => "taken_back", Operation, DEBUG, "a member was removed from its set again";
    /// The token or member has expired or was removed.
    NotThere => "not_there", Operation, DEBUG, "the token or the member was already removed, or had expired";
    /// The store is unavailable, is not set up for the operation, or has a foreign record.
    OperationFailed => "operation_failed", Operation, WARN, "the store cannot serve the operation";
    /// A subject or member cannot be serialized, or a name or duration is not valid.
    OperationInvalid => "operation_invalid", Operation, WARN, "the operation is not set up correctly";
    /// The operation was dropped before it ended.
    OperationCancelled => "operation_cancelled", Operation, DEBUG, "the caller dropped the operation";
}

impl EventKind {
    /// The label in the metrics and the field `outcome` in tracing, such as `in_progress`.
    pub const fn as_str(self) -> &'static str {
        self.facts().word
    }

    /// Whether this kind ends a call. Each call has exactly one such event.
    pub const fn is_end(self) -> bool {
        matches!(self.class(), Class::End)
    }

    /// Whether this kind ends a call that found its key taken by an equal call: it was replayed or refused. A call with another
    /// payload (`mismatch`) is not equal. `in_progress` also ends a call that lacks a permit, or that only shares a key of `also`.
    pub const fn is_duplicate(self) -> bool {
        matches!(
            self,
            Self::Replayed | Self::InProgress | Self::Done | Self::Taken | Self::ResultUnavailable
        )
    }

    /// Whether this kind is the outcome of an operation on a token, a counter, a seen-set, a Bloom filter or order numbers.
    /// Such a kind never ends a call.
    pub const fn is_operation(self) -> bool {
        matches!(self.class(), Class::Operation)
    }

    /// The kind for a call that was dropped: by its caller, or by a panic.
    pub(crate) fn of_a_dropped_call() -> Self {
        if std::thread::panicking() {
            Self::Panicked
        } else {
            Self::Cancelled
        }
    }

    pub(super) const fn class(self) -> Class {
        self.facts().class
    }

    /// The level in the log.
    pub(super) const fn level(self) -> Level {
        self.facts().level
    }

    /// What happened, as text.
    pub(super) const fn sentence(self) -> &'static str {
        self.facts().sentence
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The subject of an event.
#[derive(Clone, Copy)]
pub(super) enum Class {
    /// The end of a call.
    End,
    /// A call that the event does not end.
    Note,
    /// A whole operation.
    Operation,
}

/// A row of the table.
struct KindRow {
    word: &'static str,
    class: Class,
    level: Level,
    sentence: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = include_str!("../../../docs/guide/observability.md");

    #[test]
    fn every_kind_has_its_own_label() {
        let known = "executed failed bypassed disabled replayed in_progress done taken mismatch result_unavailable \
                     token_refused store_error invalid lease_lost cancelled panicked waited stuck took_over overrun \
                     renewal_failed unguarded unconfirmed confirmed unrecorded outcome_unknown not_kept not_withdrawn already_gone \
                     token_issued token_redeemed token_given_back token_rejected number_issued counted limit_reached \
                     first_seen seen_before perhaps_seen taken_back not_there operation_failed operation_invalid \
                     operation_cancelled";
        assert_eq!(labels(|_| true).join(" "), known);
    }

    #[test]
    fn no_kind_changes_its_level_unnoticed() {
        let of = |level| labels(|kind| kind.level() == level).join(" ");
        assert_eq!(of(Level::ERROR), "overrun unguarded unrecorded");
        assert_eq!(
            of(Level::WARN),
            "disabled store_error invalid lease_lost panicked renewal_failed unconfirmed outcome_unknown not_kept \
             not_withdrawn operation_failed operation_invalid"
        );
        assert_eq!(
            of(Level::INFO),
            "mismatch result_unavailable token_refused stuck took_over confirmed token_rejected limit_reached"
        );
    }

    #[test]
    fn the_ends_of_calls_are_the_first_and_the_operations_the_last() {
        let class = |kind: &EventKind| kind.class() as u8;
        assert!(EventKind::ALL.is_sorted_by_key(class));
        let ends = EventKind::ALL.iter().rfind(|kind| kind.is_end());
        assert_eq!(ends, Some(&EventKind::Panicked));
        let operations = EventKind::ALL.iter().find(|kind| kind.is_operation());
        assert_eq!(operations, Some(&EventKind::TokenIssued));
    }

    #[test]
    fn the_docs_name_every_kind() {
        let (_, section) = PAGE.split_once("# Events\n").unwrap();
        let (section, _) = section.split_once("\n## Where events go\n").unwrap();
        let (_, ends) = section.split_once("exactly one way:").unwrap();
        assert_eq!(named(ends, "A call may also"), labels(EventKind::is_end));
        let (_, operations) = section.split_once("ends in exactly one of").unwrap();
        assert_eq!(named(operations, "."), labels(EventKind::is_operation));
        for kind in EventKind::ALL {
            assert!(section.contains(&format!("`{kind}`")), "{kind}");
        }
    }

    #[test]
    fn the_docs_name_the_level_of_each_alarm() {
        let rows = PAGE.lines().filter_map(|line| {
            let (words, rest) = line.strip_prefix("| `")?.split_once(" | ")?;
            let (level, _) = rest.split_once(" | ")?;
            level.parse::<Level>().ok().map(|level| (words, level))
        });
        let rows: Vec<_> = rows.collect();
        let alarms = |kind: &&EventKind| kind.level() <= Level::WARN;
        let notes = |kind: &&EventKind| matches!(kind.class(), Class::Note);
        for kind in EventKind::ALL.iter().filter(notes).filter(alarms) {
            let row = rows
                .iter()
                .find(|(words, _)| words.split('`').any(|word| word == kind.as_str()));
            assert_eq!(row.unwrap().1, kind.level(), "{kind}");
        }
    }

    fn labels(of: impl Fn(EventKind) -> bool) -> Vec<&'static str> {
        let kinds = EventKind::ALL.iter().copied();
        kinds
            .filter(|kind| of(*kind))
            .map(EventKind::as_str)
            .collect()
    }

    /// What has backticks around it, up to the `end`.
    fn named<'a>(text: &'a str, end: &str) -> Vec<&'a str> {
        let (list, _) = text.split_once(end).unwrap();
        list.split('`').skip(1).step_by(2).collect()
    }
}
