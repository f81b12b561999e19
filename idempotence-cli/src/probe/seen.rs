//! What a scenario has shown: the replies, and how often the service has done the work.

use std::collections::BTreeSet;
use std::sync::LazyLock;
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderValue};

use super::convention::Convention;

/// A response, or why there is none.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reply {
    /// 0 without a response.
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
    pub(crate) error: Option<String>,
    pub(crate) took: Duration,
}

impl Reply {
    pub(crate) fn is_success(&self) -> bool {
        (200..400).contains(&self.status)
    }

    /// Whether the service refuses the request, and did not try its work.
    pub(crate) fn is_refusal(&self) -> bool {
        (400..500).contains(&self.status)
    }

    /// Whether an equal request runs.
    pub(crate) fn is_conflict(&self) -> bool {
        self.status == 409
    }

    /// The lines of a header.
    pub(crate) fn lines(&self, name: &str) -> Vec<&[u8]> {
        let lines = self.headers.get_all(name).iter();
        lines.map(HeaderValue::as_bytes).collect()
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.headers.contains_key(name)
    }

    /// Whether the body describes a problem (RFC 9457), or a link leads to a description.
    pub(crate) fn describes_problem(&self) -> bool {
        let is_problem = self.lines("content-type").iter().any(|line| {
            line.to_ascii_lowercase()
                .starts_with(b"application/problem+")
        });
        is_problem || self.has("link")
    }

    /// The status, or the error.
    pub(crate) fn summary(&self) -> String {
        match &self.error {
            Some(error) => format!("no response ({error})"),
            None => self.status.to_string(),
        }
    }
}

/// What a scenario has shown.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) convention: Convention,
    /// The replies of each step.
    pub(crate) replies: Vec<Vec<Reply>>,
    /// By how much the effect has grown.
    pub(crate) effect: Option<u64>,
    /// Whether two runs have different responses.
    pub(crate) has_telling_bodies: bool,
}

impl Seen {
    /// The last reply of a step.
    pub(crate) fn reply(&self, step: usize) -> &Reply {
        static NONE: LazyLock<Reply> = LazyLock::new(Reply::default);
        let replies = self.replies.get(step);
        replies.and_then(|replies| replies.last()).unwrap_or(&NONE)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Reply> {
        self.replies.iter().flatten()
    }

    /// How often the service did the work: by the effect, else at least as often as responses of success differ. `None` if neither is
    /// known.
    pub(crate) fn runs(&self) -> Option<u64> {
        if self.effect.is_some() {
            return self.effect;
        }
        if !self.has_telling_bodies {
            return None;
        }
        let successes = self.all().filter(|reply| reply.is_success());
        let bodies: BTreeSet<_> = successes.map(|reply| &reply.body).collect();
        u64::try_from(bodies.len()).ok()
    }
}
