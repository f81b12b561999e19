//! Keys that are new, missing or malformed.

use crate::probe::convention::Convention::{Acp, Ietf, Repeatability, Stripe};
use crate::probe::rule::Level::{Must, Should};
use crate::probe::rule::{Rule, Verdict, basis};
use crate::probe::scenario::{LONG, Scenario, SentKey, Step, USUAL, keyed};
use crate::probe::seen::Seen;
use crate::probe::sentences::{STRIPE_ONCE, VALIDATE};

/// The first request of all: it shows whether the service takes a key in quotes.
pub(crate) static FIRST: Scenario = Scenario {
    name: "first",
    steps: &[Step::Send(USUAL)],
};
/// It shows whether two runs have different responses.
pub(crate) static TWO_KEYS: Scenario = Scenario {
    name: "two keys",
    steps: &[Step::Send(USUAL), Step::Send(keyed(SentKey::Another))],
};
/// It is left out if the service takes requests without a key.
pub(crate) static NO_KEY: Scenario = one(&[Step::Send(keyed(SentKey::Missing))], "no key");
static EMPTY: Scenario = one(&[Step::Send(keyed(SentKey::Empty))], "empty key");
static UNTERMINATED: Scenario = one(
    &[Step::Send(keyed(SentKey::Unterminated))],
    "unterminated key",
);
static TWO_LINES: Scenario = one(&[Step::Send(keyed(SentKey::TwoLines))], "two lines");
static TOO_LONG: Scenario = one(&[Step::Send(keyed(SentKey::Long))], "long key");
static UNDATED: Scenario = one(&[Step::Send(keyed(SentKey::Undated))], "no date");

const fn one(steps: &'static [Step], name: &'static str) -> Scenario {
    Scenario { name, steps }
}

const NEW_KEY: &str = "First time request: the resource SHOULD process the request normally and respond with an appropriate response and \
     status code. (draft, section 2.6)";
const ONE_LINE: &str = "Idempotency-Key is an Item Structured Header. Its value MUST be a String. (draft, section 2.1: two lines are no item)";
const OPAQUE: &str = "The key is an opaque string, max 255 characters. (ACP checkout, section 6.1)";
const EACH: &str = "Clients MUST include an Idempotency-Key header on every POST request. (ACP checkout, section 6.1)";
const UNIQUE: &str = "The value of the Repeatability-Request-ID is an opaque string representing a client-generated, globally unique for all time, \
     identifier for the request. (Repeatable Requests, section 3)";
const STRIPE_LONG: &str =
    "Idempotency keys are up to 255 characters long. (Stripe, idempotent requests)";
const DATED: &str = "Repeatability-First-Sent MUST be sent by clients to specify that a request is repeatable. (Repeatable Requests, section 3)";

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "key-quoted",
        bases: &[basis(
            Ietf,
            Must,
            "Idempotency-Key is an Item Structured Header. Its value MUST be a String. (draft, section 2.1)",
        )],
        advice: "Take a key in quotes, as the draft writes it. The other rules were tested with a key without quotes.",
        sends: &FIRST,
        judge: |seen| {
            let first = seen.reply(0);
            Verdict::of(first.is_success(), || {
                format!("{} for a key in quotes", first.summary())
            })
        },
    },
    Rule {
        id: "key-new",
        bases: &[
            basis(Ietf, Should, NEW_KEY),
            basis(Stripe, Must, STRIPE_ONCE),
            basis(Acp, Must, EACH),
            basis(Repeatability, Must, UNIQUE),
        ],
        advice: "Two keys are two intents: a person may order the same twice.",
        sends: &TWO_KEYS,
        judge: both_run,
    },
    Rule {
        id: "key-missing",
        bases: &[
            basis(
                Ietf,
                Should,
                "If the Idempotency-Key request header is missing for a documented idempotent operation requiring this header, the resource \
                 SHOULD reply with an HTTP 400 status code. (draft, section 2.7)",
            ),
            basis(
                Acp,
                Must,
                "A POST request without an Idempotency-Key header MUST be rejected with 400. (ACP checkout, section 6.1)",
            ),
        ],
        advice: "Require a key, or a client that forgets it repeats its work. If a key is optional, test with --optional-key.",
        sends: &NO_KEY,
        judge: |seen| {
            let reply = seen.reply(0);
            Verdict::of(reply.status == 400, || {
                format!("{} instead of 400", reply.summary())
            })
        },
    },
    Rule {
        id: "key-empty",
        bases: &[
            basis(Ietf, Should, VALIDATE),
            basis(Stripe, Should, STRIPE_LONG),
            basis(Acp, Should, OPAQUE),
        ],
        advice: "Refuse an empty key: all clients with this mistake would share one key.",
        sends: &EMPTY,
        judge: refused,
    },
    Rule {
        id: "key-unterminated",
        bases: &[basis(Ietf, Should, VALIDATE)],
        advice: "Read the key by a parser of Structured Fields (RFC 9651), and refuse what it refuses.",
        sends: &UNTERMINATED,
        judge: refused,
    },
    Rule {
        id: "key-repeated",
        bases: &[
            basis(Ietf, Should, ONE_LINE),
            basis(Stripe, Should, STRIPE_LONG),
            basis(Acp, Should, OPAQUE),
            basis(Repeatability, Should, UNIQUE),
        ],
        advice: "Refuse two keys: a program on the way and the service may take different ones.",
        sends: &TWO_LINES,
        judge: refused,
    },
    Rule {
        id: "key-long",
        bases: &[
            basis(Ietf, Should, VALIDATE),
            basis(Stripe, Should, STRIPE_LONG),
            basis(Acp, Should, OPAQUE),
        ],
        advice: "Limit the length of a key, for example to 255 characters. Do not cut it: two keys would become one.",
        sends: &TOO_LONG,
        judge: |seen| match refused(seen) {
            Verdict::Failed(found) => Verdict::Failed(format!("{found}, with {LONG} characters")),
            verdict => verdict,
        },
    },
    Rule {
        id: "key-undated",
        bases: &[basis(Repeatability, Must, DATED)],
        advice: "Refuse a Repeatability-Request-ID without Repeatability-First-Sent.",
        sends: &UNDATED,
        judge: refused,
    },
];

fn refused(seen: &Seen) -> Verdict {
    let reply = seen.reply(0);
    Verdict::of(reply.is_refusal(), || {
        format!("the request gets {}", reply.summary())
    })
}

fn both_run(seen: &Seen) -> Verdict {
    let other = seen.reply(1);
    if !other.is_success() {
        return Verdict::failed(format!(
            "another key with the same body gets {}",
            other.summary()
        ));
    }
    match seen.effect {
        Some(runs) => Verdict::of(runs == 2, || {
            format!("two keys, and the work was done {runs} times")
        }),
        None if seen.has_telling_bodies => Verdict::Passed,
        None => Verdict::skipped("needs --effect-url: the responses of two keys are equal"),
    }
}
