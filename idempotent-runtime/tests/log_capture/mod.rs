//! Captures the log of the runtime, for several test programs. Each program uses a part of this file.
#![allow(dead_code)]

use std::fmt;
use std::sync::{Arc, LazyLock, Mutex};

use tracing::field::{Field, Visit};
use tracing::subscriber::{DefaultGuard, NoSubscriber, set_default};
use tracing::{Dispatch, Event, Level, Metadata, Subscriber, span};

/// Captures the warnings and errors that this thread logs while the capture lives.
pub(crate) struct LogCapture {
    lines: Lines,
    _default: DefaultGuard,
}

/// The level, the target and the text of each line.
type Lines = Arc<Mutex<Vec<(Level, String, String)>>>;

impl LogCapture {
    pub(crate) fn start() -> Self {
        // If the process has only one subscriber, tracing caches its interests for all threads.
        static SECOND: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::new()));
        LazyLock::force(&SECOND);

        let lines = Lines::default();
        Self {
            _default: set_default(Capturing(Arc::clone(&lines))),
            lines,
        }
    }

    /// The texts of the errors.
    pub(crate) fn errors(&self) -> Vec<String> {
        let lines = self.lines.lock().unwrap();
        let errors = lines.iter().filter(|(level, ..)| *level == Level::ERROR);
        errors.map(|(_, _, text)| text.clone()).collect()
    }

    /// The texts of the warnings.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let lines = self.lines.lock().unwrap();
        let warnings = lines.iter().filter(|(level, ..)| *level == Level::WARN);
        warnings.map(|(_, _, text)| text.clone()).collect()
    }

    /// The level and the text of each event that users see.
    pub(crate) fn events(&self) -> Vec<String> {
        let lines = self.lines.lock().unwrap();
        let events = lines
            .iter()
            .filter(|(_, target, _)| target == "idempotence");
        events
            .map(|(level, _, text)| format!("{level} {text}"))
            .collect()
    }
}

struct Capturing(Lines);

impl Subscriber for Capturing {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn event(&self, event: &Event<'_>) {
        let mut message = Message::default();
        event.record(&mut message);
        let metadata = event.metadata();
        let line = (*metadata.level(), metadata.target().to_owned(), message.0);
        self.0.lock().unwrap().push(line);
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

#[derive(Default)]
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}
