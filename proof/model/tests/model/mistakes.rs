//! The checker finds each mistake, so the rules can fail.

use idempotence_model::{Search, Steps, fences, mistakes, recovery, several, tokens};

fn is_broken<C: Steps>(config: C, rule: C::Rule) {
    let outcome = Search::breaks(config, rule);
    println!("{outcome}");
    let (_, way) = outcome.broken.expect("the rule is broken");
    for step in way {
        println!("    {step:?}");
    }
}

#[test]
fn each_mistake_breaks_its_rule() {
    for (config, rule) in mistakes::wrong() {
        is_broken(config, rule);
    }
}

#[test]
fn each_mistake_with_tokens_breaks_its_rule() {
    for (config, rule) in tokens::spaces::wrong() {
        is_broken(config, rule);
    }
}

#[test]
fn each_mistake_with_fences_breaks_its_rule() {
    for (config, rule) in fences::spaces::wrong() {
        is_broken(config, rule);
    }
}

#[test]
fn each_mistake_with_several_keys_breaks_its_rule() {
    for (config, rule) in several::spaces::wrong() {
        is_broken(config, rule);
    }
}

#[test]
fn each_mistake_with_steps_breaks_its_rule() {
    for (config, rule) in recovery::spaces::wrong() {
        is_broken(config, rule);
    }
}

/// If a limit disappears, remove it from the README and add the rule to its space.
#[test]
fn what_is_not_promised_does_happen() {
    for (config, rule) in mistakes::limits() {
        is_broken(config, rule);
    }
    for (config, rule) in fences::spaces::limits() {
        is_broken(config, rule);
    }
    for (config, rule) in recovery::spaces::limits() {
        is_broken(config, rule);
    }
}
