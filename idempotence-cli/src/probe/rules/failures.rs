//! Whether a response of a failure is stored.

use crate::probe::convention::Convention::{Acp, Ietf, Stripe};
use crate::probe::rule::Level::{Must, Should};
use crate::probe::rule::{Rule, Verdict, basis};
use crate::probe::scenario::{Body, Scenario, SentKey, Shape, Step, with_body};
use crate::probe::seen::Seen;
use crate::probe::sentences::STRIPE_SAME;

static FAILING: Scenario = Scenario {
    name: "failing",
    steps: &[
        Step::Send(with_body(Body::Failing)),
        Step::Send(Shape {
            key: SentKey::Another,
            ..with_body(Body::Failing)
        }),
        Step::Send(with_body(Body::Failing)),
    ],
};
const FIRST: usize = 0;
const OTHER_KEY: usize = 1;
const AGAIN: usize = 2;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "failure-free",
        bases: &[
            basis(
                Ietf,
                Should,
                "A temporary overload or scheduled maintenance, which will likely be alleviated after some delay. (RFC 9110, section \
                 15.6.4, of 503)",
            ),
            basis(
                Acp,
                Must,
                "Responses with HTTP 5xx status codes MUST NOT be cached against the idempotency key. (ACP checkout, section 6.5)",
            ),
        ],
        advice: "Free the key after a failure that has changed nothing. Else a retry never succeeds.",
        sends: &FAILING,
        judge: |seen| {
            let status = seen.reply(FIRST).status;
            if seen.convention == Ietf && status != 503 {
                return Verdict::skipped(format!("the draft lets a service store a {status}"));
            }
            is_stored(seen).map_or_else(
                |skipped| skipped,
                |is_stored| Verdict::of(!is_stored, || format!("the {status} is replayed")),
            )
        },
    },
    Rule {
        id: "failure-kept",
        bases: &[basis(Stripe, Must, STRIPE_SAME)],
        advice: "Store the response of a failure after the work has begun.",
        sends: &FAILING,
        judge: |seen| {
            is_stored(seen).map_or_else(
                |skipped| skipped,
                |is_stored| Verdict::of(is_stored, || "the work was tried again".to_owned()),
            )
        },
    },
];

/// Whether the second response is the first. The responses of two keys show whether two tries have different responses.
fn is_stored(seen: &Seen) -> Result<bool, Verdict> {
    let [first, other, again] = [FIRST, OTHER_KEY, AGAIN].map(|step| seen.reply(step));
    if first.status < 500 {
        let text = format!("--failing-body gets {}, and no failure", first.summary());
        return Err(Verdict::skipped(text));
    }
    let marks = [
        "idempotency-replayed",
        "idempotent-replayed",
        "x-idempotent-replayed",
    ];
    if marks.iter().any(|mark| again.has(mark)) {
        return Ok(true);
    }
    if again.status != first.status {
        return Ok(false);
    }
    if first.body == other.body {
        return Err(Verdict::skipped("the responses of two failures are equal"));
    }
    Ok(again.body == first.body)
}
