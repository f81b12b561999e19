//! One operation of a token, a counter, a seen-set, a Bloom filter or order numbers, from its beginning to its one event.

use tokio::time::Instant;

use super::event::Event;
use super::kind::EventKind;
use super::observer::Observers;
use crate::error::{Error, Site};

/// An operation that is under way. Dropped before its end, it says that its caller dropped it.
pub(crate) struct Operation<'a> {
    observers: &'a Observers,
    site: &'a Site,
    began: Option<Instant>,
    ended: bool,
}

impl Observers {
    /// Begins an operation.
    pub(crate) fn begin<'a>(&'a self, site: &'a Site) -> Operation<'a> {
        Operation {
            observers: self,
            site,
            began: self.clock(),
            ended: false,
        }
    }

    /// Tells of an operation that was refused before it began.
    pub(crate) fn refuse(&self, error: &Error) {
        self.tell_since(self.clock(), Event::of_operation(error));
    }
}

impl Operation<'_> {
    /// Ends it as this `kind` if it went well, and else by its error.
    pub(crate) fn ended<T>(self, outcome: &Result<T, Error>, kind: EventKind) {
        match outcome {
            Ok(_) => self.ends(kind),
            Err(error) => self.fails(error),
        }
    }

    pub(crate) fn ends(mut self, kind: EventKind) {
        self.tell(Event::new(self.site, kind));
    }

    pub(crate) fn fails(mut self, error: &Error) {
        self.tell(Event::of_operation(error));
    }

    fn tell(&mut self, event: Event<'_>) {
        self.ended = true;
        self.observers.tell_since(self.began, event);
    }
}

impl Drop for Operation<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.tell(Event::new(self.site, EventKind::OperationCancelled));
        }
    }
}
