//! The rules of the option `permits`.

use crate::error::{Errors, error};
use crate::options::Options;
use crate::value::{Release, Settle};

/// Reports options that do not go with `permits`.
pub fn check(options: &Options, errors: &mut Errors) {
    if options.permits.is_none() {
        return;
    }
    for (name, why) in [
        ("tx", "whose transaction holds the key alone"),
        ("payload", "which is one for all calls with a key"),
        ("also", "which holds its keys alone"),
        (
            "on_duplicate",
            "because a call that lacks a permit is no duplicate: it gets `Error::InProgress`",
        ),
        ("token", "which is redeemed for one run"),
        (
            "fence",
            "which orders the writes of one holder after another",
        ),
    ] {
        if let Some(span) = options.written(name) {
            let message = format_args!("`permits` cannot be combined with `{name}`, {why}");
            let help = format_args!("leave `{name}` or `permits` out");
            errors.push(error(span, message, help));
        }
    }
    if let Some(Settle::Background) = options.settle
        && let Some(span) = options.written("settle")
    {
        errors.push(error(
            span,
            "`permits` cannot be combined with `settle = \"background\"`: the next call would meet the permit of a call that has returned",
            "leave `settle` or `permits` out",
        ));
    }
    // A `release` with a mistake is also `None`, and was already reported.
    if errors.is_empty()
        && options.release != Some(Release::Always)
        && let Some(span) = options.written("permits")
    {
        errors.push(error(
            span,
            "`permits` needs `release = true`: with other values a key has one run",
            "write `release = true` as well, or leave `permits` out",
        ));
    }
}
