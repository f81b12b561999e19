//! What tracing is told.

use tracing::field::{self, Empty};
use tracing::{Level, Span};

use super::event::{Event, digits};
use crate::error::Site;

/// The span of a call; its `outcome` is recorded when it is known.
pub(crate) fn span(site: &Site) -> Span {
    tracing::debug_span!(
        target: "idempotence",
        "idempotent",
        endpoint = site.endpoint.as_str(),
        key = digits(site).map(field::display),
        outcome = Empty,
    )
}

/// Whether the end of a call that goes well is heard.
pub(super) fn listens() -> bool {
    tracing::enabled!(target: "idempotence", Level::DEBUG)
}

pub(super) fn say(event: &Event<'_>) {
    // Tracing wants each level at a place of its own.
    macro_rules! say {
        ($level:ident) => {
            tracing::event!(
                target: "idempotence",
                Level::$level,
                endpoint = event.endpoint(),
                key = event.key().map(field::display),
                outcome = event.kind().as_str(),
                took_ms = event.took().map(|took| (took.as_secs_f64() * 1e6).round() / 1e3),
                error = event.error(),
                "{}",
                event.sentence()
            )
        };
    }
    match event.kind().level() {
        Level::ERROR => say!(ERROR),
        Level::WARN => say!(WARN),
        Level::INFO => say!(INFO),
        _ => say!(DEBUG),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::observe::heard::Heard;
    use crate::observe::kind::EventKind;

    #[test]
    fn every_kind_is_said_once_at_its_level() {
        let site = Site::example();
        for &kind in EventKind::ALL {
            let heard = Heard::from_now_on();
            say(&Event::new(&site, kind));
            for level in [Level::ERROR, Level::WARN, Level::INFO, Level::DEBUG] {
                let times = usize::from(level == kind.level());
                assert_eq!(heard.at(level.as_str()).len(), times, "{kind} at {level}");
            }
        }
    }

    #[test]
    fn an_event_has_its_fields() {
        let site = Site::example();
        let error = std::io::Error::other("the cable is out");
        let heard = Heard::from_now_on();
        say(&Event::new(&site, EventKind::Unguarded)
            .lasted(Some(Duration::from_micros(1500)))
            .caused_by(&error)
            .because("as a test"));
        let key = &site.fingerprint.unwrap().to_string()[..8];
        assert_eq!(
            heard.at("ERROR"),
            [format!(
                "idempotence: message=the store is unavailable; the body runs unguarded: as a test \
                 endpoint=\"orders.pay\" key={key} outcome=\"unguarded\" took_ms=1.5 \
                 error=the cable is out"
            )]
        );
    }

    #[test]
    fn what_is_not_known_is_no_field() {
        let site = Site {
            fingerprint: None,
            ..Site::example()
        };
        let heard = Heard::from_now_on();
        say(&Event::new(&site, EventKind::Executed));
        assert_eq!(
            heard.at("DEBUG"),
            [
                "idempotence: message=the body ran, with success endpoint=\"orders.pay\" outcome=\"executed\""
            ]
        );
    }

    #[test]
    fn a_span_has_its_endpoint_key_and_outcome() {
        let site = Site::example();
        assert!(span(&site).is_disabled(), "nobody listens");
        let heard = Heard::from_now_on();
        span(&site).record("outcome", "executed");
        let key = &site.fingerprint.unwrap().to_string()[..8];
        assert_eq!(
            heard.at("span"),
            [
                format!("idempotent endpoint=\"orders.pay\" key={key}"),
                " outcome=\"executed\"".to_owned()
            ]
        );
    }
}
