//! Events as metrics of the `metrics` facade.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{LazyLock, PoisonError, RwLock};

use metrics::{
    Label, Recorder, Unit, counter, describe_counter, describe_histogram, histogram, with_recorder,
};

use super::event::Event;
use super::kind::Class;
use super::panics::catch_panics;
use crate::key::endpoint::Endpoint;

const CALLS: &str = "idempotence_calls_total";
const CALL_DURATION: &str = "idempotence_call_duration_seconds";
const EVENTS: &str = "idempotence_events_total";
const WAIT_DURATION: &str = "idempotence_wait_duration_seconds";
const OPERATIONS: &str = "idempotence_operations_total";
const OPERATION_DURATION: &str = "idempotence_operation_duration_seconds";

const ENDPOINT: &str = "endpoint";
const OUTCOME: &str = "outcome";

#[cfg(test)]
pub(super) const NAMES: [&str; 6] = [
    CALLS,
    CALL_DURATION,
    EVENTS,
    WAIT_DURATION,
    OPERATIONS,
    OPERATION_DURATION,
];
#[cfg(test)]
pub(super) const LABELS: [&str; 2] = [ENDPOINT, OUTCOME];

/// Whether a recorder is installed, for the process or for this thread.
///
/// The facade has no such check. In place of a missing recorder it has a zero-sized static. A zero-sized recorder that is
/// installed for the process is a leaked box, so its address is its alignment. A zero-sized recorder that is installed only for
/// one thread counts as missing.
#[inline]
pub(super) fn is_recording() -> bool {
    with_recorder(|recorder| {
        let address = ptr::from_ref::<dyn Recorder>(recorder).addr();
        size_of_val(recorder) != 0 || address == align_of_val(recorder)
    })
}

/// Counts an event, and records its duration.
pub(super) fn record(event: &Event<'_>) {
    static PANICKED: AtomicBool = AtomicBool::new(false);

    catch_panics("the recorder of metrics", &PANICKED, || {
        describe();
        let labels = || {
            vec![
                Label::new(ENDPOINT, label(&event.site.endpoint)),
                Label::new(OUTCOME, event.kind().as_str()),
            ]
        };
        let (total, duration) = match event.kind().class() {
            Class::End => (CALLS, CALL_DURATION),
            Class::Note => (EVENTS, WAIT_DURATION),
            Class::Operation => (OPERATIONS, OPERATION_DURATION),
        };
        counter!(total, labels()).increment(1);
        if let Some(took) = event.took() {
            histogram!(duration, labels()).record(took);
        }
    });
}

/// The maximum number of names from data that become labels. A recorder never removes a label.
const MOST_NAMES: usize = 1000;
/// The label of all other names.
const OTHER: &str = "other";

/// The label of an endpoint: its name, if the name is a constant of the program or among the first names from data.
fn label(endpoint: &Endpoint) -> Cow<'static, str> {
    static NAMES: LazyLock<RwLock<HashSet<Box<str>>>> = LazyLock::new(RwLock::default);

    if let Some(name) = endpoint.of_the_program() {
        return name.into();
    }
    let name = endpoint.as_str();
    let names = NAMES.read().unwrap_or_else(PoisonError::into_inner);
    let (known, full) = (names.contains(name), names.len() >= MOST_NAMES);
    drop(names);
    if !known && !full {
        let mut names = NAMES.write().unwrap_or_else(PoisonError::into_inner);
        names.insert(name.into());
    }
    if known || !full {
        return name.to_owned().into();
    }
    OTHER.into()
}

/// Describes the metrics once to the recorder, which may have been installed after the first calls.
fn describe() {
    static KNOWN: AtomicUsize = AtomicUsize::new(0);

    let recorder = with_recorder(|recorder| ptr::from_ref::<dyn Recorder>(recorder).addr());
    if KNOWN.load(Ordering::Relaxed) == recorder {
        return;
    }
    KNOWN.store(recorder, Ordering::Relaxed);
    describe_counter!(CALLS, Unit::Count, "Calls that ended");
    describe_histogram!(CALL_DURATION, Unit::Seconds, "How long calls took");
    describe_counter!(EVENTS, Unit::Count, "What else happened to calls");
    describe_histogram!(WAIT_DURATION, Unit::Seconds, "How long duplicates waited");
    describe_counter!(
        OPERATIONS,
        Unit::Count,
        "What operations of tokens, counters, sets, filters and order numbers came to"
    );
    describe_histogram!(
        OPERATION_DURATION,
        Unit::Seconds,
        "How long these operations took"
    );
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use metrics::{
        Counter, Gauge, Histogram, Key, KeyName, Metadata, SharedString, with_local_recorder,
    };
    use metrics_util::debugging::{DebugValue, DebuggingRecorder};

    use super::*;
    use crate::error::Site;
    use crate::observe::kind::EventKind;

    /// The metrics that the recorder gets, as `name{label=value,…} unit value`, sorted.
    fn recorded(events: &[Event<'_>]) -> Vec<String> {
        // Leaked, so that no two recorders have the same address.
        let recorder = Box::leak(Box::new(DebuggingRecorder::new()));
        with_local_recorder(recorder, || events.iter().for_each(record));
        let mut metrics: Vec<_> = recorder
            .snapshotter()
            .snapshot()
            .into_vec()
            .into_iter()
            .map(|(key, unit, description, value)| {
                assert!(description.is_some(), "{key:?}");
                let (_, key) = key.into_parts();
                let labels: Vec<_> = key
                    .labels()
                    .map(|label| format!("{}={}", label.key(), label.value()))
                    .collect();
                let unit = unit.unwrap().as_str();
                let value = match value {
                    DebugValue::Counter(count) => count.to_string(),
                    other => format!("{other:?}"),
                };
                format!("{}{{{}}} {unit} {value}", key.name(), labels.join(","))
            })
            .collect();
        metrics.sort();
        metrics
    }

    #[test]
    fn calls_are_counted_and_timed_by_endpoint_and_outcome() {
        let site = Site::example();
        let executed = Event::new(&site, EventKind::Executed);
        let took = executed.lasted(Some(Duration::from_millis(250)));
        assert_eq!(
            recorded(&[executed, took, Event::new(&site, EventKind::Failed)]),
            [
                "idempotence_call_duration_seconds{endpoint=orders.pay,outcome=executed} seconds Histogram([0.25])",
                "idempotence_calls_total{endpoint=orders.pay,outcome=executed} count 2",
                "idempotence_calls_total{endpoint=orders.pay,outcome=failed} count 1",
            ]
        );
    }

    #[test]
    fn events_that_end_no_call_are_counted_separately() {
        let site = Site::example();
        let waited = Event::new(&site, EventKind::Waited).lasted(Some(Duration::from_secs(2)));
        assert_eq!(
            recorded(&[waited, Event::new(&site, EventKind::Overrun)]),
            [
                "idempotence_events_total{endpoint=orders.pay,outcome=overrun} count 1",
                "idempotence_events_total{endpoint=orders.pay,outcome=waited} count 1",
                "idempotence_wait_duration_seconds{endpoint=orders.pay,outcome=waited} seconds Histogram([2.0])",
            ]
        );
    }

    #[test]
    fn operations_are_counted_and_timed_separately_from_calls() {
        let site = Site::example();
        let took = Some(Duration::from_millis(500));
        let counted = Event::new(&site, EventKind::Counted).lasted(took);
        let refused = Event::new(&site, EventKind::LimitReached).lasted(took);
        assert_eq!(
            recorded(&[counted, refused, refused]),
            [
                "idempotence_operation_duration_seconds{endpoint=orders.pay,outcome=counted} seconds Histogram([0.5])",
                "idempotence_operation_duration_seconds{endpoint=orders.pay,outcome=limit_reached} seconds Histogram([0.5, 0.5])",
                "idempotence_operations_total{endpoint=orders.pay,outcome=counted} count 1",
                "idempotence_operations_total{endpoint=orders.pay,outcome=limit_reached} count 2",
            ]
        );
    }

    #[test]
    fn no_label_has_a_digit_of_a_key() {
        let site = Site::example();
        let digits = &site.fingerprint.unwrap().to_string()[..8];
        let events: Vec<_> = EventKind::ALL
            .iter()
            .map(|kind| Event::new(&site, *kind))
            .collect();
        let recorded = recorded(&events);
        assert_eq!(recorded.len(), events.len());
        assert!(recorded.iter().all(|metric| !metric.contains(digits)));
    }

    #[test]
    fn names_from_data_have_at_most_a_thousand_labels_and_other() {
        let sites = (0..MOST_NAMES + 500).map(|number| Site {
            endpoint: Endpoint::try_new(format!("data.{number}")).unwrap(),
            ..Site::example()
        });
        let mut sites: Vec<_> = sites.collect();
        sites.push(Site::example());
        let events: Vec<_> = sites
            .iter()
            .map(|site| Event::new(site, EventKind::Executed))
            .collect();
        let recorded = recorded(&events);
        assert!(recorded.len() <= MOST_NAMES + 2, "{}", recorded.len());
        for expected in [
            "{endpoint=other,",
            "{endpoint=orders.pay,",
            "{endpoint=data.0,",
        ] {
            assert!(
                recorded.iter().any(|metric| metric.contains(expected)),
                "{expected}"
            );
        }
    }

    #[test]
    fn is_recording_is_true_only_while_a_recorder_is_installed() {
        let recorder = DebuggingRecorder::new();
        assert!(!is_recording(), "no recorder is installed");
        with_local_recorder(&recorder, || assert!(is_recording()));
        assert!(!is_recording(), "the recorder was removed");
        // A zero-sized recorder in a leaked box, as the facade installs it for the process.
        let leaked: &dyn Recorder = Box::leak(Box::new(metrics::NoopRecorder));
        with_local_recorder(leaked, || assert!(is_recording()));
    }

    #[test]
    fn a_recorder_that_is_installed_late_gets_descriptions_too() {
        let site = Site::example();
        let event = Event::new(&site, EventKind::Executed);
        record(&event);
        assert_eq!(recorded(&[event]).len(), 1);
    }

    #[test]
    fn a_panic_in_the_recorder_is_caught() {
        struct Broken;

        impl Recorder for Broken {
            fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
            fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
            fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
            fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
                panic!("on purpose");
            }
            fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
                Gauge::noop()
            }
            fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
                Histogram::noop()
            }
        }

        let site = Site::example();
        let event = Event::new(&site, EventKind::Executed);
        with_local_recorder(&Broken, || {
            record(&event);
            record(&event);
        });
    }
}
