//! Any tokens as options and function of the attribute: the expansion returns tokens and does not panic.
#![no_main]

extern crate proc_macro;

use libfuzzer_sys::fuzz_target;
use proc_macro2::TokenStream;

#[path = "../../idempotent-macro/src"]
mod attribute {
    pub(crate) mod call;
    pub(crate) mod duration;
    pub(crate) mod error;
    pub(crate) mod expand;
    pub(crate) mod function;
    pub(crate) mod key;
    pub(crate) mod options;
    pub(crate) mod output;
    pub(crate) mod rules;
    pub(crate) mod span;
    pub(crate) mod value;
}

// The files name each other as modules of their crate.
use attribute::{call, duration, error, expand, function, key, options, output, rules, span, value};

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
