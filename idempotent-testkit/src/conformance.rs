//! The suite that every store must pass.
//!
//! Write this in a test file of the crate that implements the store. The crate needs `tokio` with the
//! features `macros` and `rt-multi-thread`.
//!
//! ```
//! # type MyStore = idempotence::MemoryStore;
//! idempotence::testkit::conformance!(async { MyStore::new() });
//! ```
//!
//! [`conformance!`](crate::conformance!) makes one test per case, named after the behaviour. A failed test says what
//! the store did, what it must do, and which rule it broke. Each case makes its own store and uses its own keys, so all stores
//! may be on one server. The tests use real time: their records live for fractions of a second, and the suite waits until they
//! expire.

mod answers;
mod bytes;
mod counts;
mod expiry;
mod fences;
mod filters;
mod first_free;
mod hints;
mod lifetime;
mod listings;
mod local;
mod races;
mod sets;
mod several;
mod subject;
mod tokens;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join;
use idempotent_runtime::store::Store;
use tokio::task::JoinSet;
use tokio::time::timeout;

use self::local::ThroughLocal;
use self::subject::{Subject, Verdict};

/// Makes a test of every case of the [suite](mod@crate::conformance). The argument is a future that makes the store.
/// Each test awaits it once.
///
/// The calling crate needs `tokio` with the features `macros` and `rt-multi-thread`.
///
/// ```
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

/// The table of all cases with their rules. Makes the tests or [`CASES`].
#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_cases {
    (@each [$($with:tt)*]) => {
        $crate::__conformance_cases! { $($with)*
            answers:
                a_free_key_is_claimed "`claim` of a free key stores the value and answers `Claimed`"
                a_taken_key_answers_with_its_value "`claim` of a taken key answers `Taken` with the stored value"
                a_repeated_claim_is_claimed_again "`claim` with the value that is already stored answers `Claimed` and keeps the time to live: the first reply may have been lost"
                the_expected_value_is_replaced "`replace` stores the new value if the expected value is stored"
                a_free_key_is_not_replaced "`replace` of a free key changes nothing and answers `Absent`"
                another_value_is_not_replaced "`replace` changes nothing and answers `Other` with the stored value if that is not the expected value"
                a_repeated_replace_is_done_again "`replace` by the value that is already stored changes nothing and answers `Done`: the first reply may have been lost"
                the_expected_value_is_removed "`remove` removes the record if the expected value is stored"
                a_free_key_is_not_removed "`remove` of a free key answers `Absent`"
                another_value_is_not_removed "`remove` changes nothing and answers `Other` with the stored value if that is not the expected value"
                a_removed_key_is_free "a removed key can be claimed"
                a_free_key_has_no_value "`get` of a free key answers `None`"
                values_are_compared_byte_for_byte "values are compared byte for byte";
            bytes:
                values_may_be_any_bytes "a value may contain any bytes"
                a_value_may_be_empty "a value may be empty"
                a_value_may_be_a_mebibyte "a value may be a mebibyte long, or 256 KiB if the store refuses longer values as `Full` and changes nothing"
                keys_may_be_any_text "a key may be any UTF-8 text without NUL"
                keys_may_be_long "a key may be 512 bytes long"
                keys_that_look_alike_are_different "keys are compared byte for byte";
            expiry:
                a_record_lives_as_long_as_its_ttl "a record is stored for its whole time to live"
                an_expired_record_is_absent "no operation returns, compares or changes an expired record"
                an_expired_key_is_claimed "`claim` of an expired key answers `Claimed`"
                the_owner_of_an_expired_record_can_claim_again "`claim` with the value of an expired record stores it with the new time to live"
                a_refused_operation_does_not_change_the_ttl "an operation that answers `Taken` or `Other` does not change the time to live"
                a_renewal_sets_the_ttl "`replace` of a value by the same value sets the new time to live"
                a_renewed_record_outlives_its_first_ttl "`replace` of a value by the same value sets the new time to live"
                a_shortened_record_expires_earlier "`replace` may shorten the time to live"
                a_replacement_sets_the_ttl "`replace` sets the new time to live"
                a_replacement_outlives_the_first_ttl "`replace` sets the new time to live"
                a_ttl_may_be_a_millisecond "a time to live may be a millisecond; a store that counts in coarser units rounds up"
                a_ttl_may_be_a_century "a time to live may be a century; a store may shorten it, but it must not overflow";
            hints:
                replace_and_notify_answers_like_replace "`replace_and_notify` changes and answers the same as `replace`"
                remove_and_notify_answers_like_remove "`remove_and_notify` changes and answers the same as `remove`"
                a_refused_notifying_change_changes_nothing "`replace_and_notify` and `remove_and_notify` change nothing if another value is stored, or none"
                a_notifying_change_wakes_subscribers "every receiver of `subscribe` is notified of a later `replace_and_notify` or `remove_and_notify`; it is closed instead only if no more notifications can come, which is rare";
            races:
                one_of_many_claims_wins "of concurrent claims of a free key exactly one answers `Claimed`"
                one_of_many_claims_of_an_expired_key_wins "of concurrent claims of an expired key exactly one answers `Claimed`"
                one_of_many_replacements_wins "of concurrent replacements of one value exactly one answers `Done`"
                one_of_many_removals_wins "of concurrent removals of one value exactly one answers `Done`"
                a_replacement_and_a_removal_cannot_both_win "of a concurrent replacement and removal of one value exactly one answers `Done`"
                a_key_removed_during_claims_is_claimed_once "of concurrent claims of a key that is being removed at most one answers `Claimed`";
            several:
                all_free_keys_are_claimed "`claim_all` of free keys stores each value for the time to live and answers `Claimed`, or stores nothing and answers `NotTogether`"
                a_taken_key_is_named_and_no_other_is_claimed "`claim_all` with a taken key stores nothing and answers `Taken` with its place and the stored value"
                a_repeated_claim_of_all_is_claimed_again "`claim_all` with the values that are already stored answers `Claimed` and keeps the time to live: the first reply may have been lost"
                an_expired_key_among_others_is_claimed "`claim_all` replaces an expired record, or stores nothing and answers `NotTogether`"
                one_of_many_claims_of_all_wins "of concurrent `claim_all` of the same keys exactly one answers `Claimed`"
                claims_of_overlapping_keys_are_all_or_none "of concurrent claims of overlapping keys each holds all its keys or none";
            first_free:
                the_first_free_key_is_claimed "`claim_any` stores the value of the first free key for the time to live and answers `Claimed` with its place, or stores nothing and answers `NotTogether`"
                taken_keys_are_all_named "`claim_any` of taken keys stores nothing and answers `Taken` with the stored values"
                a_repeated_claim_of_any_gets_the_same_place "`claim_any` answers `Claimed` with the place of a value that is already stored, stores no other, and keeps the time to live: the first reply may have been lost"
                an_expired_key_is_a_free_key "`claim_any` replaces an expired record, or stores nothing and answers `NotTogether`"
                so_many_claims_of_any_win_as_keys_are_free "of concurrent `claim_any` of the same keys as many answer `Claimed` as keys are free, each with another place";
            sets:
                a_member_is_inserted_once "`set_insert` of a stored member answers `Taken` with its owner"
                a_repeated_insert_gets_the_same_answer "`set_insert` of a stored member by its owner answers `Claimed`: the first reply may have been lost"
                the_owner_can_remove_a_member "`set_remove` by the owner removes the member"
                another_owner_cannot_remove_a_member "`set_remove` by another owner changes nothing and answers `Other` with the owner"
                a_missing_member_is_not_removed "`set_remove` of a missing member answers `Absent`"
                members_may_be_any_bytes "a member may contain any bytes, and members of different sets are different"
                a_member_is_remembered_for_the_retention "a member is stored for its whole retention, however old other members of its set are"
                one_of_many_inserts_wins "of concurrent inserts of one member exactly one answers `Claimed`";
            tokens:
                the_expected_value_is_exchanged "`exchange` stores the new value if the expected value is stored"
                a_free_key_is_not_exchanged "`exchange` of a free key changes nothing and answers `Absent`"
                another_value_is_not_exchanged "`exchange` changes nothing and answers `Other` with the stored value if that is not the expected value"
                a_repeated_exchange_is_done_again "`exchange` by the value that is already stored changes nothing and answers `Done`: the first reply may have been lost"
                an_exchange_does_not_change_the_ttl "`exchange` does not change the time to live"
                an_exchanged_record_expires_at_its_first_time "`exchange` does not change the time to live"
                an_exchange_does_not_revive_an_expired_record "`exchange` of an expired record changes nothing and answers `Absent`"
                an_exchange_compares_byte_for_byte "`exchange` compares values byte for byte"
                one_of_many_exchanges_wins "of concurrent exchanges of one value exactly one answers `Done`";
            counts:
                attempts_are_numbered_in_order "`count` numbers the attempts of a window from 1"
                a_repeated_attempt_is_counted_once "`count` of the same attempt answers the same number: the first reply may have been lost"
                an_attempt_is_remembered_until_32_others_were_counted "`count` remembers an attempt while fewer than 32 other attempts were counted after it"
                each_key_has_its_own_count "each key has its own count"
                later_attempts_do_not_move_the_end_of_the_window "only the first attempt of a window sets its end"
                the_first_attempt_after_a_window_starts_a_new_window "the first attempt after the end of a window starts a new window and gets number 1"
                a_window_may_be_a_century "a window may be a century long; a store may shorten it, but it must not overflow"
                each_of_many_attempts_has_its_own_number "concurrent attempts get different numbers without gaps"
                an_attempt_that_races_itself_is_counted_once "`count` of the same attempt answers the same number, also for concurrent requests";
            fences:
                a_fenced_claim_stores_the_value "`claim_fenced` stores the value like `claim`, and its number for at least a day"
                a_fenced_claim_of_a_taken_key_changes_nothing "`claim_fenced` of a taken key changes nothing and answers `Taken` with the stored value"
                a_repeated_fenced_claim_has_the_same_fence "`claim_fenced` with the value that is already stored answers the same fence: the first reply may have been lost"
                a_fence_is_larger_after_a_removal "a fence is larger than every earlier fence of the key, also after the record was removed"
                a_fence_is_larger_after_the_claim_expired "a fence is larger than every earlier fence of the key, also after the record expired"
                a_fence_is_larger_than_a_stored_number "a fence is larger than the stored number, also if the clock was set back"
                a_claim_after_an_open_claim_takes_over "a claim takes over if the claim before it has not ended, and counts the claims since the last success"
                a_foreign_fence_is_not_changed "`claim_fenced` changes nothing if the record of the number is not a fence, and answers `Misconfigured`"
                each_of_many_holders_has_a_larger_number "of concurrent claims of a key each holder has a larger fence than the holder before";
            filters:
                an_inserted_member_is_perhaps_seen "`bloom_insert` of an inserted member answers `PerhapsSeen`"
                members_inserted_at_once_are_all_perhaps_seen "no concurrent `bloom_insert` is lost"
                concurrent_inserts_of_a_member_are_unseen_at_most_once "of concurrent inserts of one member at most one answers `Unseen`"
                a_new_member_is_mostly_unseen "`bloom_insert` of a new member answers `PerhapsSeen` only as often as the error rate of the filter allows"
                filters_do_not_share_members "filters with different keys do not share members"
                a_filter_remembers_a_member_for_its_retention "a filter remembers a member for its retention, and forgets it within twice the retention"
                bloom_stats_estimates_the_number_of_members "`bloom_stats` reports about the number of inserted members and the error rate";
            listings:
                a_record_is_listed_with_its_head_and_its_ttl "`list` returns a record with its key, its first 512 bytes and its time to live"
                only_keys_with_the_prefix_are_listed "`list` returns keys that begin with the prefix, byte for byte, and no others"
                an_expired_record_is_not_listed "`list` returns no expired record"
                the_pages_of_a_listing_end_and_miss_no_record "the pages of `list` end, and have every record that is stored from the first page to the last";
        }
    };
    (@tests [$make:expr] $($module:ident: $($case:ident $rule:literal)*;)*) => {
        // One `async fn` for all cases, because the compiler needs far longer for an `async fn` than for a call.
        #[cfg(test)]
        #[::tokio::main(flavor = "multi_thread", worker_threads = 2)]
        async fn __check_case(case: &str) {
            $crate::conformance::check(case, $make).await;
        }

        $($(
            #[test]
            fn $case() {
                __check_case(stringify!($case));
            }
        )*)*
    };
    (@table $($module:ident: $($case:ident $rule:literal)*;)*) => {
        &[$($(Case {
            name: stringify!($case),
            rule: $rule,
            run: |subject| Box::pin($module::$case(subject)),
        }),*),*]
    };
}

/// One case of the suite.
struct Case {
    name: &'static str,
    /// What the case checks, as a sentence about a correct store.
    rule: &'static str,
    run: fn(Subject) -> Pin<Box<dyn Future<Output = Verdict> + Send>>,
}

const CASES: &[Case] = crate::__conformance_cases! { @each [@table] };

/// A case in which the store broke a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// The name of the case.
    pub case: &'static str,
    /// The rule that the store broke.
    pub rule: &'static str,
    /// What the store did, and what it must do.
    pub message: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            case,
            rule,
            message,
        } = self;
        write!(
            f,
            "the store fails the case `{case}`: {message} (the rule: {rule})"
        )
    }
}

/// The names of all cases.
pub fn cases() -> impl Iterator<Item = &'static str> {
    CASES.iter().map(|case| case.name)
}

/// Runs all cases at the same time, each on a store that `make` returns. Returns the failures.
///
/// Needs a runtime with several threads: on one thread there are almost no races.
pub async fn failures<S, F>(make: impl Fn() -> F) -> Vec<Failure>
where
    S: Store,
    F: Future<Output = S>,
{
    let mut running = JoinSet::new();
    for (index, case) in CASES.iter().enumerate() {
        let store = Arc::new(make().await);
        running.spawn(async move { (index, run(case, store).await) });
    }
    let mut results = running.join_all().await;
    results.sort_by_key(|(index, _)| *index);
    results
        .into_iter()
        .filter_map(|(_, result)| result.err())
        .collect()
}

/// Runs one case. [`conformance!`](crate::conformance!) calls this in each test.
///
/// # Panics
///
/// If the store breaks the rule of the case, or if there is no such case.
pub async fn check<S: Store>(case: &str, store: impl Future<Output = S>) {
    let Some(case) = CASES.iter().find(|known| known.name == case) else {
        panic!("the conformance suite has no case `{case}`");
    };
    if let Err(failure) = run(case, Arc::new(store.await)).await {
        panic!("{failure}");
    }
}

/// The time limit of a case: a store that never answers fails the case, and does not block the test.
const LIMIT: Duration = Duration::from_mins(5);

async fn run(case: &'static Case, store: Arc<dyn Store>) -> Result<(), Failure> {
    let through_local = store.local().is_some().then(|| {
        let store = Arc::new(ThroughLocal(Arc::clone(&store)));
        (case.run)(Subject::new(store))
    });
    let through_local = async {
        match through_local {
            Some(running) => running
                .await
                .map_err(|why| format!("through `local`, {why}")),
            None => Ok(()),
        }
    };
    let both = try_join((case.run)(Subject::new(store)), through_local);
    let result = timeout(LIMIT, both).await;
    let verdict = result.unwrap_or_else(|_| {
        Err(format!(
            "the case did not end within {LIMIT:?}; every operation must answer"
        ))
    });
    verdict.map(drop).map_err(|message| Failure {
        case: case.name,
        rule: case.rule,
        message,
    })
}
