//! A client that hangs up, and sends its request again.

use crate::probe::convention::Convention::{Acp, Ietf, Repeatability, Stripe};
use crate::probe::rule::Level::{Must, Should};
use crate::probe::rule::{Rule, Verdict, at_most, basis};
use crate::probe::scenario::{Scenario, Step, USUAL};
use crate::probe::seen::Seen;
use crate::probe::sentences::{ACP_ONCE, ONE_EFFECT, REPEATABLE, STRIPE_ONCE};

static HANG_UP: Scenario = Scenario {
    name: "hang up",
    steps: &[Step::HangUp(USUAL), Step::Retry(USUAL), Step::Send(USUAL)],
};
const HUNG_UP: usize = 0;
const RETRY: usize = 1;

const SAFE_RETRY: &str = "Furthermore, the client does not know if it can safely retry the request. (draft, section 1, of a request without a key)";

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "hang-up-runs-once",
        bases: &[
            basis(Ietf, Must, ONE_EFFECT),
            basis(Stripe, Must, STRIPE_ONCE),
            basis(Acp, Must, ACP_ONCE),
            basis(Repeatability, Must, REPEATABLE),
        ],
        advice: "Keep the key claimed while the work runs, also if its client is gone.",
        sends: &HANG_UP,
        judge: |seen| if_hung_up(seen, |seen| at_most(1, seen)),
    },
    Rule {
        id: "hang-up-answered",
        bases: &[
            basis(Ietf, Should, SAFE_RETRY),
            basis(Stripe, Should, STRIPE_ONCE),
            basis(Acp, Should, crate::probe::sentences::ACP_SAME),
            basis(Repeatability, Should, REPEATABLE),
        ],
        advice: "Let the work go on in a task of its own, or free the key if it stops, so that the retry gets a response.",
        sends: &HANG_UP,
        judge: |seen| if_hung_up(seen, answered),
    },
];

/// Judges only if the connection was closed before the response.
fn if_hung_up(seen: &Seen, judge: impl FnOnce(&Seen) -> Verdict) -> Verdict {
    if seen
        .replies
        .get(HUNG_UP)
        .is_some_and(|replies| !replies.is_empty())
    {
        return Verdict::skipped("the response came before the client could hang up");
    }
    judge(seen)
}

fn answered(seen: &Seen) -> Verdict {
    let retry = seen.reply(RETRY);
    Verdict::of(retry.is_success(), || {
        format!("the retry gets {}", retry.summary())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::seen::Reply;

    #[test]
    fn a_response_before_the_hang_up_is_not_judged() {
        let conflict = || Reply {
            status: 409,
            ..Reply::default()
        };
        let seen = |first: Vec<Reply>| Seen {
            convention: Ietf,
            replies: vec![first, vec![conflict()], vec![conflict()]],
            effect: Some(2),
            has_telling_bodies: true,
        };
        for rule in RULES {
            let verdict = (rule.judge)(&seen(Vec::new()));
            assert!(
                matches!(verdict, Verdict::Failed(_)),
                "{}: {verdict:?}",
                rule.id
            );
            let verdict = (rule.judge)(&seen(vec![conflict()]));
            assert!(
                matches!(verdict, Verdict::Skipped(_)),
                "{}: {verdict:?}",
                rule.id
            );
        }
    }
}
