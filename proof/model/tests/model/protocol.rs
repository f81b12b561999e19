//! All rules hold in every state of every space, of all models.

use idempotence_model::{Search, Steps, fences, recovery, several, spaces, tokens};

/// `floor`: a space with fewer states does not test what it should.
fn holds<C: Steps>(spaces: Vec<Search<C>>, floor: usize) {
    for space in spaces {
        let outcome = space.check(1);
        println!("{outcome}");
        assert!(outcome.holds(), "{outcome}");
        assert!(outcome.states >= floor, "{outcome}");
    }
}

const FLOOR: usize = 8_000;

#[test]
fn it_holds_when_messages_are_late_lost_or_doubled() {
    holds(spaces::network(), FLOOR);
}

#[test]
fn it_holds_when_processes_die_and_futures_are_dropped() {
    holds(spaces::ends(), FLOOR);
}

#[test]
fn it_holds_when_bodies_do_not_know_their_outcome() {
    holds(spaces::holds(), FLOOR);
}

#[test]
fn it_holds_with_every_release() {
    holds(spaces::releases(), FLOOR);
}

#[test]
fn it_holds_when_the_store_forgets_or_refuses() {
    holds(spaces::stores(), FLOOR);
}

#[test]
fn it_holds_among_duplicates_that_follow_or_wait() {
    holds(spaces::duplicates(), FLOOR);
}

#[test]
fn a_token_is_redeemed_once_and_never_lost_without_a_body() {
    holds(tokens::spaces::all(), 500);
}

#[test]
fn each_holder_has_a_larger_number_than_all_before() {
    holds(fences::spaces::all(), FLOOR);
}

#[test]
fn calls_with_several_keys_hold_all_or_none_and_never_block_each_other() {
    holds(several::spaces::all(), 20);
}

#[test]
fn no_recorded_step_runs_again_and_no_other_is_skipped() {
    holds(recovery::spaces::all(), 500);
}
