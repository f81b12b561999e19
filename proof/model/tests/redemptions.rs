//! All rules of tokens hold in every state of every space, and the checker finds each mistake.

#![expect(
    clippy::print_stdout,
    reason = "for those who run it with `--nocapture`"
)]

use idempotence_model::tokens::spaces::{all, wrong};
use idempotence_model::tokens::{Rule, check};

/// A space with fewer states does not test what it should.
const FLOOR: usize = 500;

#[test]
fn a_token_is_redeemed_once_and_never_lost_without_a_body() {
    for space in all() {
        let outcome = check(space.config, &Rule::ALL, &space.events);
        println!("{outcome}");
        assert!(outcome.broken.is_none(), "{outcome:#?}");
        assert!(outcome.missing.is_empty(), "{outcome:#?}");
        assert!(outcome.states >= FLOOR, "{outcome:#?}");
    }
}

#[test]
fn each_mistake_with_tokens_breaks_its_rule() {
    for (config, rule) in wrong() {
        let outcome = check(config, &[rule], &[]);
        println!("{outcome}");
        let (_, way) = outcome
            .broken
            .unwrap_or_else(|| panic!("{}: not found", outcome.config));
        for step in way {
            println!("    {step:?}");
        }
    }
}
