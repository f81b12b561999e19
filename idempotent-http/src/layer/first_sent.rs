//! The time of the first try of a request, and the window in which its repetitions are recognized.

use std::time::{Duration, SystemTime};

use ::http::{HeaderMap, HeaderName, HeaderValue};
use httpdate::HttpDate;
use idempotent_runtime::Lang;
use idempotent_runtime::port::http::{Repeated, single_value, time_of_day};

use crate::catalog;
use crate::rejection::Rejection;

/// Refuses a request that was not first sent within the window of `ttl`.
pub(crate) fn check(
    name: &HeaderName,
    headers: &HeaderMap,
    ttl: Duration,
    lang: Lang,
) -> Result<(), Rejection> {
    let row = match single_value(headers, name) {
        Ok(None) => &catalog::FIRST_SENT_MISSING,
        Ok(Some(value)) => match date(value) {
            Some(at) if Window::of(ttl).contains(at, time_of_day()) => return Ok(()),
            Some(_) => &catalog::FIRST_SENT_OUTSIDE_WINDOW,
            None => &catalog::FIRST_SENT_MALFORMED,
        },
        Err(Repeated) => &catalog::FIRST_SENT_MALFORMED,
    };
    Err(row.problem(name.as_str(), lang).into())
}

/// A time in the form IMF-fixdate of RFC 9110, section 5.6.7. The obsolete forms are not allowed.
fn date(value: &HeaderValue) -> Option<SystemTime> {
    let text = value.to_str().ok()?;
    let date: HttpDate = text.parse().ok()?;
    (date.to_string() == text).then(|| date.into())
}

/// When a request may have been sent first.
struct Window {
    past: Duration,
    /// How much the clock of a client may be ahead.
    future: Duration,
}

impl Window {
    /// A record is stored for `ttl` from the response on. A client whose clock is ahead says a later time than the time of its
    /// first request. So the window ends earlier: otherwise a repetition could be in its window after its record is gone.
    fn of(ttl: Duration) -> Self {
        let future = (ttl / 10).min(Duration::from_mins(5));
        let past = ttl.saturating_sub(future);
        Self { past, future }
    }

    fn contains(&self, first_sent: SystemTime, now: SystemTime) -> bool {
        match now.duration_since(first_sent) {
            // The time of the client has no fractions of a second.
            Ok(ago) => ago <= self.past,
            Err(ahead) => ahead.duration() <= self.future,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_imf_fixdate_is_a_time() {
        let read = |text: &'static str| date(&HeaderValue::from_static(text));
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        assert_eq!(read("Sun, 06 Nov 1994 08:49:37 GMT"), Some(time));
        for text in [
            "",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
            "Mon, 06 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:37 UTC",
            "1994-11-06T08:49:37Z",
            "784111777",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn a_window_ends_before_the_records_of_its_requests_do() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_hours(1_000_000);
        let minute = Duration::from_mins(1);
        for ttl in [minute * 10, minute * 50, minute * 60 * 24] {
            let window = Window::of(ttl);
            let ahead = window.future;
            assert!(ahead <= minute * 5 && window.past + ahead == ttl);
            assert!(window.contains(now + ahead, now));
            assert!(!window.contains(now + ahead + Duration::from_secs(1), now));
            // A request whose clock is as far ahead as possible: it is claimed now, so its record ends after `ttl`.
            let first_sent = now + ahead;
            assert!(window.contains(first_sent, now + ttl));
            assert!(!window.contains(first_sent, now + ttl + Duration::from_secs(1)));
            assert!(!window.contains(now, now + ttl));
        }
    }
}
