//! Records the whole log of `tracing` and `log`, on every level.

use std::fmt::{Debug, Write as _};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use tracing::field::{Field, Visit};
use tracing::{Event, Metadata, Subscriber, span};

#[derive(Debug, Default)]
pub(crate) struct Recorder(Mutex<Text>);

/// Access to the recorded text, for one test at a time.
pub(crate) struct Recording {
    recorder: &'static Recorder,
    _alone: MutexGuard<'static, ()>,
}

#[derive(Debug, Default)]
struct Text(String);

static COUNT: AtomicUsize = AtomicUsize::new(0);

static ALONE: Mutex<()> = Mutex::new(());

impl Recording {
    /// Records from now on, on every thread.
    pub(crate) fn of_the_process() -> Self {
        static RECORDER: OnceLock<&'static Recorder> = OnceLock::new();

        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let recorder = *RECORDER.get_or_init(|| {
            let recorder: &'static Recorder = Box::leak(Box::default());
            tracing::subscriber::set_global_default(recorder).unwrap();
            // Clients may log to `log` directly, and `tracing` may forward its events to `log`.
            log::set_logger(recorder).unwrap();
            log::set_max_level(log::LevelFilter::Trace);
            recorder
        });
        recorder.0.lock().unwrap().0.clear();
        Self {
            recorder,
            _alone: alone,
        }
    }

    /// Returns and clears the recorded text.
    pub(crate) fn take(&self) -> String {
        std::mem::take(&mut self.recorder.0.lock().unwrap().0)
    }
}

impl Recorder {
    /// The number of recorded events and spans.
    pub(crate) fn count() -> usize {
        COUNT.load(Ordering::Relaxed)
    }

    fn note(&self, metadata: Option<&Metadata<'_>>, record: impl FnOnce(&mut dyn Visit)) {
        COUNT.fetch_add(1, Ordering::Relaxed);
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

impl Subscriber for &'static Recorder {
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

impl log::Log for Recorder {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        COUNT.fetch_add(1, Ordering::Relaxed);
        let mut text = self.0.lock().unwrap();
        writeln!(text.0, "{} {}", record.target(), record.args()).unwrap();
    }

    fn flush(&self) {}
}
