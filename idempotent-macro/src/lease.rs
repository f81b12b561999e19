//! The rules between the durations of a call.

use crate::duration::Time;
use crate::error::{Errors, error};
use crate::options::Options;
use crate::value::{Release, Renew};

/// The lease of a call without the option `lease`: not shorter than `at_least`, and not longer than `ttl`.
fn default_lease(options: &Options, ttl: (u64, String)) -> (u64, String) {
    let at_least = options.at_least.as_ref().and_then(Time::literal);
    let lease = (LEASE.0, LEASE.1.to_owned());
    ttl.min(at_least.map_or(lease.clone(), |at_least| at_least.max(lease)))
}

/// The lease of a call without the options `lease` and `at_least`, unless its `ttl` is shorter.
const LEASE: (u64, &str) = (30_000, "30s");

/// Reports durations that contradict each other.
pub fn check(options: &Options, errors: &mut Errors) {
    let release = options.release.unwrap_or(Release::OnError);
    let ttl = options.ttl.as_ref().and_then(Time::literal);
    let lease = match (&options.lease, options.written("lease")) {
        (Some(_), Some(span)) if release != Release::OnError => {
            let release = release == Release::Always;
            return errors.push(error(
                span,
                format_args!(
                    "`lease` cannot be combined with `release = {release}`, where `ttl` is the lease"
                ),
                "leave `lease` out, or write `release = \"on_error\"`",
            ));
        }
        (Some(lease), _) => lease.literal(),
        (None, _) if release != Release::OnError => ttl,
        (None, _) => ttl.map(|ttl| default_lease(options, ttl)),
    };
    if let (Some(at_least), Some((millis, lease))) = (&options.at_least, &lease)
        && (at_least.literal()).is_some_and(|(at_least, _)| at_least > *millis)
        && let Some(span) = options.written("at_least")
    {
        errors.push(error(
            span,
            format_args!("`at_least` is longer than the lease, which is `{lease}`"),
            "write a shorter time, or a longer `lease` (with `release = true` and `false` the lease is `ttl`)",
        ));
    }
    if let (Some(Renew::Cap(span, cap)), Some((millis, lease))) = (&options.renew, lease)
        && cap.literal().is_some_and(|(cap, _)| cap < millis)
    {
        errors.push(error(
            *span,
            format_args!("`renew` is shorter than the lease, which is `{lease}`"),
            "write a longer time, or `renew = false`",
        ));
    }
}
