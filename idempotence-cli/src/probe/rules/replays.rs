//! The second of two equal requests gets the first response.

use std::time::Duration;

use crate::probe::convention::Convention::{Acp, Ietf, Repeatability, Stripe};
use crate::probe::rule::Level::{Must, Should};
use crate::probe::rule::{Rule, Verdict, at_most, basis};
use crate::probe::scenario::{Scenario, Step, USUAL};
use crate::probe::seen::Seen;
use crate::probe::sentences::{
    ACP_ONCE, ACP_SAME, ONE_EFFECT, REPEATABLE, SAME_RESULT, STRIPE_ONCE, STRIPE_SAME,
};

/// The pause makes the dates of the two responses differ.
pub(super) static TWICE: Scenario = Scenario {
    name: "twice",
    steps: &[
        Step::Send(USUAL),
        Step::Pause(Duration::from_millis(1_100)),
        Step::Send(USUAL),
    ],
};
pub(super) const FIRST: usize = 0;
pub(super) const SECOND: usize = 2;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "replay-runs-once",
        bases: &[
            basis(Ietf, Must, ONE_EFFECT),
            basis(Stripe, Must, STRIPE_ONCE),
            basis(Acp, Must, ACP_ONCE),
            basis(Repeatability, Must, REPEATABLE),
        ],
        advice: "Store the key with the response in the transaction of the work, and look for it first.",
        sends: &TWICE,
        judge: |seen| at_most(1, seen),
    },
    Rule {
        id: "replay-status",
        bases: &[
            basis(Ietf, Should, SAME_RESULT),
            basis(Stripe, Must, STRIPE_SAME),
            basis(Acp, Must, ACP_SAME),
            basis(Repeatability, Should, REPEATABLE),
        ],
        advice: "Store the status of the first response, and answer a repetition with it.",
        sends: &TWICE,
        judge: |seen| {
            let (first, second) = (seen.reply(FIRST), seen.reply(SECOND));
            Verdict::of(first.status == second.status, || {
                format!("{} after {}", second.summary(), first.summary())
            })
        },
    },
    Rule {
        id: "replay-body",
        bases: &[
            basis(Ietf, Should, SAME_RESULT),
            basis(Stripe, Must, STRIPE_SAME),
            basis(Acp, Must, ACP_SAME),
            basis(Repeatability, Should, REPEATABLE),
        ],
        advice: "Store the bytes of the first body, and not the data from which the body is made.",
        sends: &TWICE,
        judge: same_body,
    },
    Rule {
        id: "replay-headers",
        bases: &[
            basis(Ietf, Should, SAME_RESULT),
            basis(Stripe, Should, STRIPE_SAME),
            basis(Acp, Should, ACP_SAME),
            basis(Repeatability, Should, REPEATABLE),
        ],
        advice: "Store the headers that describe the result: Content-Type, Location, ETag and the like.",
        sends: &TWICE,
        judge: same_headers,
    },
    Rule {
        id: "replay-mark",
        bases: &[
            basis(
                Stripe,
                Should,
                "The header Idempotent-Replayed: true marks a response that was replayed. (Stripe, error handling)",
            ),
            basis(
                Acp,
                Should,
                "The replayed response SHOULD include the header Idempotent-Replayed: true. (ACP checkout, section 6.3)",
            ),
        ],
        advice: "Mark a replay, so that logs and clients tell it from a first response.",
        sends: &TWICE,
        judge: marked,
    },
    Rule {
        id: "key-echoed",
        bases: &[basis(
            Acp,
            Should,
            "Idempotency-Key: echo on all POST responses. (ACP checkout, section 3.1)",
        )],
        advice: "Repeat the key of the request in the response.",
        sends: &TWICE,
        judge: |seen| {
            let header = seen.convention.key_header();
            let replies = [FIRST, SECOND].map(|step| seen.reply(step));
            Verdict::of(replies.iter().all(|reply| reply.has(header)), || {
                format!("a response has no {header}")
            })
        },
    },
    Rule {
        id: "result-header",
        bases: &[basis(
            Repeatability,
            Must,
            "Servers aware of repeatability MUST return the Repeatability-Result response header in the result of a repeatable request. \
             (Repeatable Requests, section 3)",
        )],
        advice: "Answer each repeatable request with Repeatability-Result: accepted or rejected.",
        sends: &TWICE,
        judge: |seen| {
            let replies = [FIRST, SECOND].map(|step| seen.reply(step));
            let accepted = |line: &&[u8]| line.eq_ignore_ascii_case(b"accepted");
            let has_it = replies
                .iter()
                .all(|reply| reply.lines("repeatability-result").iter().any(accepted));
            Verdict::of(has_it, || {
                "a response has no Repeatability-Result: accepted".to_owned()
            })
        },
    },
];

/// The headers that describe a result. The others are of a connection, of a moment, or of a program on the way.
const DESCRIBING: [&str; 7] = [
    "content-type",
    "content-language",
    "content-location",
    "etag",
    "last-modified",
    "link",
    "location",
];

fn same_body(seen: &Seen) -> Verdict {
    let (first, second) = (seen.reply(FIRST), seen.reply(SECOND));
    Verdict::of(first.body == second.body, || {
        format!(
            "{} bytes that differ from the {} of the first body",
            second.body.len(),
            first.body.len()
        )
    })
}

fn same_headers(seen: &Seen) -> Verdict {
    let (first, second) = (seen.reply(FIRST), seen.reply(SECOND));
    let mut names = DESCRIBING.into_iter();
    match names.find(|name| first.lines(name) != second.lines(name)) {
        None => Verdict::Passed,
        Some(name) if second.has(name) => Verdict::failed(format!("another {name}")),
        Some(name) => Verdict::failed(format!("no {name}")),
    }
}

fn marked(seen: &Seen) -> Verdict {
    let Some(mark) = seen.convention.replay_mark() else {
        return Verdict::Passed;
    };
    if seen.reply(FIRST).has(mark) {
        return Verdict::failed(format!("the first response has {mark}"));
    }
    Verdict::of(seen.reply(SECOND).has(mark), || format!("no {mark}"))
}
