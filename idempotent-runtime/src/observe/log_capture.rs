//! Captures what is logged, for tests.

use std::fmt::{self, Write as _};
use std::sync::{Arc, LazyLock, Mutex};

use tracing::field::{Field, Visit};
use tracing::subscriber::{DefaultGuard, NoSubscriber, set_default};
use tracing::{Dispatch, Metadata, Subscriber, span};

/// Captures what this thread logs while the capture lives.
pub(super) struct LogCapture {
    lines: Lines,
    _default: DefaultGuard,
}

/// A level, or `span`, and the text.
type Lines = Arc<Mutex<Vec<(String, String)>>>;

impl LogCapture {
    pub(super) fn start() -> Self {
        // If the process has only one subscriber, tracing asks only the thread that first reaches a call site, and caches the
        // answer: a test without a capture would silence the other tests.
        static SECOND: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::new()));
        LazyLock::force(&SECOND);

        let lines = Lines::default();
        Self {
            _default: set_default(Capturing(Arc::clone(&lines))),
            lines,
        }
    }

    pub(super) fn at(&self, level: &str) -> Vec<String> {
        let lines = self.lines.lock().unwrap();
        lines
            .iter()
            .filter(|(at, _)| at == level)
            .map(|(_, text)| text.clone())
            .collect()
    }
}

struct Capturing(Lines);

impl Capturing {
    fn push(&self, at: &str, text: Text) {
        self.0.lock().unwrap().push((at.to_owned(), text.0));
    }
}

impl Subscriber for Capturing {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn event(&self, event: &tracing::Event<'_>) {
        let metadata = event.metadata();
        let mut text = Text(format!("{}:", metadata.target()));
        event.record(&mut text);
        self.push(metadata.level().as_str(), text);
    }

    fn new_span(&self, attributes: &span::Attributes<'_>) -> span::Id {
        let mut text = Text(attributes.metadata().name().to_owned());
        attributes.record(&mut text);
        self.push("span", text);
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, values: &span::Record<'_>) {
        let mut text = Text(String::new());
        values.record(&mut text);
        self.push("span", text);
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
