//! What happens to calls and operations, as events for observers, tracing, and the `metrics` facade.

mod event;
mod kind;
mod log;
#[cfg(feature = "metrics")]
mod metrics;
mod observer;
mod operation;
mod panics;
#[cfg(feature = "testkit")]
mod recording;
mod throttle;

pub use self::event::Event;
pub use self::kind::EventKind;
pub(crate) use self::log::span;
pub use self::observer::Observer;
pub(crate) use self::observer::{NO_OBSERVERS, Observers};
#[cfg(feature = "testkit")]
pub use self::recording::{Recorded, Recording};
