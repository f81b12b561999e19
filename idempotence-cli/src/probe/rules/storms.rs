//! Equal requests at once.

use crate::probe::convention::Convention::{Acp, Ietf, Repeatability, Stripe};
use crate::probe::rule::Level::{May, Must, Should};
use crate::probe::rule::{Rule, Verdict, at_most, basis};
use crate::probe::scenario::{Scenario, Step, USUAL};
use crate::probe::seen::{Reply, Seen};
use crate::probe::sentences::{ACP_ONCE, ONE_EFFECT, REPEATABLE, STRIPE_ONCE};

static STORM: Scenario = Scenario {
    name: "storm",
    steps: &[Step::Storm(USUAL), Step::Retry(USUAL)],
};
const AT_ONCE: usize = 0;
const AFTER: usize = 1;

const CONFLICT: &str = "The request was retried before the original request completed. The resource SHOULD respond with a resource conflict \
     error. (draft, section 2.6)";
const ACP_CONFLICT: &str = "Same key, original request still in flight: 409 idempotency_in_flight. (ACP checkout, section 6.4)";

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "storm-runs-once",
        bases: &[
            basis(Ietf, Must, ONE_EFFECT),
            basis(Stripe, Must, STRIPE_ONCE),
            basis(Acp, Must, ACP_ONCE),
            basis(Repeatability, Must, REPEATABLE),
        ],
        advice: "Claim the key by one atomic operation before the work. To look for it and then to write it is a race.",
        sends: &STORM,
        judge: |seen| at_most(1, seen),
    },
    Rule {
        id: "storm-answers",
        bases: &[
            basis(Ietf, Should, CONFLICT),
            basis(
                Stripe,
                Should,
                "409 Conflict: the request conflicts with another request, perhaps due to using the same idempotent key. (Stripe, errors)",
            ),
            basis(Acp, Must, ACP_CONFLICT),
            basis(
                Repeatability,
                Should,
                "If the original request is still in progress: 409. (Azure Communication Services, repeatable requests)",
            ),
        ],
        advice: "Answer an equal request with 409 while the first runs, or let it wait for the first response.",
        sends: &STORM,
        judge: answered,
    },
    Rule {
        id: "storm-settles",
        bases: &[
            basis(Ietf, Should, crate::probe::sentences::SAME_RESULT),
            basis(Stripe, Should, crate::probe::sentences::STRIPE_SAME),
            basis(Acp, Should, crate::probe::sentences::ACP_SAME),
            basis(Repeatability, Should, REPEATABLE),
        ],
        advice: "Store the response when the work ends, also if other requests are waiting for it.",
        sends: &STORM,
        judge: |seen| {
            let after = seen.reply(AFTER);
            Verdict::of(after.is_success(), || {
                format!("afterwards the request gets {}", after.summary())
            })
        },
    },
    Rule {
        id: "conflict-problem",
        bases: &[basis(
            Ietf,
            Should,
            "If the request is retried, while the original request is still being processed, the resource SHOULD reply with an HTTP \
             409 status code with body containing problem description. (draft, section 2.7)",
        )],
        advice: "Answer with application/problem+json (RFC 9457), or with a Link to your documentation.",
        sends: &STORM,
        judge: |seen| each_conflict(seen, Reply::describes_problem, "describes no problem"),
    },
    Rule {
        id: "conflict-retry-after",
        bases: &[
            basis(
                Ietf,
                May,
                "Clients MUST correct the requests (with the exception of 409 where no correction is required) before performing a retry \
                 operation. (draft, section 2.7)",
            ),
            basis(
                Acp,
                Should,
                "Servers SHOULD include a Retry-After header. (ACP checkout, section 6.4)",
            ),
        ],
        advice: "Say by Retry-After when the client should try again, or each client guesses.",
        sends: &STORM,
        judge: |seen| each_conflict(seen, |reply| reply.has("retry-after"), "has no Retry-After"),
    },
];

fn answered(seen: &Seen) -> Verdict {
    let replies = seen.replies.get(AT_ONCE).map_or(&[][..], Vec::as_slice);
    let mut wrong = replies
        .iter()
        .filter(|reply| !reply.is_success() && !reply.is_conflict());
    match wrong.next() {
        None if replies.iter().any(Reply::is_success) => Verdict::Passed,
        None => Verdict::failed("no request of the storm gets a response"),
        Some(reply) => Verdict::failed(format!("{} for an equal request", reply.summary())),
    }
}

fn each_conflict(seen: &Seen, judge: impl Fn(&Reply) -> bool, otherwise: &str) -> Verdict {
    let conflicts: Vec<_> = seen.all().filter(|reply| reply.is_conflict()).collect();
    if conflicts.is_empty() {
        return Verdict::skipped("no request got 409");
    }
    Verdict::of(conflicts.iter().all(|reply| judge(reply)), || {
        format!("a 409 {otherwise}")
    })
}
