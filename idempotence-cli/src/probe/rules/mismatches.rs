//! A key that was used with another payload.

use crate::probe::convention::Convention::{Acp, Ietf, Repeatability, Stripe};
use crate::probe::rule::Level::{May, Must, Should};
use crate::probe::rule::{Rule, Verdict, basis};
use crate::probe::scenario::{Body, Scenario, Step, USUAL, with_body};
use crate::probe::seen::Seen;

static OTHER_BODY: Scenario = Scenario {
    name: "other body",
    steps: &[Step::Send(USUAL), Step::Send(with_body(Body::Other))],
};
const OTHER: usize = 1;

const STRIPE: &str = "The idempotency layer compares incoming parameters to those of the original request and errors if they're not the same to \
     prevent accidental misuse. (Stripe, idempotent requests)";
const ACP: &str = "Same key, different body: 422 idempotency_conflict. (ACP checkout, section 6.4)";
const REPEATABILITY: &str = "A repetition that does not match the previous request: rejected, 400. (Azure Communication Services, repeatable requests)";
const IETF: &str = "If there is an attempt to reuse an idempotency key with a different request payload, the resource SHOULD reply with a \
     HTTP 422 status code with body containing a link pointing to relevant documentation. (draft, section 2.7)";

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "mismatch-refused",
        bases: &[
            basis(
                Ietf,
                Must,
                "The idempotency key MUST be unique and MUST NOT be reused with another request with a different request payload. (draft, \
                 section 2.2)",
            ),
            basis(Stripe, Must, STRIPE),
            basis(Acp, Must, ACP),
            basis(Repeatability, Must, REPEATABILITY),
        ],
        advice: "Store a fingerprint of the payload with the key. Else another order is lost, and its client believes that it was accepted.",
        sends: &OTHER_BODY,
        judge: |seen| {
            let other = seen.reply(OTHER);
            Verdict::of(other.is_refusal(), || {
                format!("another body with the same key gets {}", other.summary())
            })
        },
    },
    Rule {
        id: "mismatch-status",
        bases: &[
            basis(Ietf, Should, IETF),
            basis(Stripe, Should, STRIPE),
            basis(Acp, Must, ACP),
            basis(Repeatability, Must, REPEATABILITY),
        ],
        advice: "Answer with this status, so that a client knows that its key is wrong.",
        sends: &OTHER_BODY,
        judge: |seen| {
            let (other, expected) = (seen.reply(OTHER), seen.convention.mismatch());
            if !other.is_refusal() {
                return Verdict::skipped("it is not refused");
            }
            Verdict::of(other.status == expected, || {
                format!("{} instead of {expected}", other.summary())
            })
        },
    },
    Rule {
        id: "mismatch-problem",
        bases: &[basis(Ietf, Should, IETF)],
        advice: "Answer with application/problem+json (RFC 9457), or with a Link to your documentation.",
        sends: &OTHER_BODY,
        judge: described,
    },
    Rule {
        id: "mismatch-language",
        bases: &[basis(
            Ietf,
            May,
            "HTTP/1.1 422, Content-Type: application/problem+json, Content-Language: en. (draft, section 2.7, an example)",
        )],
        advice: "Name the language of the text by Content-Language, because people read it.",
        sends: &OTHER_BODY,
        judge: |seen| {
            let other = seen.reply(OTHER);
            if !other.is_refusal() {
                return Verdict::skipped("it is not refused");
            }
            Verdict::of(other.has("content-language"), || {
                format!("the {} has no Content-Language", other.summary())
            })
        },
    },
];

fn described(seen: &Seen) -> Verdict {
    let other = seen.reply(OTHER);
    if !other.is_refusal() {
        return Verdict::skipped("it is not refused");
    }
    Verdict::of(other.describes_problem(), || {
        format!("the {} describes no problem", other.summary())
    })
}
