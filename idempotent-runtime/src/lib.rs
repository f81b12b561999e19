//! The runtime of the crate [`idempotence`](https://docs.rs/idempotence). Depend on that crate instead.

#[cfg(feature = "http")]
pub mod integrations;
pub mod port;
#[cfg(feature = "sql")]
pub mod sql;
pub mod store;

mod batch;
mod call;
mod error;
mod handle;
mod key;
mod mechanisms;
mod mutation;
mod observe;
mod operate;
mod policy;
mod protocol;
mod record;
mod result;
mod settings;
#[cfg(test)]
mod simulation;
mod sync;
mod world;

#[doc(hidden)]
pub mod private;

#[cfg(test)]
use idempotence_test_cases as cases;

#[cfg(feature = "shuttle")]
pub use batch::schedules as batch_schedules;

pub use call::builder::GuardedCall;
pub use call::run_each::RunEach;
pub use error::advice::ClientAction;
pub use error::lang::{Lang, Translation};
pub use error::{Duplicate, DuplicateState, Error, Failure, Limited, SetupError};
pub use handle::Idempotency;
pub use handle::builder::Builder;
pub use handle::drain::DrainError;
pub use handle::endpoints::endpoints;
pub use key::fingerprint;
pub use key::fingerprint::{Digest, KeyPart};
pub use key::request_id::{InvalidRequestId, RequestId};
pub use mechanisms::bloom::Bloom;
pub use mechanisms::bloom::builder::BloomBuilder;
pub use mechanisms::counter::builder::CounterBuilder;
pub use mechanisms::counter::{Attempt, Counter};
#[cfg(feature = "order-numbers")]
pub use mechanisms::numbers::OrderNumbers;
#[cfg(feature = "order-numbers")]
pub use mechanisms::numbers::builder::OrderNumbersBuilder;
#[cfg(feature = "order-numbers")]
pub use mechanisms::numbers::number::OrderNumber;
pub use mechanisms::placed::Placed;
pub use mechanisms::seen::builder::SeenSetBuilder;
pub use mechanisms::seen::{Added, FirstTime, SeenSet};
pub use mechanisms::tokens::Tokens;
pub use observe::{Event, EventKind, Observer};
pub use operate::doctor::Diagnosis;
pub use operate::listing::{ListedCall, Listing};
pub use operate::peek::Peek;
pub use policy::{OnCancel, OnLeaseLost, OnStoreError, Policy, Release, Renew, Settle};
pub use protocol::body_context::{AnyIntent, Fenced, IdempotencyContext, OneIntent};
pub use protocol::token::Token;
pub use protocol::token::redemption::Redeemed;
#[cfg(feature = "seal")]
pub use record::seal::{SealKey, SealKeys};
pub use result::codec::Codec;
pub use result::once::Once;
pub use result::outcome::Outcome;
pub use result::replay::Replay;
pub use settings::Settings;
pub use settings::endpoint_info::EndpointInfo;
pub use settings::list::Endpoints;
pub use settings::setting::{Origin, Setting};
pub use store::memory::MemoryStore;
pub use store::{BloomStats, Durability, Hint, Mechanism, Store, StoreError, StoreErrorKind};
