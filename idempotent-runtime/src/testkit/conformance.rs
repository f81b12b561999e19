//! The suite that every store has to pass.
//!
//! In a test file of the crate that implements a store, with `tokio` (features `macros` and
//! `rt-multi-thread`) among its dependencies:
//!
//! ```
//! # use idempotent_runtime as idempotence;
//! # type MyStore = idempotence::MemoryStore;
//! idempotence::testkit::conformance!(async { MyStore::new() });
//! ```
//!
//! [`conformance!`](crate::testkit::conformance!) makes one test per case, named after the
//! behaviour. Each case asks for a store of its own and uses keys of its own, so all of them may be
//! stores on one server. Time is real: records of the tests live for fractions of a second, and the
//! suite waits for them to expire.

mod answers;
mod bytes;
mod counts;
mod expiry;
mod filters;
mod hints;
mod races;
mod sets;
mod subject;
mod tokens;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;

use self::subject::{Subject, Verdict};
use crate::store::Store;

/// Makes a test of every case of the [suite](mod@crate::testkit::conformance); the argument is a
/// future that makes the store, and is awaited once in each test.
///
/// The crate that writes it needs `tokio` with the features `macros` and `rt-multi-thread`.
///
/// ```
/// # use idempotent_runtime as idempotence;
/// # type MyStore = idempotence::MemoryStore;
/// #[cfg(test)]
/// mod my_store {
///     # use super::*;
///     idempotence::testkit::conformance!(async { MyStore::new() });
/// }
/// ```
#[macro_export]
macro_rules! conformance {
    ($make:expr $(,)?) => {
        $crate::__conformance_cases! { @each [@tests [$make]] }
    };
}

/// The table of the cases, and what is made of it.
#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_cases {
    (@each [$($with:tt)*]) => {
        $crate::__conformance_cases! { $($with)*
            answers:
                a_free_key_is_claimed
                a_taken_key_answers_with_what_stands_there
                a_claim_sent_twice_is_claimed_twice
                the_expected_value_is_replaced
                nothing_is_not_replaced
                another_value_is_not_replaced
                a_replace_sent_twice_is_done_twice
                the_expected_value_is_removed
                nothing_is_not_removed
                another_value_is_not_removed
                a_removed_key_is_free
                a_free_key_holds_nothing
                values_are_compared_byte_for_byte;
            bytes:
                values_may_be_any_bytes
                a_value_may_be_empty
                a_value_may_be_a_mebibyte
                keys_may_be_any_text
                keys_may_be_long
                keys_that_look_alike_are_different;
            expiry:
                a_record_lives_as_long_as_its_ttl
                an_expired_record_is_absent
                an_expired_key_is_claimed
                an_own_record_that_expired_is_claimed_anew
                a_refused_operation_leaves_the_ttl
                a_renewal_sets_the_ttl
                a_renewed_record_outlives_its_first_ttl
                a_shortened_record_is_gone
                a_replacement_sets_the_ttl
                a_replacement_outlives_the_first_ttl
                a_ttl_may_be_a_millisecond
                a_ttl_may_be_a_century;
            hints:
                a_replacement_that_tells_answers_as_one_that_does_not
                a_removal_that_tells_answers_as_one_that_does_not
                a_refused_change_that_would_tell_changes_nothing
                a_change_that_tells_is_heard;
            races:
                one_of_many_claims_wins
                one_of_many_claims_of_an_expired_key_wins
                one_of_many_replacements_wins
                one_of_many_removals_wins
                a_replacement_or_a_removal_wins
                a_key_removed_under_claims_is_claimed_once;
            sets:
                a_member_is_added_once
                an_add_sent_twice_is_answered_alike
                a_member_is_taken_out_by_its_owner
                a_member_is_not_taken_out_by_another
                no_member_is_not_taken_out
                members_may_be_any_bytes
                a_member_is_remembered_for_the_retention
                one_of_many_adds_wins;
            tokens:
                the_expected_value_is_exchanged
                nothing_is_not_exchanged
                another_value_is_not_exchanged
                an_exchange_sent_twice_is_done_twice
                an_exchange_leaves_the_ttl
                an_exchanged_record_goes_when_the_first_would_have
                an_exchange_revives_nothing
                an_exchange_compares_byte_for_byte
                one_of_many_exchanges_wins;
            counts:
                attempts_are_numbered_in_their_order
                an_attempt_sent_twice_is_counted_once
                an_attempt_is_known_while_fewer_than_32_others_were_counted
                attempts_of_different_keys_are_counted_apart
                no_attempt_moves_the_end_of_the_window
                a_window_that_has_ended_begins_anew
                a_window_may_be_a_century
                each_of_many_attempts_has_its_own_number
                an_attempt_that_races_itself_is_counted_once;
            filters:
                a_marked_member_is_perhaps_seen
                members_that_are_marked_at_once_are_all_perhaps_seen
                a_member_that_many_mark_is_unseen_once_at_most
                an_unmarked_member_is_mostly_unseen
                filters_have_members_of_their_own
                a_mark_is_kept_for_the_retention_and_not_for_ever
                a_fill_is_about_what_was_marked;
        }
    };
    (@tests [$make:expr] $($module:ident: $($case:ident)*;)*) => {
        $($(
            #[::tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                $crate::testkit::conformance::check(stringify!($case), $make).await;
            }
        )*)*
    };
    (@table $($module:ident: $($case:ident)*;)*) => {
        &[$($((stringify!($case), |subject| Box::pin($module::$case(subject)))),*),*]
    };
}

type Case = fn(Subject) -> Pin<Box<dyn Future<Output = Verdict> + Send>>;

const CASES: &[(&str, Case)] = crate::__conformance_cases! { @each [@table] };

/// A case that the store does not pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The name of the case, which is the behaviour that is missing.
    pub case: &'static str,
    /// What was seen instead.
    pub message: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.case, self.message)
    }
}

/// The names of the cases.
pub fn cases() -> impl Iterator<Item = &'static str> {
    CASES.iter().map(|(name, _)| *name)
}

/// Runs all cases at once, each on a store that `make` makes, and returns those that fail.
///
/// Needs a runtime with several threads: on one thread hardly any race is seen.
pub async fn failures<S, F>(make: impl Fn() -> F) -> Vec<Failure>
where
    S: Store,
    F: Future<Output = S>,
{
    let mut running = JoinSet::new();
    for (index, (_, case)) in CASES.iter().enumerate() {
        let store = Arc::new(make().await);
        running.spawn(async move { (index, run(*case, store).await) });
    }
    let mut verdicts = running.join_all().await;
    verdicts.sort_by_key(|(index, _)| *index);
    verdicts
        .into_iter()
        .filter_map(|(index, verdict)| {
            let case = CASES[index].0;
            verdict.err().map(|message| Failure { case, message })
        })
        .collect()
}

/// Runs one case; what [`conformance!`](crate::testkit::conformance!) writes into each test.
///
/// # Panics
///
/// If the store does not pass, or there is no such case.
pub async fn check<S: Store>(case: &str, store: impl Future<Output = S>) {
    let found = CASES.iter().find(|(name, _)| *name == case);
    let Some((_, run_case)) = found else {
        panic!("there is no case named {case}");
    };
    if let Err(message) = run(*run_case, Arc::new(store.await)).await {
        panic!("{message}");
    }
}

/// A store that never answers fails the case, it does not hang the test.
const LIMIT: Duration = Duration::from_mins(1);

async fn run(case: Case, store: Arc<dyn Store>) -> Verdict {
    match timeout(LIMIT, case(Subject::new(store))).await {
        Ok(verdict) => verdict,
        Err(_) => Err(format!("no end within {LIMIT:?}")),
    }
}
