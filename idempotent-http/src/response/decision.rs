//! What the layer does with the key after the handler has returned.

use std::sync::Arc;

use ::http::{StatusCode, response};
use idempotent_runtime::Error;

use crate::profile::table::Table;

/// What the layer does with the key of a request after its handler has returned a response.
///
/// By default the status decides. With [`Profile::Ietf`](crate::Profile::Ietf) the layer stores 2xx, 3xx, 402, 404, 409 and 410, holds the key after a 408 or a 504, and
/// frees the key after every other status. A timeout inside of the layer answers with 408 or 504 after it has stopped the handler,
/// and a 504 also means that another service did not answer: in each case the work may be done or not. The layer cannot
/// distinguish a 503 of a timeout from other 503s, so it frees the key.
/// [`store_if`](crate::LayerBuilder::store_if) changes this rule. A response that is a refused call of this crate (an
/// [`Error`] as a response, with the extension `Arc<Error>`) frees the key in each case, because its reason is about this
/// moment. Only [`Error::LeaseLost`] holds the key: the body of that call was stopped in the middle. An application that makes
/// its own response from the [`Error`] sets [`Decision::Release`] or [`Decision::Hold`]. A handler decides about one response
/// with an extension of the response:
///
/// ```
/// use http::{Response, StatusCode};
/// use idempotence::http::Decision;
///
/// let mut response = Response::new("the bank did not answer");
/// *response.status_mut() = StatusCode::GATEWAY_TIMEOUT;
/// response.extensions_mut().insert(Decision::Hold); // the money may have moved
/// ```
///
/// With axum the extension is a part of the response: `(StatusCode::GATEWAY_TIMEOUT, Extension(Decision::Hold))`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Decision {
    /// The response is stored: requests with this key get it for the `ttl`.
    Store,
    /// The key becomes free: the next request with this key runs the handler.
    Release,
    /// The key stays taken until its lease ends: for at least two thirds of the lease, or less with `renew(Renew::No)` or after failed
    /// renewals. Until then requests with this key get 409 `outcome_unknown`. The layer marks the key by a write in the background;
    /// without the mark, as after a crash, they get `in_progress`. For responses after which the work may be done or not.
    Hold,
}

impl Decision {
    /// The decision by the status alone.
    fn by_status(status: StatusCode, table: &Table) -> Self {
        match status {
            _ if table.stores(status) => Self::Store,
            _ if table.holds(status) => Self::Hold,
            _ => Self::Release,
        }
    }

    /// The decision of the handler, else of `store_if`, else by the status.
    pub(crate) fn about(head: &response::Parts, store_if: Option<&StoreIf>, table: &Table) -> Self {
        if let Some(decision) = head.extensions.get::<Self>() {
            return *decision;
        }
        if let Some(error) = head.extensions.get::<Arc<Error>>() {
            return Self::after_error(error);
        }
        let decision = match store_if {
            Some(store_if) if store_if(head) => Self::Store,
            Some(_) if table.holds(head.status) => Self::Hold,
            Some(_) => Self::Release,
            None => Self::by_status(head.status, table),
        };
        match (decision, head.extensions.get::<PerhapsStopped>()) {
            (Self::Release, Some(PerhapsStopped)) => Self::Hold,
            _ => decision,
        }
    }
}

/// An extension of a response that a middleware has made of an error, perhaps after the handler began: the key is not freed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PerhapsStopped;

impl Decision {
    /// The decision after the handler has returned the error of a call that it made.
    pub(crate) fn after_error(error: &Error) -> Self {
        Self::after_refusal(matches!(error, Error::LeaseLost(_)))
    }

    /// The decision after the refusal of a call that the handler made. If it is unknown whether the call did its work, its body was
    /// stopped in the middle. The body of any other refused call did not run, for a reason of this moment.
    pub(crate) fn after_refusal(is_unknown: bool) -> Self {
        if is_unknown {
            Self::Hold
        } else {
            Self::Release
        }
    }
}

/// The option `store_if`.
pub(crate) type StoreIf = Arc<dyn Fn(&response::Parts) -> bool + Send + Sync>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Profile;

    /// Asserts what a profile does after each status.
    fn assert_decisions(profile: Profile, expected: impl Fn(u16) -> Decision) {
        for status in (100..600).filter_map(|status| StatusCode::from_u16(status).ok()) {
            let decision = Decision::by_status(status, profile.table());
            assert_eq!(decision, expected(status.as_u16()), "{profile:?} {status}");
        }
    }

    #[test]
    fn a_final_answer_is_stored_and_only_a_timeout_holds_the_key() {
        assert_decisions(Profile::Ietf, |status| match status {
            200..400 | 402 | 404 | 409 | 410 => Decision::Store,
            408 | 504 => Decision::Hold,
            _ => Decision::Release,
        });
    }

    #[test]
    fn stripe_also_stores_failures_of_the_server() {
        assert_decisions(Profile::Stripe, |status| match status {
            200..400 | 402 | 404 | 410 | 424 | 500.. => Decision::Store,
            408 => Decision::Hold,
            _ => Decision::Release,
        });
    }

    #[test]
    fn acp_and_repeatable_requests_store_no_failure_of_the_server() {
        for profile in [Profile::Acp, Profile::Repeatability] {
            assert_decisions(profile, |status| match status {
                408 => Decision::Hold,
                200..500 => Decision::Store,
                _ => Decision::Release,
            });
        }
    }
}
