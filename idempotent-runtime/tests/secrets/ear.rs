//! All that is said to tracing, on every level.

use std::fmt::{Debug, Write as _};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::{Event, Metadata, Subscriber, span};

#[derive(Debug, Clone, Default)]
pub(crate) struct Ear(Arc<Mutex<Text>>);

#[derive(Debug, Default)]
struct Text(String);

static HEARD: AtomicUsize = AtomicUsize::new(0);

impl Ear {
    /// Listens from now on, on every thread.
    pub(crate) fn of_the_process() -> Self {
        let ear = Self::default();
        tracing::subscriber::set_global_default(ear.clone()).unwrap();
        ear
    }

    /// What was said since the last time.
    pub(crate) fn take(&self) -> String {
        std::mem::take(&mut self.0.lock().unwrap().0)
    }

    /// How many events and spans were heard.
    pub(crate) fn heard() -> usize {
        HEARD.load(Ordering::Relaxed)
    }

    fn note(&self, metadata: Option<&Metadata<'_>>, record: impl FnOnce(&mut dyn Visit)) {
        HEARD.fetch_add(1, Ordering::Relaxed);
        let mut text = self.0.lock().unwrap();
        record(&mut *text);
        writeln!(text.0, "{:?}", metadata.map(Metadata::name)).unwrap();
    }
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, "{field}={value:?} ").unwrap();
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        write!(self.0, "{field}={value} ").unwrap();
    }
}

impl Subscriber for Ear {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &span::Attributes<'_>) -> span::Id {
        self.note(Some(span.metadata()), |text| span.record(text));
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, values: &span::Record<'_>) {
        self.note(None, |text| values.record(text));
    }

    fn event(&self, event: &Event<'_>) {
        self.note(Some(event.metadata()), |text| event.record(text));
    }

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}
