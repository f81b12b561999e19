//! Captures what is logged.

use std::fmt::{self, Write as _};
use std::sync::{Arc, LazyLock, Mutex};

use tracing::field::{Field, Visit};
use tracing::subscriber::{DefaultGuard, NoSubscriber, set_default};
use tracing::{Dispatch, Event, Level, Metadata, Subscriber, span};

/// Captures what this thread logs while the capture lives.
pub struct LogCapture {
    lines: Lines,
    _default: DefaultGuard,
}

type Lines = Arc<Mutex<Vec<Line>>>;

/// An event, a new span, or the new fields of a span.
struct Line {
    /// `None`: a span.
    level: Option<Level>,
    target: &'static str,
    message: String,
    /// The target or the name of the span, and all fields.
    text: String,
}

impl LogCapture {
    pub fn start() -> Self {
        // With one subscriber in the process, tracing asks only the thread that first reaches a call site, and caches the
        // answer: a test without a capture would silence the others.
        static SECOND: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::new()));
        LazyLock::force(&SECOND);

        let lines = Lines::default();
        Self {
            _default: set_default(Capturing(Arc::clone(&lines))),
            lines,
        }
    }

    /// The whole texts of the events of a level, or of the spans.
    pub fn at(&self, level: &str) -> Vec<String> {
        let is_at = |line: &Line| line.level.map_or("span", |level| level.as_str()) == level;
        self.select(is_at, |line| line.text.clone())
    }

    /// The messages of the errors.
    pub fn errors(&self) -> Vec<String> {
        self.messages(Level::ERROR)
    }

    /// The messages of the warnings.
    pub fn warnings(&self) -> Vec<String> {
        self.messages(Level::WARN)
    }

    /// The level and the message of each warning and error that users see.
    pub fn events(&self) -> Vec<String> {
        let is_seen = |line: &Line| {
            line.target == "idempotence" && line.level.is_some_and(|level| level <= Level::WARN)
        };
        self.select(is_seen, |line| {
            let level = line.level.map_or("", |level| level.as_str());
            format!("{level} {}", line.message)
        })
    }

    fn messages(&self, level: Level) -> Vec<String> {
        self.select(
            |line| line.level == Some(level),
            |line| line.message.clone(),
        )
    }

    fn select(
        &self,
        is_selected: impl Fn(&Line) -> bool,
        text: impl Fn(&Line) -> String,
    ) -> Vec<String> {
        let lines = self.lines.lock().unwrap();
        lines
            .iter()
            .filter(|line| is_selected(line))
            .map(text)
            .collect()
    }
}

struct Capturing(Lines);

impl Capturing {
    fn push(&self, level: Option<Level>, target: &'static str, fields: Fields) {
        let Fields { message, text } = fields;
        let line = Line {
            level,
            target,
            message,
            text,
        };
        self.0.lock().unwrap().push(line);
    }
}

impl Subscriber for Capturing {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn event(&self, event: &Event<'_>) {
        let metadata = event.metadata();
        let mut fields = Fields::after(format!("{}:", metadata.target()));
        event.record(&mut fields);
        self.push(Some(*metadata.level()), metadata.target(), fields);
    }

    fn new_span(&self, attributes: &span::Attributes<'_>) -> span::Id {
        let metadata = attributes.metadata();
        let mut fields = Fields::after(metadata.name().to_owned());
        attributes.record(&mut fields);
        self.push(None, metadata.target(), fields);
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, values: &span::Record<'_>) {
        let mut fields = Fields::after(String::new());
        values.record(&mut fields);
        self.push(None, "", fields);
    }

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

struct Fields {
    message: String,
    text: String,
}

impl Fields {
    fn after(text: String) -> Self {
        let message = String::new();
        Self { message, text }
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.message = format!("{value:?}");
        }
        write!(self.text, " {field}={value:?}").unwrap();
    }
}
