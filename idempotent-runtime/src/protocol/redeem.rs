//! Redeems the token of a call, after the call has its key and before its body runs.
//!
//! The key comes first. So a duplicate of a successful call never reaches the token: with `replay` a second submit gets the result
//! of the first.
//!
//! | the call | its claim | its token |
//! | --- | --- | --- |
//! | finds its key taken | none | untouched |
//! | is refused because of its token | withdrawn | untouched |
//! | gets no answer of the store, or gets it after its lease | withdrawn | given back |
//! | is dropped before its body | withdrawn | given back |
//! | ends without success and without a stored result | by `release` | given back with `give_back` |
//! | is dropped in its body, with `on_cancel = "release"` | removed | given back with `give_back` |
//! | ends otherwise, or its end is unknown | by `release` | used |

use std::sync::Arc;

use tokio::time::Instant;
use tracing::Instrument as _;

use crate::error::Error;
use crate::mutation::mutation;
use crate::protocol::ending::Ending;
use crate::protocol::held::Held;
use crate::protocol::settle;
use crate::store::{StoreError, StoreErrorKind};

/// Redeems the token of a call that has its key. Costs 1 round trip, or none without a token.
///
/// # Errors
///
/// Why the body must not run.
///
/// # Cancellation
///
/// If the future is dropped before the store has answered, a background job gives the token back and then withdraws the claim.
pub(crate) async fn redeem(mut held: Held) -> Result<Held, Error> {
    let lease = Arc::clone(&held.lease);
    let Some(token) = &lease.call().token else {
        return Ok(held);
    };
    held.await_token();
    let redemption = token.redemption.clone().redeem_for_call();
    let error = match redemption.instrument(lease.call().span.clone()).await {
        Ok(_) if Instant::now() < lease.good_until() || mutation!(LateAnswerAccepted) => {
            held.confirm();
            return Ok(held);
        }
        Ok(_) => {
            token.return_on_settle();
            let late = StoreError::new(StoreErrorKind::Unknown, "a late answer for the token");
            let late = late.reason("redeemed the token only after the lease had expired");
            Error::store(lease.call().site.clone(), late)
        }
        Err(error) => error.at(&lease.call().site),
    };
    lease.call().emit_refusal(&error);
    held.abandon();
    if error.is_unavailable() {
        // The caller has already waited for the whole deadline.
        lease.leave_unavailable();
        settle::settle_in_background(lease, Ending::Withdraw);
    } else {
        settle::settle(Some((lease, Ending::Withdraw))).await;
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
    fn a_call_with_a_token_is_refused_in_a_transaction() {
        let idempotency = Idempotency::new(MemoryStore::new());
        let mut with_token = call(&idempotency);
        with_token.token(TOKEN, &7, "orders.submit");
        with_token.keyed();
        let refused = with_token
            .in_tx()
            .err()
            .expect("a token does not go with a transaction");
        assert_eq!(refused.code(), "invalid_policy");
    }

    #[test]
    fn the_key_contains_the_digest_of_the_token_and_not_the_token() {
        let idempotency = Idempotency::new(MemoryStore::new());
        let operation = Endpoint::named("orders.submit");
        let redemption = Redemption::new(idempotency.shared(), operation, TOKEN, |hasher| {
            hasher.part(&7)
        });
        let digest = redemption.map(|redemption| redemption.bound().to_string());
        let digest = digest.expect("a well-formed token");
        assert!(digest.len() == 64 && digest != TOKEN);
        let mut keyed = call(&idempotency);
        keyed.token(TOKEN, &7, "orders.submit");
        keyed.keyed();
        let refused = keyed
            .claim()
            .now_or_never()
            .expect("the store in memory answers at once");
        let refused = refused
            .expect_err("the token was never issued")
            .into_error();
        assert_eq!(refused.code(), "token_unknown");
        let key = refused.site().fingerprint;
        assert_eq!(key, Fingerprint::of(&(digest,)).ok());
    }
}
