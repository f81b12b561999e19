//! The conformance suite finds every mistake and passes correct stores.

use std::collections::BTreeSet;
use std::sync::Arc;

use idempotence::testkit::conformance::{cases, check, failures};
use idempotence::testkit::{Fault, FaultyStore};
use idempotent_runtime::{MemoryStore, Store, StoreErrorKind};

use crate::testkit::broken::{BrokenStore, Mistake};
use crate::testkit::broken_fences::{BrokenFences, FenceMistake};
use crate::testkit::broken_first_free::{BrokenFirstFree, FirstFreeMistake};
use crate::testkit::broken_hints::{BrokenHints, HintMistake};
use crate::testkit::broken_listings::{BrokenListings, ListMistake};
use crate::testkit::broken_several::{BrokenSeveral, SeveralMistake};
use crate::testkit::late::LateStore;

/// The cases that this store fails.
async fn failed<S: Store>(store: impl Fn() -> S) -> BTreeSet<&'static str> {
    let failures = failures(async || store()).await;
    failures.into_iter().map(|failure| failure.case).collect()
}

macro_rules! mistakes {
    ($store:ident $mistakes:ident $($test:ident: $mistake:ident fails $($case:ident)*;)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $test() {
                let failed = failed(|| $store::new($mistakes::$mistake)).await;
                let expected = BTreeSet::from([$(stringify!($case)),*]);
                assert!(failed.is_superset(&expected), "the suite must report {expected:?}, but reported {failed:?}");
                // One broken rule must not fail nearly all cases.
                assert!(failed.len() < cases().count() / 2, "too many cases failed: {failed:?}");
            }
        )*
    };
}

mistakes! {
    BrokenStore Mistake
    a_look_then_put_is_found: LookThenPut fails one_of_many_claims_wins;
    an_unconditional_remove_is_found: UnconditionalRemove fails another_value_is_not_removed;
    a_claim_refused_for_its_own_record_is_found: OwnValueIsTaken fails a_repeated_claim_is_claimed_again;
    an_expired_record_that_blocks_claims_is_found: ClaimIgnoresExpiry fails an_expired_key_is_claimed;
    a_replace_without_comparison_is_found: ReplaceIgnoresExpected fails
        another_value_is_not_replaced one_of_many_replacements_wins
        a_refused_notifying_change_changes_nothing;
    a_kept_ttl_is_found: ReplaceKeepsTheTtl fails
        a_renewal_sets_the_ttl a_renewed_record_outlives_its_first_ttl
        a_replacement_sets_the_ttl a_replacement_outlives_the_first_ttl a_shortened_record_expires_earlier;
    a_removal_of_nothing_is_found: RemoveOfNothingIsDone fails
        a_free_key_is_not_removed one_of_many_removals_wins
        remove_and_notify_answers_like_remove;
    a_repeated_replace_that_is_refused_is_found: RepeatedReplaceIsOther fails
        a_repeated_replace_is_done_again replace_and_notify_answers_like_replace;
    a_renewing_claim_is_found: RepeatedClaimRenews fails a_repeated_claim_is_claimed_again;
    a_ttl_rounded_down_is_found: TtlInWholeSecondsRoundedDown fails
        a_record_lives_as_long_as_its_ttl;
    values_as_text_are_found: ValuesAreText fails values_may_be_any_bytes;
    keys_without_case_are_found: KeysWithoutCase fails keys_that_look_alike_are_different;
    a_look_then_insert_is_found: LookThenInsert fails one_of_many_inserts_wins;
    an_insert_refused_for_its_own_member_is_found: OwnMemberIsTaken fails a_repeated_insert_gets_the_same_answer;
    a_member_that_any_owner_removes_is_found: AnyOwnerRemoves fails
        another_owner_cannot_remove_a_member;
    members_as_text_are_found: MembersAreText fails members_may_be_any_bytes;
    a_set_that_expires_at_once_is_found: SetExpiresAtOnce fails
        a_member_is_remembered_for_the_retention;
    an_exchange_that_looks_then_puts_is_found: ExchangeLooksThenPuts fails one_of_many_exchanges_wins;
    an_exchange_without_comparison_is_found: ExchangeIgnoresExpected fails
        another_value_is_not_exchanged an_exchange_compares_byte_for_byte one_of_many_exchanges_wins;
    an_exchange_that_renews_is_found: ExchangeRenews fails
        an_exchange_does_not_change_the_ttl an_exchanged_record_expires_at_its_first_time;
    an_exchange_that_revives_is_found: ExchangeRevives fails
        a_free_key_is_not_exchanged an_exchange_does_not_revive_an_expired_record;
    a_repeated_exchange_that_is_refused_is_found: RepeatedExchangeIsOther fails
        a_repeated_exchange_is_done_again;
    a_count_that_extends_the_window_is_found: CountExtendsTheWindow fails
        later_attempts_do_not_move_the_end_of_the_window;
    a_count_that_reads_then_writes_is_found: CountReadsThenWrites fails
        each_of_many_attempts_has_its_own_number;
    a_repeated_attempt_that_is_counted_twice_is_found: CountsARepeatTwice fails
        a_repeated_attempt_is_counted_once an_attempt_that_races_itself_is_counted_once
        an_attempt_is_remembered_until_32_others_were_counted;
    a_filter_that_forgets_is_found: FilterForgets fails
        an_inserted_member_is_perhaps_seen members_inserted_at_once_are_all_perhaps_seen;
    a_local_removal_without_comparison_is_found: LocalRemoveIgnoresExpected fails
        another_value_is_not_removed;
    a_filter_that_looks_then_inserts_is_found: FilterLooksThenInserts fails
        concurrent_inserts_of_a_member_are_unseen_at_most_once;
}

mistakes! {
    BrokenFences FenceMistake
    a_fence_from_before_the_claim_is_found: DrawnBeforeTheClaim fails
        each_of_many_holders_has_a_larger_number a_fenced_claim_of_a_taken_key_changes_nothing;
    a_fence_of_the_clock_alone_is_found: OnlyTheClock fails a_fence_is_larger_than_a_stored_number;
    a_fence_that_is_lost_with_its_record_is_found: LostWithTheRecord fails
        a_fence_is_larger_after_a_removal;
    a_new_fence_for_a_repeated_claim_is_found: NewForARepeat fails
        a_repeated_fenced_claim_has_the_same_fence;
    a_fence_that_hides_a_dead_claim_is_found: HidesADeadClaim fails
        a_claim_after_an_open_claim_takes_over a_fence_is_larger_after_the_claim_expired;
    a_fence_raised_by_a_refused_claim_is_found: RaisedByARefusedClaim fails
        a_fenced_claim_of_a_taken_key_changes_nothing;
    a_fence_over_foreign_bytes_is_found: OverwritesForeignBytes fails
        a_foreign_fence_is_not_changed;
    a_late_refusal_of_the_own_claim_is_found: RefusesItsOwnShortClaim fails
        a_fence_is_larger_after_the_claim_expired;
    a_fence_that_expires_with_the_claim_is_found: ExpiresWithTheClaim fails
        a_fenced_claim_stores_the_value;
}

mistakes! {
    BrokenHints HintMistake
    a_notifying_change_without_comparison_is_found: NotifyIgnoresExpected fails
        a_refused_notifying_change_changes_nothing;
    a_change_that_never_notifies_is_found: NeverNotifies fails a_notifying_change_wakes_subscribers;
    a_change_that_closes_instead_of_notifying_is_found: ClosesInsteadOfNotifying fails
        a_notifying_change_wakes_subscribers;
}

mistakes! {
    BrokenListings ListMistake
    a_listing_that_loses_keys_is_found: LosesTheEndOfAPage fails
        the_pages_of_a_listing_end_and_miss_no_record;
    a_listing_that_never_ends_is_found: NeverEnds fails the_pages_of_a_listing_end_and_miss_no_record;
    a_listing_without_case_is_found: IgnoresTheCase fails only_keys_with_the_prefix_are_listed;
    a_listing_of_expired_keys_is_found: ListsExpired fails an_expired_record_is_not_listed;
    a_listing_of_whole_records_is_found: ReadsWholeRecords fails
        a_record_is_listed_with_its_head_and_its_ttl;
    a_listing_without_times_is_found: HidesTheTtl fails
        a_record_is_listed_with_its_head_and_its_ttl;
}

mistakes! {
    BrokenSeveral SeveralMistake
    keys_that_stay_claimed_beside_a_taken_key_are_found: OneAfterAnother fails
        a_taken_key_is_named_and_no_other_is_claimed;
    a_claim_of_all_in_several_steps_is_found: OneAfterAnotherWithWithdrawal fails
        one_of_many_claims_of_all_wins;
    a_wrong_place_of_the_taken_key_is_found: NamesTheFirst fails
        a_taken_key_is_named_and_no_other_is_claimed;
    a_claim_of_all_refused_for_its_own_record_is_found: OwnIsTaken fails
        a_repeated_claim_of_all_is_claimed_again;
    a_renewing_claim_of_all_is_found: RenewsOwn fails a_repeated_claim_of_all_is_claimed_again;
    a_claim_that_is_stored_without_saying_so_is_found: NotTogetherButStored fails
        all_free_keys_are_claimed;
}

mistakes! {
    BrokenFirstFree FirstFreeMistake
    a_claim_of_any_in_two_steps_is_found: LooksThenClaims fails
        so_many_claims_of_any_win_as_keys_are_free;
    a_second_key_of_a_repeated_claim_of_any_is_found: ClaimsAnother fails
        a_repeated_claim_of_any_gets_the_same_place;
    taken_keys_that_are_not_named_are_found: NamesTheFirst fails taken_keys_are_all_named;
    a_renewing_claim_of_any_is_found: RenewsOwn fails a_repeated_claim_of_any_gets_the_same_place;
    a_claim_of_any_that_is_stored_without_saying_so_is_found: NotTogetherButStored fails
        the_first_free_key_is_claimed;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_correct_store_passes() {
    let none = BTreeSet::new();
    assert_eq!(failures(|| async { MemoryStore::new() }).await, []);
    assert_eq!(failed(|| BrokenStore::new(Mistake::None)).await, none);
    assert_eq!(failed(|| BrokenFences::new(FenceMistake::None)).await, none);
    assert_eq!(failed(|| BrokenHints::new(HintMistake::None)).await, none);
    for mistake in [SeveralMistake::None, SeveralMistake::NotTogether] {
        let failed = failed(|| BrokenSeveral::new(mistake)).await;
        assert_eq!(failed, none, "{mistake:?}");
    }
    for mistake in [FirstFreeMistake::None, FirstFreeMistake::NotTogether] {
        let failed = failed(|| BrokenFirstFree::new(mistake)).await;
        assert_eq!(failed, none, "{mistake:?}");
    }
    for mistake in [ListMistake::None, ListMistake::CannotList] {
        assert_eq!(
            failed(|| BrokenListings::new(mistake)).await,
            none,
            "{mistake:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_correct_store_passes_after_four_attempts_that_measured_nothing() {
    for case in [
        "a_record_lives_as_long_as_its_ttl",
        "a_member_is_remembered_for_the_retention",
        "an_exchanged_record_expires_at_its_first_time",
        "later_attempts_do_not_move_the_end_of_the_window",
        "the_first_attempt_after_a_window_starts_a_new_window",
        "a_filter_remembers_a_member_for_its_retention",
    ] {
        check(case, async { LateStore::default() }).await;
    }
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
#[should_panic(
    expected = "the store fails the case `a_repeated_claim_is_claimed_again`: `claim` with the stored value returned \
                Taken(b\"first\"), but must return Claimed (the rule: `claim` with the value that is already stored \
                answers `Claimed` and keeps the time to live: the first reply may have been lost)"
)]
async fn a_failed_case_reports_the_answer_and_the_rule() {
    let store = async { BrokenStore::new(Mistake::OwnValueIsTaken) };
    let case = "a_repeated_claim_is_claimed_again";
    check(case, store).await;
}

mod on_the_heap {
    use super::{Arc, MemoryStore, Store};

    idempotence::testkit::conformance!(async { Arc::new(MemoryStore::new()) as Arc<dyn Store> });
}
