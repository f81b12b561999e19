//! The suite finds every mistake, and nothing else.

use std::collections::BTreeSet;
use std::sync::Arc;

use idempotent_runtime::testkit::conformance::{cases, check, failures};
use idempotent_runtime::testkit::{Fault, FaultyStore};
use idempotent_runtime::{MemoryStore, Store, StoreErrorKind};

use crate::broken::{Broken, Mistake};

/// The cases that a store with this mistake does not pass.
async fn failed(mistake: Mistake) -> BTreeSet<&'static str> {
    let failures = failures(|| async move { Broken::new(mistake) }).await;
    failures.into_iter().map(|failure| failure.case).collect()
}

macro_rules! mistakes {
    ($($test:ident: $mistake:ident fails $($case:ident)*;)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $test() {
                let failed = failed(Mistake::$mistake).await;
                let expected = BTreeSet::from([$(stringify!($case)),*]);
                assert!(failed.is_superset(&expected), "not all of {expected:?}: {failed:?}");
                // A mistake has to be found by what it breaks, not by everything failing.
                assert!(failed.len() < cases().count() / 2, "nearly all: {failed:?}");
            }
        )*
    };
}

mistakes! {
    a_look_then_put_is_found: LookThenPut fails one_of_many_claims_wins;
    an_unconditional_remove_is_found: UnconditionalRemove fails another_value_is_not_removed;
    a_conflict_with_oneself_is_found: OwnValueIsTaken fails a_claim_sent_twice_is_claimed_twice;
    a_claim_of_what_expired_is_found: ClaimIgnoresExpiry fails an_expired_key_is_claimed;
    a_blind_replace_is_found: ReplaceIgnoresExpected fails
        another_value_is_not_replaced one_of_many_replacements_wins
        a_refused_change_that_would_tell_changes_nothing;
    a_kept_ttl_is_found: ReplaceKeepsTheTtl fails
        a_renewal_sets_the_ttl a_renewed_record_outlives_its_first_ttl
        a_replacement_sets_the_ttl a_replacement_outlives_the_first_ttl a_shortened_record_is_gone;
    a_removal_of_nothing_is_found: RemoveOfNothingIsDone fails
        nothing_is_not_removed one_of_many_removals_wins
        a_removal_that_tells_answers_as_one_that_does_not;
    a_replace_that_forgets_itself_is_found: RepeatedReplaceIsOther fails
        a_replace_sent_twice_is_done_twice a_replacement_that_tells_answers_as_one_that_does_not;
    a_renewing_claim_is_found: RepeatedClaimRenews fails a_claim_sent_twice_is_claimed_twice;
    a_ttl_rounded_down_is_found: TtlInWholeSecondsRoundedDown fails
        a_record_lives_as_long_as_its_ttl;
    values_as_text_are_found: ValuesAreText fails values_may_be_any_bytes;
    keys_without_case_are_found: KeysWithoutCase fails keys_that_look_alike_are_different;
    a_telling_change_that_is_blind_is_found: TellingIgnoresExpected fails
        a_refused_change_that_would_tell_changes_nothing;
    a_change_that_nobody_hears_is_found: TellsNobody fails a_change_that_tells_is_heard;
    a_look_then_add_is_found: LookThenAdd fails one_of_many_adds_wins;
    an_own_member_that_was_seen_is_found: OwnMemberIsSeen fails an_add_sent_twice_is_answered_alike;
    a_member_that_anybody_takes_out_is_found: AnybodyTakesOut fails
        a_member_is_not_taken_out_by_another;
    members_as_text_are_found: MembersAreText fails members_may_be_any_bytes;
    a_set_that_forgets_all_at_once_is_found: SetForgetsAllAtOnce fails
        a_member_is_remembered_for_the_retention;
    an_exchange_that_looks_then_puts_is_found: ExchangeLooksThenPuts fails one_of_many_exchanges_wins;
    a_blind_exchange_is_found: ExchangeIgnoresExpected fails
        another_value_is_not_exchanged an_exchange_compares_byte_for_byte one_of_many_exchanges_wins;
    an_exchange_that_renews_is_found: ExchangeRenews fails
        an_exchange_leaves_the_ttl an_exchanged_record_goes_when_the_first_would_have;
    an_exchange_that_revives_is_found: ExchangeRevives fails
        nothing_is_not_exchanged an_exchange_revives_nothing;
    an_exchange_that_forgets_itself_is_found: RepeatedExchangeIsOther fails
        an_exchange_sent_twice_is_done_twice;
    a_count_that_extends_the_window_is_found: CountExtendsTheWindow fails
        no_attempt_moves_the_end_of_the_window;
    a_count_that_reads_then_writes_is_found: CountReadsThenWrites fails
        each_of_many_attempts_has_its_own_number;
    a_resend_that_is_counted_twice_is_found: CountsAResendTwice fails
        an_attempt_sent_twice_is_counted_once an_attempt_that_races_itself_is_counted_once
        an_attempt_is_known_while_fewer_than_32_others_were_counted;
    a_filter_that_forgets_is_found: FilterForgets fails
        a_marked_member_is_perhaps_seen members_that_are_marked_at_once_are_all_perhaps_seen;
    a_filter_that_looks_then_marks_is_found: FilterLooksThenMarks fails
        a_member_that_many_mark_is_unseen_once_at_most;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_right_store_passes() {
    assert_eq!(failures(|| async { MemoryStore::new() }).await, []);
    assert_eq!(failed(Mistake::None).await, BTreeSet::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_store_that_answers_with_errors_fails_every_case() {
    let failed = failures(|| async {
        let store = FaultyStore::new(MemoryStore::new());
        store.always_all(Fault::Fail(StoreErrorKind::Unknown));
        store
    });
    assert_eq!(failed.await.len(), cases().count());
}

#[tokio::test]
#[should_panic(expected = "claim with the value that stands there: Taken")]
async fn a_failed_case_says_what_was_answered() {
    let store = async { Broken::new(Mistake::OwnValueIsTaken) };
    let case = "a_claim_sent_twice_is_claimed_twice";
    check(case, store).await;
}

mod on_the_heap {
    use super::{Arc, MemoryStore, Store};

    idempotent_runtime::testkit::conformance!(async {
        Arc::new(MemoryStore::new()) as Arc<dyn Store>
    });
}
