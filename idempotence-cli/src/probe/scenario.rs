//! What is sent: the steps of a scenario, which several rules may judge.

use std::time::Duration;

/// Requests that belong together. They have one key, which no other scenario has.
#[derive(Debug)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) steps: &'static [Step],
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Step {
    /// One request.
    Send(Shape),
    /// Equal requests at once.
    Storm(Shape),
    /// One request, whose connection is closed before its response.
    HangUp(Shape),
    /// The request again, until it is not refused because an equal one runs.
    Retry(Shape),
    Pause(Duration),
}

/// How a request differs from the request of the arguments.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) key: SentKey,
    pub(crate) body: Body,
    pub(crate) is_other_path: bool,
    pub(crate) is_other_user: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SentKey {
    /// The key of the scenario.
    Own,
    /// A key that no other request has.
    Another,
    Missing,
    Empty,
    /// A quote at its beginning only.
    Unterminated,
    /// Two lines with different keys.
    TwoLines,
    /// [`LONG`] characters.
    Long,
    /// The key, without the date of the first try.
    Undated,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Body {
    Usual,
    /// Another order.
    Other,
    /// The service answers it with a status from 500 on.
    Failing,
}

/// More than any convention allows, and less than servers allow for a header.
pub(crate) const LONG: usize = 4000;

/// The most tries of [`Step::Retry`].
pub(crate) const TRIES: usize = 10;

/// The request of the arguments.
pub(crate) const USUAL: Shape = Shape {
    key: SentKey::Own,
    body: Body::Usual,
    is_other_path: false,
    is_other_user: false,
};

/// The request of the arguments, with this key.
pub(crate) const fn keyed(key: SentKey) -> Shape {
    Shape { key, ..USUAL }
}

/// The request of the arguments, with another body.
pub(crate) const fn with_body(body: Body) -> Shape {
    Shape { body, ..USUAL }
}

/// What the arguments must have for a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    OtherBody,
    FailingBody,
    OtherPath,
    OtherUser,
}

impl Need {
    /// Why a rule cannot be judged without it.
    pub(crate) fn advice(self) -> &'static str {
        match self {
            Self::OtherBody => "needs --other-body",
            Self::FailingBody => "needs --failing-body",
            Self::OtherPath => "needs --other-url",
            Self::OtherUser => "needs --other-auth",
        }
    }
}

impl Scenario {
    /// The most requests that it sends, with so many in a storm.
    pub(crate) fn requests(&self, storm: usize) -> usize {
        let requests = self.steps.iter().map(|step| match step {
            Step::Send(_) | Step::HangUp(_) => 1,
            Step::Storm(_) => storm,
            Step::Retry(_) => TRIES,
            Step::Pause(_) => 0,
        });
        requests.sum()
    }

    pub(crate) fn needs(&self) -> Vec<Need> {
        let shapes = self.steps.iter().filter_map(|step| match step {
            Step::Send(shape) | Step::Storm(shape) | Step::HangUp(shape) | Step::Retry(shape) => {
                Some(shape)
            }
            Step::Pause(_) => None,
        });
        let needs = shapes.flat_map(|shape| {
            [
                (shape.body == Body::Other, Need::OtherBody),
                (shape.body == Body::Failing, Need::FailingBody),
                (shape.is_other_path, Need::OtherPath),
                (shape.is_other_user, Need::OtherUser),
            ]
        });
        needs
            .filter_map(|(is_needed, need)| is_needed.then_some(need))
            .collect()
    }
}
