//! The token of a call: redeemed once the key is the call's, before its body runs.
//!
//! A duplicate is told by the key first, so the token of a call that has succeeded is asked for no more: with `replay` a
//! second submit gets the result of the first.
//!
//! | the call | the claim | the token |
//! | --- | --- | --- |
//! | finds its key taken | the other's | untouched |
//! | is refused for its token | withdrawn | untouched |
//! | gets no answer of the store, or one after its lease | withdrawn | given back |
//! | is dropped before its body | withdrawn | given back |
//! | ends without success, and nothing of it is kept | by `release` | given back with `give_back` |
//! | is dropped in its body, with `on_cancel = "release"` | removed | given back with `give_back` |
//! | ends otherwise, or in a way that is not known | by `release` | used |

use std::sync::Arc;

use tokio::time::Instant;
use tracing::Instrument as _;

use crate::error::Error;
use crate::protocol::ending::Ending;
use crate::protocol::held::Held;
use crate::protocol::settle;
use crate::store::{StoreError, StoreErrorKind};

/// Redeems the token of a call that has the key, if it has one: 1 round trip.
///
/// # Errors
///
/// Why the body must not run.
///
/// # Cancellation
///
/// Dropped before the store has answered, the token is given back, and then the claim withdrawn, without the caller.
pub(crate) async fn redeem(mut held: Held) -> Result<Held, Error> {
    let lease = Arc::clone(&held.lease);
    let Some(token) = &lease.call.token else {
        return Ok(held);
    };
    held.await_token();
    let redemption = token.redemption.clone().redeem_for_call();
    let error = match redemption.instrument(lease.call.span.clone()).await {
        Ok(_) if Instant::now() < lease.good_until() => {
            held.confirm();
            return Ok(held);
        }
        Ok(_) => {
            token.owe();
            let late = "the token was redeemed only after the lease of the call had ended";
            let late = StoreError::new(StoreErrorKind::Unknown, late);
            Error::store(lease.call.site.clone(), late)
        }
        Err(error) => error.at(&lease.call.site),
    };
    lease.call.emit_refusal(&error);
    held.abandon();
    if error.is_unavailable() {
        // The caller has waited long enough.
        lease.leave_unavailable();
        settle::settle_in_background(lease, Ending::Withdraw);
    } else {
        settle::settle(lease, Ending::Withdraw).await;
    }
    Err(error)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt as _;

    use crate::call::Call;
    use crate::handle::Idempotency;
    use crate::key::endpoint::Endpoint;
    use crate::key::fingerprint::Fingerprint;
    use crate::protocol::token::redemption::Redemption;
    use crate::{MemoryStore, Policy};

    const TOKEN: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn call(idempotency: &Idempotency) -> Call {
        let policy = Policy::new(Duration::from_mins(1));
        Call::new(Endpoint::named("orders.submit"), policy, Some(idempotency))
    }

    #[test]
    fn a_transaction_takes_no_token() {
        let idempotency = Idempotency::new(MemoryStore::new());
        let with_token = call(&idempotency).token(TOKEN, &7, "orders.submit").keyed();
        let refused = with_token.in_tx().err().expect("it is refused");
        assert_eq!(refused.code(), "invalid_policy");
    }

    #[test]
    fn the_key_is_made_of_the_digest_and_of_nothing_else_of_the_token() {
        let idempotency = Idempotency::new(MemoryStore::new());
        let operation = Endpoint::named("orders.submit");
        let redemption = Redemption::new(idempotency.shared(), operation, TOKEN, |hasher| {
            hasher.part(&7)
        });
        let digest = redemption.map(|redemption| redemption.bound().to_string());
        let digest = digest.expect("it could be a token");
        assert!(digest.len() == 64 && digest != TOKEN);
        let keyed = call(&idempotency).token(TOKEN, &7, "orders.submit").keyed();
        let refused = keyed.claim().now_or_never().expect("nothing is waited for");
        let refused = refused.expect_err("it was never issued").into_error();
        assert_eq!(refused.code(), "token_unknown");
        let key = refused.site().fingerprint;
        assert_eq!(key, Fingerprint::of(&(digest,)).ok());
    }
}
