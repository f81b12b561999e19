//! Whose key it is: another user and another path have keys of their own.

use crate::probe::convention::Convention::{Acp, Ietf, Repeatability, Stripe};
use crate::probe::rule::Level::{Must, Should};
use crate::probe::rule::{Rule, Verdict, basis};
use crate::probe::scenario::{Scenario, Shape, Step, USUAL};
use crate::probe::seen::Seen;
use crate::probe::sentences::{ACP_SCOPE, COMPOSITE, REPEATABLE, STRIPE_ONCE};

static OTHER_USER: Scenario = Scenario {
    name: "other user",
    steps: &[
        Step::Send(USUAL),
        Step::Send(Shape {
            is_other_user: true,
            ..USUAL
        }),
    ],
};
static OTHER_PATH: Scenario = Scenario {
    name: "other path",
    steps: &[
        Step::Send(USUAL),
        Step::Send(Shape {
            is_other_path: true,
            ..USUAL
        }),
    ],
};
const FIRST: usize = 0;
const OTHER: usize = 1;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "other-user",
        bases: &[
            basis(Ietf, Must, COMPOSITE),
            basis(Stripe, Must, STRIPE_ONCE),
            basis(Acp, Must, ACP_SCOPE),
            basis(Repeatability, Must, REPEATABLE),
        ],
        advice: "Make the user a part of the stored key. Else a guessed key shows the response of another user.",
        sends: &OTHER_USER,
        judge: |seen| not_the_first(seen, "another user"),
    },
    Rule {
        id: "other-path",
        bases: &[
            basis(Ietf, Should, COMPOSITE),
            basis(Stripe, Must, STRIPE_ONCE),
            basis(Acp, Must, ACP_SCOPE),
            basis(Repeatability, Should, REPEATABLE),
        ],
        advice: "Make the method and the path parts of the stored key, or of the fingerprint of the payload.",
        sends: &OTHER_PATH,
        judge: |seen| not_the_first(seen, "another path"),
    },
];

/// The other request runs, or is refused. It gets no stored response.
fn not_the_first(seen: &Seen, other: &str) -> Verdict {
    let reply = seen.reply(OTHER);
    if reply.error.is_some() || reply.status >= 500 {
        return Verdict::failed(format!("{other} gets {}", reply.summary()));
    }
    if reply.status == 401 || reply.status == 403 || reply.status == 404 {
        return Verdict::skipped(format!("{other} gets {}", reply.summary()));
    }
    if reply.is_refusal() {
        return Verdict::Passed;
    }
    let is_replay = match seen.effect {
        Some(runs) => runs < 2,
        None if !seen.has_telling_bodies => {
            return Verdict::skipped("needs --effect-url: the responses of two runs are equal");
        }
        None => reply.body == seen.reply(FIRST).body,
    };
    Verdict::of(!is_replay, || {
        format!("{other} gets the response of the first")
    })
}
