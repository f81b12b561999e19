//! Sums up repeated warnings and errors in the log, so that an outage does not write a line for each refused call.

use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, TryLockError};
use std::time::Duration;

use tokio::time::Instant;
use tracing::Level;

use super::event::Event;
use super::kind::EventKind;
use super::log;
use crate::error::{Error, Site};
use crate::key::endpoint::Endpoint;

/// The log of one handle.
pub(super) struct ThrottledLog {
    /// Whether repeated lines are summed up.
    sums_up: bool,
    /// Whether any window has counted a line. If false, events that are not summed up take no lock.
    has_counts: AtomicBool,
    windows: Mutex<Vec<Window>>,
}

/// The time after a line in which lines of the same endpoint, kind and error code are counted instead of written.
struct Window {
    endpoint: Endpoint,
    kind: EventKind,
    /// The code of the call's error, so that one cause does not hide another.
    code: Option<&'static str>,
    opened: Instant,
    count: u64,
}

impl ThrottledLog {
    pub(super) const fn new() -> Self {
        Self::start(true)
    }

    /// A log that writes every line, because no handle ends that could write the last counts.
    pub(super) const fn without_counts() -> Self {
        Self::start(false)
    }

    const fn start(sums_up: bool) -> Self {
        Self {
            sums_up,
            has_counts: AtomicBool::new(false),
            windows: Mutex::new(Vec::new()),
        }
    }

    /// Writes the line of an event, or counts it. Writes the counts of windows that have ended.
    pub(super) fn write(&self, event: &Event<'_>) {
        if !self.sums_up || !is_summed(event) {
            if self.has_counts.load(Ordering::Relaxed) {
                self.flush_ended();
            }
            log::write(event);
            return;
        }
        let now = Instant::now();
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = self.take_ended(&mut windows, now);
        let endpoint = &event.site.endpoint;
        let (kind, code) = (event.kind(), code_of(event));
        let is_same = |window: &&mut Window| {
            window.kind == kind && window.code == code && window.endpoint == *endpoint
        };
        let open = windows.iter_mut().find(is_same);
        let is_first = open.is_none();
        if let Some(window) = open {
            window.count += 1;
            self.has_counts.store(true, Ordering::Relaxed);
        } else if windows.len() < MOST_WINDOWS {
            windows.push(Window {
                endpoint: endpoint.clone(),
                kind,
                code,
                opened: now,
                count: 0,
            });
        }
        drop(windows);
        write_counts(&ended, now);
        if is_first {
            log::write(event);
        }
    }

    /// Writes all counts, also those of windows that have not ended.
    pub(super) fn flush(&self) {
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        let all = mem::take(&mut *windows);
        self.has_counts.store(false, Ordering::Relaxed);
        drop(windows);
        if !all.is_empty() {
            write_counts(&all, Instant::now());
        }
    }

    fn flush_ended(&self) {
        let mut windows = match self.windows.try_lock() {
            Ok(windows) => windows,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // Another event is about to write the counts.
            Err(TryLockError::WouldBlock) => return,
        };
        let now = Instant::now();
        let ended = self.take_ended(&mut windows, now);
        drop(windows);
        write_counts(&ended, now);
    }

    fn take_ended(&self, windows: &mut Vec<Window>, now: Instant) -> Vec<Window> {
        let has_ended = |window: &mut Window| now.duration_since(window.opened) >= WINDOW;
        let ended: Vec<_> = windows.extract_if(.., has_ended).collect();
        if !ended.is_empty() {
            let has_counts = windows.iter().any(|window| window.count > 0);
            self.has_counts.store(has_counts, Ordering::Relaxed);
        }
        ended
    }
}

impl Drop for ThrottledLog {
    fn drop(&mut self) {
        self.flush();
    }
}

/// Writes a line for each window that has counted. The caller holds no lock, because a subscriber is foreign code.
fn write_counts(windows: &[Window], now: Instant) {
    for window in windows.iter().filter(|window| window.count > 0) {
        let site = Site::without_key(window.endpoint.clone());
        let code = window.code.map(|code| format!(" with `{code}`"));
        let why = format!(
            "{} more{} since the last such line, {:.1?} ago",
            window.count,
            code.unwrap_or_default(),
            now.duration_since(window.opened)
        );
        let event = Event::new(&site, window.kind).because(&why);
        log::write_repeated(&event, window.count);
    }
}

/// Whether repeated lines of this kind are summed up. The keys of lost leases and of missing or late records must be checked by hand,
/// so each of these lines is written.
fn is_summed(event: &Event<'_>) -> bool {
    match event.kind() {
        EventKind::Overrun
        | EventKind::Unconfirmed
        | EventKind::Unrecorded
        | EventKind::OutcomeUnknown => false,
        // A process that dies may leave many keys.
        EventKind::Stuck | EventKind::TookOver => true,
        _ => event.level() <= Level::WARN,
    }
}

fn code_of(event: &Event<'_>) -> Option<&'static str> {
    Some(event.error()?.downcast_ref::<Error>()?.code())
}

/// How long lines are counted after a line that was written.
const WINDOW: Duration = Duration::from_secs(5);

/// The largest number of open windows. Lines above this number are written one by one.
const MOST_WINDOWS: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::store::{StoreError, StoreErrorKind};
    use idempotence_test_support::log_capture::LogCapture;

    const SECOND: Duration = Duration::from_secs(1);

    fn unavailable(log: &ThrottledLog, times: usize) {
        let site = Site::example();
        for _ in 0..times {
            log.write(&Event::new(&site, EventKind::StoreError));
        }
    }

    fn counted(count: u64, time: &str) -> String {
        format!(
            "idempotence: message=the store cannot serve the call: {count} more since the last such line, {time} ago \
             endpoint=\"orders.pay\" outcome=\"store_error\" repeated={count}"
        )
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_is_one_line_at_once_and_one_count_per_window() {
        let capture = LogCapture::start();
        let log = ThrottledLog::new();
        unavailable(&log, 996);
        assert_eq!(capture.at("WARN").len(), 1);
        tokio::time::advance(5 * SECOND).await;
        unavailable(&log, 10);
        let lines = capture.at("WARN");
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[1], counted(995, "5.0s"));
        assert_eq!(lines[2], lines[0]);
        tokio::time::advance(6 * SECOND).await;
        unavailable(&log, 1);
        assert_eq!(capture.at("WARN")[3], counted(9, "6.0s"));
    }

    #[tokio::test(start_paused = true)]
    async fn any_later_event_of_the_handle_writes_the_last_count() {
        let capture = LogCapture::start();
        let log = ThrottledLog::new();
        let site = Site::example();
        unavailable(&log, 3);
        log.write(&Event::new(&site, EventKind::Executed));
        assert_eq!(capture.at("WARN").len(), 1);
        tokio::time::advance(60 * SECOND).await;
        log.write(&Event::new(&site, EventKind::Executed));
        assert_eq!(capture.at("WARN")[1..], [counted(2, "60.0s")]);
        log.write(&Event::new(&site, EventKind::Executed));
        assert_eq!(capture.at("WARN").len(), 2);
        assert_eq!(capture.at("DEBUG").len(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_of_the_handle_writes_the_last_count() {
        let capture = LogCapture::start();
        let log = ThrottledLog::new();
        unavailable(&log, 3);
        drop(log);
        assert_eq!(capture.at("WARN")[1..], [counted(2, "0.0ns")]);
    }

    #[test]
    fn a_log_without_counts_writes_every_line() {
        let capture = LogCapture::start();
        unavailable(&ThrottledLog::without_counts(), 3);
        let lines = capture.at("WARN");
        assert_eq!(lines.len(), 3);
        assert!(
            lines.iter().all(|line| !line.contains("repeated")),
            "{lines:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_is_not_counted_for_another_cause() {
        let capture = LogCapture::start();
        let log = ThrottledLog::new();
        let foreign = Error::foreign(Site::example(), "a list");
        let reason = StoreError::new(StoreErrorKind::Unknown, "a test");
        let outage = Error::store(Site::example(), reason);
        for error in [&foreign, &outage, &outage] {
            log.write(&Event::refused(error));
        }
        assert_eq!(capture.at("WARN").len(), 2);
        log.flush();
        let lines = capture.at("WARN");
        assert!(
            lines[2].contains("1 more with `store_unavailable` since"),
            "{lines:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn endpoints_and_kinds_are_counted_apart_and_lines_to_check_by_hand_never() {
        let capture = LogCapture::start();
        let log = ThrottledLog::new();
        let site = Site::example();
        let other = Site::without_key(Endpoint::named("orders.refund"));
        for _ in 0..2 {
            log.write(&Event::new(&site, EventKind::StoreError));
            log.write(&Event::new(&other, EventKind::StoreError));
            log.write(&Event::new(&site, EventKind::Unguarded));
            log.write(&Event::new(&site, EventKind::Overrun));
            log.write(&Event::new(&site, EventKind::Unconfirmed));
            log.write(&Event::new(&site, EventKind::Unrecorded));
            log.write(&Event::new(&site, EventKind::Mismatch));
            log.write(&Event::new(&site, EventKind::InProgress));
        }
        let lines = ["WARN", "ERROR", "INFO", "DEBUG"].map(|level| capture.at(level).len());
        assert_eq!(lines, [2 + 2, 1 + 2 * 2, 2, 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_endpoints_takes_bounded_memory_and_loses_no_line() {
        let capture = LogCapture::start();
        let log = ThrottledLog::new();
        for number in 0..2 * MOST_WINDOWS {
            let endpoint = Endpoint::try_new(format!("data.{number}")).unwrap();
            let site = Site::without_key(endpoint);
            log.write(&Event::new(&site, EventKind::StoreError));
        }
        assert_eq!(capture.at("WARN").len(), 2 * MOST_WINDOWS);
        assert_eq!(log.windows.lock().unwrap().len(), MOST_WINDOWS);
    }
}
