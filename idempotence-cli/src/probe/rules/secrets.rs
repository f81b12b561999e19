//! A replay has nothing that belonged to the first client or to the first moment.

use super::replays::{FIRST, SECOND, TWICE};
use crate::probe::convention::Convention::{Acp, Ietf, Repeatability, Stripe};
use crate::probe::rule::Level::{Must, Should};
use crate::probe::rule::{Rule, Verdict, basis};
use crate::probe::seen::Seen;

const LEAK: &str = "Attackers MAY determine other keys and use them to fetch existing idempotent cache entries, belonging to other clients. (draft, \
     section 5)";
const DATE: &str = "The Date header field represents the date and time at which the message was originated. (RFC 9110, section 6.6.1)";

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "replay-cookie",
        bases: &[
            basis(Ietf, Must, LEAK),
            basis(Stripe, Must, LEAK),
            basis(Acp, Must, LEAK),
            basis(Repeatability, Must, LEAK),
        ],
        advice: "Store no Set-Cookie: a replay would give the session of the first client to another.",
        sends: &TWICE,
        judge: no_cookie,
    },
    Rule {
        id: "replay-date",
        bases: &[
            basis(Ietf, Should, DATE),
            basis(Stripe, Should, DATE),
            basis(Acp, Should, DATE),
            basis(Repeatability, Should, DATE),
        ],
        advice: "Store no Date: caches and clients compute ages from it.",
        sends: &TWICE,
        judge: |seen| {
            let dates = [FIRST, SECOND].map(|step| seen.reply(step).lines("date"));
            let is_stored = dates[0] == dates[1] && !dates[0].is_empty();
            Verdict::of(!is_stored, || "the date of the first response".to_owned())
        },
    },
];

fn no_cookie(seen: &Seen) -> Verdict {
    let [first, second] = [FIRST, SECOND].map(|step| seen.reply(step).lines("set-cookie"));
    let replayed = second
        .iter()
        .filter(|cookie| first.contains(cookie))
        .count();
    Verdict::of(replayed == 0, || {
        format!("{replayed} cookies of the first response")
    })
}
