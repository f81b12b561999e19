//! Events as lines of `tracing`, and the span of a call.

use std::error::Error;
use std::{fmt, iter};

use tracing::field::{self, Empty};
use tracing::{Level, Span};

use super::event::{Event, digits};
use crate::error::Site;

/// The text of an error and of its sources, without a text that repeats the text before it: some clients of stores give an error
/// and its source one text.
#[derive(Debug)]
struct Texts {
    text: String,
    source: Option<Box<Self>>,
}

impl Texts {
    fn from_error(error: &(dyn Error + 'static)) -> Self {
        let text = error.to_string();
        let mut sources = iter::successors(error.source(), |error| Error::source(*error));
        let source = sources.find(|source| !text.contains(&source.to_string()));
        let source = source.map(|source| Box::new(Self::from_error(source)));
        Self { text, source }
    }

    fn as_error(&self) -> &(dyn Error + 'static) {
        self
    }
}

impl fmt::Display for Texts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Error for Texts {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(Self::as_error)
    }
}

/// The span of a call. Its `outcome` is recorded when the call ends.
pub(crate) fn span(site: &Site) -> Span {
    tracing::debug_span!(
        target: "idempotence",
        "idempotent",
        endpoint = site.endpoint.as_str(),
        key = digits(site).map(field::display),
        outcome = Empty,
    )
}

/// Whether the ends of successful calls are logged.
pub(super) fn is_enabled() -> bool {
    tracing::enabled!(target: "idempotence", Level::DEBUG)
}

/// Writes the line of an event.
pub(super) fn write(event: &Event<'_>) {
    write_line!(event);
}

/// Writes a line for this many events. The line belongs to no span, because any call may write it.
pub(super) fn write_repeated(event: &Event<'_>, count: u64) {
    write_line!(event, parent: None, repeated = count);
}

macro_rules! write_line {
    ($event:ident $(, parent: $parent:expr, repeated = $count:ident)?) => {{
        // Each level needs its own call site of tracing.
        macro_rules! write_at {
            ($level:ident) => {
                tracing::event!(
                    target: "idempotence",
                    $(parent: $parent,)?
                    Level::$level,
                    endpoint = $event.endpoint(),
                    key = $event.key().map(field::display),
                    outcome = $event.kind().as_str(),
                    took_ms = $event.took().map(|took| (took.as_secs_f64() * 1e6).round() / 1e3),
                    error = $event.error().map(Texts::from_error).as_ref().map(Texts::as_error),
                    $(repeated = $count,)?
                    "{}",
                    $event.sentence()
                )
            };
        }
        match $event.level() {
            Level::ERROR => write_at!(ERROR),
            Level::WARN => write_at!(WARN),
            Level::INFO => write_at!(INFO),
            _ => write_at!(DEBUG),
        }
    }};
}
use write_line;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::error::store::{StoreError, StoreErrorKind};
    use crate::observe::kind::EventKind;
    use idempotence_test_support::log_capture::LogCapture;

    /// As the client of Redis, whose error has the text of its source.
    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Repeats(#[source] std::io::Error);

    #[test]
    fn the_text_of_a_source_is_logged_once() {
        let refused = || std::io::Error::other("Connection refused");
        let inner = Repeats(std::io::Error::other(Repeats(refused())));
        let error = StoreError::new(StoreErrorKind::NotApplied, inner);
        let texts = Texts::from_error(&error);
        let sources = iter::successors(texts.source(), |source| Error::source(*source));
        let sources: Vec<_> = sources.map(ToString::to_string).collect();
        assert_eq!(sources, ["Connection refused"]);
        assert_eq!(texts.to_string(), error.to_string());
    }

    #[test]
    fn every_kind_is_logged_once_at_its_level() {
        let site = Site::example();
        for &kind in EventKind::ALL {
            let log = LogCapture::start();
            write(&Event::new(&site, kind));
            for level in [Level::ERROR, Level::WARN, Level::INFO, Level::DEBUG] {
                let times = usize::from(level == kind.level());
                assert_eq!(log.at(level.as_str()).len(), times, "{kind} at {level}");
            }
        }
    }

    #[test]
    fn an_event_has_its_fields() {
        let site = Site::example();
        let error = std::io::Error::other("the cable is out");
        let log = LogCapture::start();
        write(
            &Event::new(&site, EventKind::Unguarded)
                .lasted(Some(Duration::from_micros(1500)))
                .caused_by(&error)
                .because("as a test"),
        );
        let key = &site.fingerprint.unwrap().to_string()[..8];
        assert_eq!(
            log.at("ERROR"),
            [format!(
                "idempotence: message=the store is unavailable; the body runs unguarded: as a test \
                 endpoint=\"orders.pay\" key={key} outcome=\"unguarded\" took_ms=1.5 \
                 error=the cable is out"
            )]
        );
    }

    #[test]
    fn a_line_has_no_field_for_what_is_unknown() {
        let site = Site {
            fingerprint: None,
            ..Site::example()
        };
        let log = LogCapture::start();
        write(&Event::new(&site, EventKind::Executed));
        assert_eq!(
            log.at("DEBUG"),
            [
                "idempotence: message=the body ran, with success endpoint=\"orders.pay\" outcome=\"executed\""
            ]
        );
    }

    #[test]
    fn a_span_has_its_endpoint_key_and_outcome() {
        let site = Site::example();
        assert!(
            span(&site).is_disabled(),
            "without a subscriber the span is disabled"
        );
        let log = LogCapture::start();
        span(&site).record("outcome", "executed");
        let key = &site.fingerprint.unwrap().to_string()[..8];
        assert_eq!(
            log.at("span"),
            [
                format!("idempotent endpoint=\"orders.pay\" key={key}"),
                " outcome=\"executed\"".to_owned()
            ]
        );
    }
}
