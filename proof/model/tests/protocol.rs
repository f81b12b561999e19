//! All rules hold in every state of every space.

#![expect(
    clippy::print_stdout,
    reason = "for those who run it with `--nocapture`"
)]

use idempotence_model::{Space, check, spaces};

fn holds(spaces: Vec<Space>) {
    for space in spaces {
        let outcome = check(space.config, &space.rules, &space.events, 1);
        println!("{outcome}");
        assert!(outcome.broken.is_none(), "{outcome:#?}");
        assert!(outcome.missing.is_empty(), "{outcome:#?}");
        assert!(outcome.states >= FLOOR, "{outcome:#?}");
    }
}

/// A space with fewer states does not test what it should.
const FLOOR: usize = 8_000;

#[test]
fn it_holds_when_messages_are_late_lost_or_doubled() {
    holds(spaces::network());
}

#[test]
fn it_holds_when_processes_die_and_futures_are_dropped() {
    holds(spaces::ends());
}

#[test]
fn it_holds_when_bodies_do_not_know_their_outcome() {
    holds(spaces::holds());
}

#[test]
fn it_holds_with_every_release() {
    holds(spaces::releases());
}

#[test]
fn it_holds_when_the_store_forgets_or_refuses() {
    holds(spaces::stores());
}

#[test]
fn it_holds_among_duplicates_that_follow_or_wait() {
    holds(spaces::duplicates());
}
