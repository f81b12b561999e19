//! Whether the work of a failed request may be done.

use std::error::Error;
use std::iter;

use crate::unanswered::Unanswered;

/// Whether the work of a request that failed with `error` may be done: a judge for the option `hold_err` of the crate
/// `idempotence`, around a request to a server that honours no idempotency keys.
///
/// | error | outcome |
/// | --- | --- |
/// | a timeout, a broken connection, an answer that breaks off or cannot be read, [`Unanswered`] | unknown |
/// | a status of `error_for_status`: 408 and 5xx | unknown: a gateway has given up, or the server has failed in the middle |
/// | no connection, a request that cannot be built | known: nothing was sent |
/// | another status, a redirect that was not followed, an error that is not of reqwest | known |
///
/// The error may be of reqwest, of reqwest-middleware, or any error whose `source()` leads to one of them. A timeout while reqwest
/// connects counts as no connection. If your own code sends a request several times, an earlier try may have done the work:
/// judge the error of each try.
///
/// If the server honours keys, send it one (`downstream_key`): a later try with this key is safe, so the key need not be held.
///
/// ```
/// #[derive(Debug)]
/// enum PayError {
///     Bank(reqwest::Error),
///     Declined,
/// }
///
/// impl PayError {
///     // #[idempotent(key = "order_no", ttl = "24h", hold_err = PayError::is_unknown)]
///     fn is_unknown(&self) -> bool {
///         matches!(self, Self::Bank(error) if idempotence_client::is_outcome_unknown(error))
///     }
/// }
/// # assert!(!PayError::Declined.is_unknown());
/// # let _ = PayError::Bank;
/// ```
#[must_use]
pub fn is_outcome_unknown(error: &(dyn Error + 'static)) -> bool {
    let mut causes = iter::successors(Some(error), |error| Error::source(*error));
    let judged = causes.find_map(|cause| {
        if cause.is::<Unanswered>() {
            return Some(true);
        }
        match cause.downcast_ref() {
            Some(reqwest_middleware::Error::Reqwest(error)) => Some(may_be_done(error)),
            Some(reqwest_middleware::Error::Middleware(error)) => {
                error.downcast_ref::<Unanswered>().map(|_| true)
            }
            None => cause.downcast_ref().map(may_be_done),
        }
    });
    judged.unwrap_or(false)
}

fn may_be_done(error: &reqwest::Error) -> bool {
    if error.is_connect() || error.is_builder() || error.is_redirect() {
        return false;
    }
    error
        .status()
        .is_none_or(|status| status.is_server_error() || status.as_u16() == 408)
}
