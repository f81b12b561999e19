//! Any tokens as options and function of the attribute: the expansion returns tokens and does not panic.
#![no_main]

extern crate proc_macro;

use libfuzzer_sys::fuzz_target;
use proc_macro2::TokenStream;

#[path = "../../idempotent-macro/src/call.rs"]
mod call;
#[path = "../../idempotent-macro/src/duration.rs"]
mod duration;
#[path = "../../idempotent-macro/src/error.rs"]
mod error;
#[path = "../../idempotent-macro/src/expand.rs"]
mod expand;
#[path = "../../idempotent-macro/src/function.rs"]
mod function;
#[path = "../../idempotent-macro/src/key.rs"]
mod key;
#[path = "../../idempotent-macro/src/options.rs"]
mod options;
#[path = "../../idempotent-macro/src/output.rs"]
mod output;
#[path = "../../idempotent-macro/src/rules.rs"]
mod rules;
#[path = "../../idempotent-macro/src/span.rs"]
mod span;
#[path = "../../idempotent-macro/src/value.rs"]
mod value;

/// The separator between the options and the function in the input.
const BETWEEN: char = '\u{1}';
/// The maximum nesting. rustc itself fails on a thousand nested parentheses.
const DEEPEST: usize = 64;

fuzz_target!(|input: &str| {
    let Some((options, item)) = input.split_once(BETWEEN) else {
        return;
    };
    let deep = |c| "([{<&*!-|".contains(c);
    if input.matches(deep).count() > DEEPEST {
        return;
    }
    if let (Ok(options), Ok(item)) = (options.parse::<TokenStream>(), item.parse()) {
        assert!(!expand::expand(options, &item).is_empty());
    }
});
