//! What happens to calls and operations, as events for observers, tracing, and the `metrics` facade.

mod event;
#[cfg(test)]
mod heard;
mod kind;
mod log;
#[cfg(feature = "metrics")]
mod metrics;
mod observer;
mod operation;
mod panics;

pub use self::event::Event;
pub use self::kind::EventKind;
pub(crate) use self::log::span;
pub use self::observer::Observer;
pub(crate) use self::observer::{NOBODY, Observers};
