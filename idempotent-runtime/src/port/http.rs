//! What the rooms `http` and `integrations` use, beside the public names: the guard of a request, and refusals as responses.
//!
//! These rooms import nothing else of this crate. A test in `proof/layers` holds this rule.

// The key of a request: endpoints that are named by their route, and parts that come from a client.
pub(crate) use crate::call::Call;
#[cfg(any(feature = "actix", feature = "axum"))]
pub(crate) use crate::call::key_parts::FromClient;
pub(crate) use crate::key::endpoint::Endpoint;
pub(crate) use crate::key::fingerprint::{Fingerprint, UnencodablePart};
pub(crate) use crate::key::name::InvalidName;
pub(crate) use crate::key::route::RouteName;
pub(crate) use crate::policy::SetIn;
pub(crate) use crate::protocol::context::ALL_OF_HTTP;
pub(crate) use crate::settings::routes::ConfiguredRoutes;

// The handler: it holds the key, continues without its caller, and settles the key.
#[cfg(feature = "actix")]
pub(crate) use crate::call::finish::Detach;
pub(crate) use crate::call::finish::{Caller, Finish, Rest};
pub(crate) use crate::protocol::ending::SettleOutcome;
pub(crate) use crate::protocol::held::Held;
pub(crate) use crate::protocol::refusal::Refusal;
pub(crate) use crate::protocol::shared::Shared;

// The response: what is stored of it, and how a duplicate gets it.
pub(crate) use crate::record::form::Form;
pub(crate) use crate::record::kept::{Kept, Stored};
pub(crate) use crate::result::body_outcome::BodyOutcome;
pub(crate) use crate::result::options::{LONGEST_HEAD, ResultOptions};
#[cfg(any(feature = "actix", feature = "axum", feature = "tonic"))]
pub(crate) use crate::result::replay::{Storable, Value};
pub(crate) use crate::result::replay_mode::ReplayMode;
pub(crate) use crate::world::time_of_day;

// The refusal: the call that an error names, how long the client should wait, and in which language it gets the reason.
pub(crate) use crate::error::lang::weight;
pub(crate) use crate::error::wait::{advised, in_whole};
pub(crate) use crate::error::{Site, Subject};
