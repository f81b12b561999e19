//! What the runtime says aloud, for several test programs, each of which needs a part of it.
#![allow(dead_code)]

use std::fmt;
use std::sync::{Arc, LazyLock, Mutex};

use tracing::field::{Field, Visit};
use tracing::subscriber::{DefaultGuard, NoSubscriber, set_default};
use tracing::{Dispatch, Event, Level, Metadata, Subscriber, span};

/// The warnings and errors that were told on this thread while it lives.
pub(crate) struct Heard {
    told: Told,
    _listening: DefaultGuard,
}

/// The level, the target and the text of each.
type Told = Arc<Mutex<Vec<(Level, String, String)>>>;

impl Heard {
    pub(crate) fn from_now_on() -> Self {
        // With one subscriber in the process, what it asks to hear is remembered for all threads.
        static SECOND: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::new()));
        LazyLock::force(&SECOND);

        let told = Told::default();
        Self {
            _listening: set_default(Ear(Arc::clone(&told))),
            told,
        }
    }

    /// The texts of the errors.
    pub(crate) fn errors(&self) -> Vec<String> {
        let told = self.told.lock().unwrap();
        let errors = told.iter().filter(|(level, ..)| *level == Level::ERROR);
        errors.map(|(_, _, text)| text.clone()).collect()
    }

    /// The level and the text of each event that users see.
    pub(crate) fn events(&self) -> Vec<String> {
        let told = self.told.lock().unwrap();
        let events = told.iter().filter(|(_, target, _)| target == "idempotence");
        events
            .map(|(level, _, text)| format!("{level} {text}"))
            .collect()
    }
}

struct Ear(Told);

impl Subscriber for Ear {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn event(&self, event: &Event<'_>) {
        let mut message = Message::default();
        event.record(&mut message);
        let metadata = event.metadata();
        let told = (*metadata.level(), metadata.target().to_owned(), message.0);
        self.0.lock().unwrap().push(told);
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
