//! One operation of a token, a counter, a seen-set, a Bloom filter or order numbers. Each operation emits one event.

use tokio::time::Instant;

use super::event::Event;
use super::kind::EventKind;
use super::observer::Observers;
use crate::error::{Error, Site};

/// A running operation. Dropping it before its end emits `OperationCancelled`.
pub(crate) struct RunningOperation<'a> {
    observers: &'a Observers,
    site: &'a Site,
    began: Option<Instant>,
    in_call: bool,
    ended: bool,
}

impl Observers {
    /// Starts an operation.
    pub(crate) fn begin<'a>(&'a self, site: &'a Site) -> RunningOperation<'a> {
        RunningOperation {
            observers: self,
            site,
            began: self.start_time(),
            in_call: false,
            ended: false,
        }
    }

    /// Emits the event of an operation that was refused before it started.
    pub(crate) fn emit_refused(&self, error: &Error) {
        self.emit_since(self.start_time(), Event::of_operation(error));
    }

    /// Does the same as [`emit_refused`](Self::emit_refused), for an operation of a call.
    pub(crate) fn emit_refused_in_call(&self, error: &Error) {
        let event = Event::of_operation(error).in_call(true);
        self.emit_since(self.start_time(), event);
    }
}

impl RunningOperation<'_> {
    /// The same operation. If `in_call`, it is a part of a call, whose end is logged.
    pub(crate) fn in_call(mut self, in_call: bool) -> Self {
        self.in_call = in_call;
        self
    }

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
        let event = event.in_call(self.in_call);
        self.observers.emit_since(self.began, event);
    }
}

impl Drop for RunningOperation<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.emit(Event::new(self.site, EventKind::OperationCancelled));
        }
    }
}
