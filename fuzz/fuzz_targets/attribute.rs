//! The attribute: any tokens in it and under it give tokens.
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
#[path = "../../idempotent-macro/src/value.rs"]
mod value;

/// What stands between the options and the function in the input.
const BETWEEN: char = '\u{1}';
/// A thousand parentheses within each other are too deep for rustc, too.
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
