//! One operation of a token, a counter, a seen-set, a Bloom filter or order numbers. Each operation emits one event.

use tokio::time::Instant;

use super::event::Event;
use super::kind::EventKind;
use super::observer::Observers;
use crate::error::{Error, Site};

/// A running operation. Dropping it before its end emits `OperationCancelled`.
pub(crate) struct Operation<'a> {
    observers: &'a Observers,
    site: &'a Site,
    began: Option<Instant>,
    ended: bool,
}

impl Observers {
    /// Starts an operation.
    pub(crate) fn begin<'a>(&'a self, site: &'a Site) -> Operation<'a> {
        Operation {
            observers: self,
            site,
            began: self.start_time(),
            ended: false,
        }
    }

    /// Emits the event of an operation that was refused before it started.
    pub(crate) fn emit_refused(&self, error: &Error) {
        self.emit_since(self.start_time(), Event::of_operation(error));
    }
}

impl Operation<'_> {
    /// Emits `kind` after a success, else the event of the error.
    pub(crate) fn finish<T>(self, outcome: &Result<T, Error>, kind: EventKind) {
        match outcome {
            Ok(_) => self.succeed(kind),
            Err(error) => self.fail(error),
        }
    }

    pub(crate) fn succeed(mut self, kind: EventKind) {
        self.emit(Event::new(self.site, kind));
    }

    pub(crate) fn fail(mut self, error: &Error) {
        self.emit(Event::of_operation(error));
    }

    fn emit(&mut self, event: Event<'_>) {
        self.ended = true;
        self.observers.emit_since(self.began, event);
    }
}

impl Drop for Operation<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.emit(Event::new(self.site, EventKind::OperationCancelled));
        }
    }
}
