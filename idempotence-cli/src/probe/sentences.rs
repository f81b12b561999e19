//! Sentences of conventions from which several rules come.

pub(crate) const ONE_EFFECT: &str = "An HTTP request method is considered idempotent if the intended effect on the server of multiple identical requests with that \
         method is the same as the effect for a single such request. (draft, section 1)";
pub(crate) const SAME_RESULT: &str = "The resource SHOULD respond with the result of the previously completed operation, success or an error. (draft, \
         section 2.6)";
pub(crate) const VALIDATE: &str = "Always validate the key as per its published specification before processing any request. (draft, section 5)";
pub(crate) const COMPOSITE: &str = "On the resource, implement a unique composite key as the idempotent cache lookup key. (draft, section 5)";
pub(crate) const STRIPE_ONCE: &str = "The API supports idempotency for safely retrying requests without accidentally performing the same operation twice. (Stripe, \
         idempotent requests)";
pub(crate) const STRIPE_SAME: &str = "Subsequent requests with the same key return the same result, including 500 errors. (Stripe, idempotent requests)";
pub(crate) const ACP_ONCE: &str =
    "Servers MUST NOT re-execute side effects on replay. (ACP checkout, section 6.3)";
pub(crate) const ACP_SAME: &str = "Server MUST return the original response with the same HTTP status code. (ACP checkout, section 6.3)";
pub(crate) const ACP_SCOPE: &str = "Servers MUST scope keys to the authenticated identity + endpoint path. (ACP checkout, section 6.1)";
pub(crate) const REPEATABLE: &str = "A method to provide the ability to retry unsafe requests without incurring unintended side-effects. (Repeatable Requests, \
         abstract)";
