//! What the crate `idempotent-http` uses, beside the public names: the guard of a request, and refusals as responses.

use std::borrow::Cow;
use std::sync::Weak;
use std::time::Duration;

use crate::error::lang::Lang;
use crate::error::{Error, Failure};
use crate::handle::Idempotency;
use crate::observe::Event;
use crate::operate::peek::Peek;
use crate::policy::Policy;
use crate::protocol::body_context::IdempotencyContext;
use crate::protocol::context::ALL_OF_HTTP;

// The key of a request: endpoints that are named by their route, and parts that come from a client.
pub use crate::call::Call;
pub use crate::call::key_parts::FromClient;
pub use crate::key::endpoint::Endpoint;
pub use crate::key::fingerprint::{Fingerprint, missing::has_missing_part};
pub use crate::key::name::InvalidName;
pub use crate::key::route::RouteName;

// The handler: it holds the key, continues without its caller, and settles the key.
pub use crate::call::finish::{Caller, Detach, Finish, Rest};
pub use crate::protocol::ending::SettleOutcome;
pub use crate::protocol::held::Held;
pub use crate::protocol::refusal::Refusal;
pub use crate::protocol::shared::Shared;

// The response: what is stored of it, and how a duplicate gets it.
pub use crate::record::form::Form;
pub use crate::record::kept::{Kept, Stored};
pub use crate::result::body_outcome::BodyOutcome;
pub use crate::result::options::{LONGEST_HEAD, ResultOptions};
pub use crate::result::replay::{ReplayValue, Storable};
pub use crate::result::replay_mode::{ReplayMode, ReplayOk};
pub use crate::world::time_of_day;

// The refusal: the call that an error names, and the response that says why.
pub use crate::error::closest::closest;
pub use crate::error::lang::weight;
pub use crate::error::{Site, Subject};
#[cfg(feature = "actix")]
pub use crate::integrations::actix::{
    RefusedCall,
    convert::{new_headers, old_headers},
    extract::headers_of,
    response_of,
};
#[cfg(any(feature = "actix", feature = "axum"))]
pub use crate::integrations::rejection::{HeaderRejection, rejected};
#[cfg(feature = "http")]
pub use crate::integrations::{
    fault::{Carrier, Expected, HeaderFault, Id, IdFault},
    grpc,
    header::{Repeated, single_value},
    lang,
    mistake::Mistake,
    problem::{PROBLEM_JSON, Problem},
};

// What a layer reports to the `doctor` of its handle.
pub use crate::settings::known::Watched;

/// Asks `watched` for its findings in each `doctor` of this handle, for as long as `watched` lives.
pub fn watch(handle: &Idempotency, watched: Weak<dyn Watched>) {
    handle.shared().known_endpoints().watch(watched);
}

/// The `ttl` of the calls of an endpoint with this policy, after the settings of the handle.
pub fn ttl_in_force(handle: &Idempotency, endpoint: &Endpoint, mut policy: Policy) -> Duration {
    // An invalid policy refuses the call.
    let _ = handle
        .shared()
        .known_endpoints()
        .enter(endpoint, &mut policy);
    policy.ttl()
}

/// Whether the call of this context has claimed its key.
pub fn holds_claim(context: &IdempotencyContext) -> bool {
    context.claim().is_some()
}

/// Whether the call of this context has claimed the key that `call` would claim.
pub fn holds_claim_of(context: &IdempotencyContext, call: &Call) -> bool {
    let claim = context.claim();
    claim.is_some_and(|claim| call.has_key_of(&claim.shared, &claim.site))
}

/// Reads the record of a key. With `shares_keys` all endpoints of the layer share their keys.
///
/// # Errors
///
/// As [`Idempotency::peek`].
pub async fn peek(
    handle: &Idempotency,
    endpoint: Endpoint,
    fingerprint: Fingerprint,
    shares_keys: bool,
) -> Result<Option<Peek>, Error> {
    let key: fn(&Shared, &Endpoint, &Fingerprint) -> _ = if shares_keys {
        |shared, _, fingerprint| shared.key(&Endpoint::named(ALL_OF_HTTP), fingerprint)
    } else {
        Shared::key
    };
    handle.read(endpoint, fingerprint, key).await
}

/// The error of a call or an operation whose key cannot be made.
pub fn invalid_key(site: Site, why: impl Into<Cow<'static, str>>) -> Error {
    Error::InvalidKey(Failure::new(site, why, None))
}

/// The error of a name that is not valid for an endpoint.
pub fn invalid_name(subject: Subject, name: &InvalidName) -> Error {
    Error::invalid_name(subject, name)
}

/// Reports a refusal of a request that has made no call.
pub fn emit_refusal(handle: &Idempotency, error: &Error) {
    handle.shared().observers().emit(&Event::refused(error));
}

/// The text in this language, or the English text if the language is one of the program.
pub fn built_in<T>(lang: Lang, en: T, zh_hans: T) -> T {
    lang.built_in(en, zh_hans)
}

/// The text of the program for this code; `None` if the language is built in, or the program has no text.
pub fn text_of_the_program(lang: Lang, code: &str) -> Option<&'static str> {
    lang.of_the_program(code)
}
