//! The layer as a middleware of actix-web, whose requests, responses and futures are not `Send`, and which has types of `http` 0.2.
//!
//! A request becomes a head of `http` 1 for the guard, and the guard knows neither actix nor `tower`. What cannot be in such a
//! head waits in a [`Local`](local::Local): the request of actix until the handler runs, and its response until the guard is done.

mod body;
mod continuing;
mod convert;
mod local;
mod service;

pub use self::body::GuardedBody;
pub use self::continuing::ActixContinueService;
pub use self::service::{ActixFuture, ActixService};
