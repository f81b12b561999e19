//! What tracing is told, for tests.

use std::fmt::{self, Write as _};
use std::sync::{Arc, LazyLock, Mutex};

use tracing::field::{Field, Visit};
use tracing::subscriber::{DefaultGuard, NoSubscriber, set_default};
use tracing::{Dispatch, Metadata, Subscriber, span};

/// What is told on this thread while it lives.
pub(super) struct Heard {
    told: Told,
    _listening: DefaultGuard,
}

/// A level, or `span`, and the text.
type Told = Arc<Mutex<Vec<(String, String)>>>;

impl Heard {
    pub(super) fn from_now_on() -> Self {
        // With a single subscriber in the process, tracing asks only the thread that comes to a place
        // first, and does not ask again: a test without an ear would make the others deaf.
        static SECOND: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::new()));
        LazyLock::force(&SECOND);

        let told = Told::default();
        Self {
            _listening: set_default(Ear(Arc::clone(&told))),
            told,
        }
    }

    pub(super) fn at(&self, level: &str) -> Vec<String> {
        let told = self.told.lock().unwrap();
        told.iter()
            .filter(|(at, _)| at == level)
            .map(|(_, text)| text.clone())
            .collect()
    }
}

struct Ear(Told);

impl Ear {
    fn note(&self, at: &str, text: Text) {
        self.0.lock().unwrap().push((at.to_owned(), text.0));
    }
}

impl Subscriber for Ear {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn event(&self, event: &tracing::Event<'_>) {
        let metadata = event.metadata();
        let mut text = Text(format!("{}:", metadata.target()));
        event.record(&mut text);
        self.note(metadata.level().as_str(), text);
    }

    fn new_span(&self, attributes: &span::Attributes<'_>) -> span::Id {
        let mut text = Text(attributes.metadata().name().to_owned());
        attributes.record(&mut text);
        self.note("span", text);
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, values: &span::Record<'_>) {
        let mut text = Text(String::new());
        values.record(&mut text);
        self.note("span", text);
    }

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        write!(self.0, " {field}={value:?}").unwrap();
    }
}
