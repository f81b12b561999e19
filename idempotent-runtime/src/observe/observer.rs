//! The observers of a handle, and the emission of events to the log, the metrics and the observers.

use std::fmt;
#[cfg(feature = "testkit")]
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tokio::time::Instant;

use super::event::Event;
use super::log;
#[cfg(feature = "metrics")]
use super::metrics;
use super::panics::catch_panics;
#[cfg(feature = "testkit")]
use super::recording::{Recording, Recordings};
use super::throttle::ThrottledLog;

/// Gets the events of the calls and operations of a handle: [`Builder::observer`](crate::Builder::observer).
///
/// `observe` runs inside the call, or inside the renewal or settling that continues without the caller: it must be quick and
/// must not block. A panic in it is caught, changes no call, and is logged once as an error. The observer also gets later
/// events.
///
/// ```
/// # use idempotent_runtime as idempotence;
/// use idempotence::{Event, EventKind, Idempotency, MemoryStore};
///
/// let idempotency = Idempotency::builder(MemoryStore::new())
///     .observer(|event: &Event<'_>| {
///         if event.kind() == EventKind::Unguarded {
///             eprintln!("page someone: {event}");
///         }
///     })
///     .build()?;
/// # Ok::<(), idempotence::SetupError>(())
/// ```
///
/// # Tracing
///
/// Every [`Event`] is also an event of tracing, with the target `idempotence`, the level that [`EventKind`](crate::EventKind)
/// names, and the fields `endpoint`, `key` (8 hexadecimal digits), `outcome`, `took_ms` and `error`.
///
/// Repeated lines of the levels WARN and ERROR, except `overrun`, `unconfirmed`, `unrecorded` and `outcome_unknown`, and of `stuck` and `took_over` are
/// summed up, so that an outage does not write a line for each call: the first line of an endpoint, a kind and an error code is written at once, and for 5 seconds
/// equal lines are only counted. The count is the field `repeated` of one line without `key` and `error`. The handle writes
/// that line with its next event after the 5 seconds, of any kind and level; with
/// [`Idempotency::drain`](crate::Idempotency::drain); and when the handle is dropped. A process that ends without any of these
/// loses the last count. An installed handle is never dropped, so call `drain` before the program ends. Each handle counts
/// separately, for at most 256 endpoints, kinds and codes at once. Lines above this number are all written, and
/// so are the lines of calls without a handle. Observers and metrics get every event.
///
/// Each call is a span `idempotent` of the level DEBUG, with `endpoint`, `key` and, at the end of the call, `outcome`.
///
/// # Metrics
///
/// With the feature `metrics`, the recorder of the crate `metrics` gets the following. While no recorder is installed, the
/// feature costs nothing: no clock is read and no label is made.
///
/// | name | type, unit | labels | meaning |
/// | --- | --- | --- | --- |
/// | `idempotence_calls_total` | counter | `endpoint`, `outcome` | calls that ended |
/// | `idempotence_call_duration_seconds` | histogram, seconds | `endpoint`, `outcome` | how long they took, claim and settling included |
/// | `idempotence_events_total` | counter | `endpoint`, `outcome` | what else happened to calls |
/// | `idempotence_wait_duration_seconds` | histogram, seconds | `endpoint`, `outcome` | how long duplicates waited |
/// | `idempotence_operations_total` | counter | `endpoint`, `outcome` | operations of tokens, counters, seen-sets, Bloom filters and order numbers |
/// | `idempotence_operation_duration_seconds` | histogram, seconds | `endpoint`, `outcome` | how long these operations took |
///
/// A panic in the recorder is caught like a panic in an observer. No key is ever a label.
///
/// * `endpoint` is a name. Of names that are data (`idempotency.call(name)`), the first thousand in a process are labels. All others share
///   the label `other`.
/// * `outcome` is the word of an [`EventKind`](crate::EventKind): of an end of a call ([`is_end`](crate::EventKind::is_end)) in the metrics of calls, of an operation
///   ([`is_operation`](crate::EventKind::is_operation)) in the metrics of operations, and of any other event of a call in the rest. A call with the option `token` also redeems its
///   token in an operation: if the operation is `token_rejected`, the call ends as `token_refused`. Only the end is logged above DEBUG.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an observer",
    label = "not an observer",
    note = "a closure names the type of its argument: `|event: &Event<'_>| …`"
)]
pub trait Observer: Send + Sync + 'static {
    /// Gets one event.
    fn observe(&self, event: &Event<'_>);
}

impl<F: Fn(&Event<'_>) + Send + Sync + 'static> Observer for F {
    fn observe(&self, event: &Event<'_>) {
        self(event);
    }
}

/// The observers of a handle, in the order in which they run.
pub(crate) struct Observers {
    list: Vec<Listening>,
    log: ThrottledLog,
    #[cfg(feature = "testkit")]
    recordings: Recordings,
}

type Listening = Box<ObserverEntry<dyn Observer>>;

/// The observers of a call without a handle.
pub(crate) static NO_OBSERVERS: Observers = Observers {
    list: Vec::new(),
    log: ThrottledLog::without_counts(),
    #[cfg(feature = "testkit")]
    recordings: Recordings::new(),
};

struct ObserverEntry<O: ?Sized> {
    panicked: AtomicBool,
    observer: O,
}

impl Observers {
    pub(crate) const fn new() -> Self {
        Self {
            list: Vec::new(),
            log: ThrottledLog::new(),
            #[cfg(feature = "testkit")]
            recordings: Recordings::new(),
        }
    }

    pub(crate) fn add(&mut self, observer: impl Observer) {
        self.list.push(Box::new(ObserverEntry {
            panicked: AtomicBool::new(false),
            observer,
        }));
    }

    /// Records the events of calls until the recording is dropped.
    #[cfg(feature = "testkit")]
    pub(crate) fn record(&self) -> Arc<Recording> {
        self.recordings.start()
    }

    /// Sends an event to tracing, the metrics and the observers. The caller must not hold a lock: observers run here and may
    /// call this handle.
    #[inline]
    pub(crate) fn emit(&self, event: &Event<'_>) {
        self.log.write(event);
        #[cfg(feature = "metrics")]
        if metrics::is_recording() {
            metrics::record(event);
        }
        #[cfg(feature = "testkit")]
        self.recordings.note(event);
        if !self.list.is_empty() {
            self.notify_observers(event);
        }
    }

    /// Whether a duration would reach the log, the metrics or an observer.
    #[inline]
    pub(crate) fn wants_durations(&self) -> bool {
        #[cfg(feature = "metrics")]
        if metrics::is_recording() {
            return true;
        }
        !self.list.is_empty() || log::is_enabled()
    }

    /// Writes the counts of repeated lines that are not written yet.
    pub(crate) fn flush_log(&self) {
        self.log.flush();
    }

    /// The start time of an event with a duration. `None` if no log, recorder or observer uses durations.
    pub(crate) fn start_time(&self) -> Option<Instant> {
        self.wants_durations().then(Instant::now)
    }

    /// Emits an event with the time since `began`.
    pub(crate) fn emit_since(&self, began: Option<Instant>, event: Event<'_>) {
        let took = began.map(|began| began.elapsed());
        self.emit(&event.lasted(took));
    }

    fn notify_observers(&self, event: &Event<'_>) {
        for ObserverEntry { panicked, observer } in self.list.iter().map(|listener| &**listener) {
            catch_panics("an observer", panicked, || observer.observe(event));
        }
    }
}

impl fmt::Debug for Observers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} observers", self.list.len())
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::error::Site;
    use crate::observe::kind::EventKind;
    use idempotence_test_support::log_capture::LogCapture;

    fn emit_one(observers: &Observers) {
        let site = Site::example();
        observers.emit(&Event::new(&site, EventKind::Executed));
    }

    fn noting(name: &'static str, notes: &Arc<Mutex<Vec<String>>>) -> impl Observer + use<> {
        let notes = Arc::clone(notes);
        move |event: &Event<'_>| {
            let note = format!("{name}: {} of {}", event.kind(), event.endpoint());
            notes.lock().unwrap().push(note);
        }
    }

    #[test]
    fn observers_run_in_order() {
        let notes = Arc::default();
        let mut observers = Observers::new();
        observers.add(noting("first", &notes));
        observers.add(noting("second", &notes));
        emit_one(&observers);
        let expected = [
            "first: executed of orders.pay",
            "second: executed of orders.pay",
        ];
        assert_eq!(*notes.lock().unwrap(), expected);
    }

    #[test]
    fn an_observer_that_panics_gets_later_events_and_stops_no_other() {
        let notes = Arc::default();
        let mut observers = Observers::new();
        let before = noting("before", &notes);
        observers.add(move |event: &Event<'_>| {
            before.observe(event);
            panic!("on purpose");
        });
        observers.add(noting("after", &notes));
        let log = LogCapture::start();
        emit_one(&observers);
        emit_one(&observers);
        let notes: Vec<_> = notes
            .lock()
            .unwrap()
            .iter()
            .map(|note| note[..5].to_owned())
            .collect();
        assert_eq!(notes, ["befor", "after", "befor", "after"]);
        let errors = log.at("ERROR");
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert!(errors[0].contains("an observer panicked"), "{errors:?}");
    }

    #[test]
    fn an_observer_may_panic_while_the_call_unwinds() {
        struct Call(Observers);
        impl Drop for Call {
            fn drop(&mut self) {
                emit_one(&self.0);
            }
        }

        let mut observers = Observers::new();
        observers.add(|_: &Event<'_>| panic!("of the observer"));
        let body = AssertUnwindSafe(|| {
            let _call = Call(observers);
            panic!("of the body");
        });
        let panic = catch_unwind(body).unwrap_err();
        assert_eq!(*panic.downcast::<&str>().unwrap(), "of the body");
    }

    #[test]
    fn an_observer_may_emit_events_to_other_observers() {
        let notes = Arc::default();
        let mut others = Observers::new();
        others.add(noting("other", &notes));
        let mut observers = Observers::new();
        observers.add(noting("first", &notes));
        observers.add(move |_: &Event<'_>| emit_one(&others));
        emit_one(&observers);
        assert_eq!(notes.lock().unwrap().len(), 2);
    }

    #[test]
    fn the_clock_is_read_only_if_durations_are_wanted() {
        assert!(!NO_OBSERVERS.wants_durations());
        let mut observers = Observers::new();
        observers.add(|_: &Event<'_>| ());
        assert!(observers.wants_durations());
        let _log = LogCapture::start();
        assert!(NO_OBSERVERS.wants_durations());
    }

    #[test]
    #[cfg(feature = "metrics")]
    fn the_docs_name_every_metric_and_label() {
        use crate::observe::metrics::{LABELS, NAMES};

        let (_, docs) = include_str!("observer.rs").split_once("# Metrics").unwrap();
        let (docs, _) = docs.split_once("pub trait Observer").unwrap();
        let page = include_str!("../../../docs/guide/observability.md");
        for name in NAMES.into_iter().chain(LABELS) {
            let name = format!("`{name}`");
            assert!(docs.contains(&name), "{name} in the docs");
            assert!(
                page.contains(&name),
                "{name} in docs/guide/observability.md"
            );
        }
    }

    #[test]
    #[cfg(feature = "metrics")]
    fn events_reach_a_recorder_and_without_one_no_clock_is_read() {
        use ::metrics::with_local_recorder;
        use metrics_util::debugging::DebuggingRecorder;

        let (observers, site) = (Observers::new(), Site::example());
        assert!(observers.start_time().is_none());
        let recorder = DebuggingRecorder::new();
        with_local_recorder(&recorder, || {
            let began = observers.start_time();
            assert!(began.is_some());
            observers.emit_since(began, Event::new(&site, EventKind::Executed));
        });
        observers.emit(&Event::new(&site, EventKind::Executed));
        assert_eq!(recorder.snapshotter().snapshot().into_vec().len(), 2);
    }
}
