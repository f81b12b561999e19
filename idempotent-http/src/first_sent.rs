//! The time of the first try of a request, and the window in which its repetitions are recognized.

use std::time::{Duration, SystemTime};

use ::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use httpdate::HttpDate;
use idempotent_runtime::Lang;
use idempotent_runtime::port::http::{Repeated, single_value, time_of_day};

use crate::rejection::Rejection;

/// Refuses a request that was not first sent within the window of `ttl`.
pub(super) fn check(
    name: &HeaderName,
    headers: &HeaderMap,
    ttl: Duration,
    lang: Lang,
) -> Result<(), Rejection> {
    let (code, title) = match single_value(headers, name) {
        Ok(None) => (
            "first_sent_missing",
            [
                "The request does not say when it was first sent",
                "请求没有标明首次发送时间",
            ],
        ),
        Ok(Some(value)) if let Some(first_sent) = date(value) => {
            return check_window(first_sent, ttl, lang);
        }
        Ok(Some(_)) | Err(Repeated) => (
            "first_sent_malformed",
            [
                "The time of the first sending cannot be read",
                "首次发送时间无法读取",
            ],
        ),
    };
    let detail = [
        format!("Send the header {name} once, with the time of the first try, for example Sun, 06 Nov 1994 08:49:37 GMT.").into(),
        format!("请发送且仅发送一次请求头 {name}，其值为首次发送时间，例如 Sun, 06 Nov 1994 08:49:37 GMT").into(),
    ];
    Err(Rejection::fault(
        StatusCode::BAD_REQUEST,
        code,
        title,
        detail,
        lang,
    ))
}

/// A time in the form IMF-fixdate of RFC 9110, section 5.6.7. The obsolete forms are not allowed.
fn date(value: &HeaderValue) -> Option<SystemTime> {
    let text = value.to_str().ok()?;
    let date: HttpDate = text.parse().ok()?;
    (date.to_string() == text).then(|| date.into())
}

fn check_window(first_sent: SystemTime, ttl: Duration, lang: Lang) -> Result<(), Rejection> {
    let window = Window::of(ttl);
    if window.contains(first_sent, time_of_day()) {
        return Ok(());
    }
    let detail = [
        "The request was first sent too long ago, or the clock of the client is wrong. Check what the request has done before you send it as a new request.".into(),
        "请求的首次发送时间过早，或客户端时钟有误。作为新请求重新发送之前，请先确认处理结果".into(),
    ];
    let title = [
        "The request was not first sent within the time in which repetitions are recognized",
        "首次发送时间超出可识别重复请求的时间范围",
    ];
    let status = StatusCode::PRECONDITION_FAILED;
    Err(Rejection::fault(
        status,
        "first_sent_outside_window",
        title,
        detail,
        lang,
    ))
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
