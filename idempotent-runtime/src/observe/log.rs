//! What tracing is told.

use tracing::field::{self, Empty};
use tracing::{Level, Span};

use super::event::digits;
use super::{Event, EventKind};
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
    match event.kind() {
        EventKind::Overrun | EventKind::Unguarded | EventKind::Unrecorded => say!(ERROR),
        EventKind::StoreError
        | EventKind::Invalid
        | EventKind::LeaseLost
        | EventKind::Panicked
        | EventKind::RenewalFailed
        | EventKind::NotKept
        | EventKind::NotWithdrawn
        | EventKind::OperationFailed
        | EventKind::OperationInvalid => say!(WARN),
        // Something is odd with the caller, not with this program.
        EventKind::Mismatch
        | EventKind::ResultUnavailable
        | EventKind::TokenRefused
        | EventKind::TokenRejected
        | EventKind::LimitReached => say!(INFO),
        EventKind::Executed
        | EventKind::Failed
        | EventKind::Bypassed
        | EventKind::Replayed
        | EventKind::InProgress
        | EventKind::Done
        | EventKind::Taken
        | EventKind::Cancelled
        | EventKind::Waited
        | EventKind::AlreadyGone
        | EventKind::TokenIssued
        | EventKind::TokenRedeemed
        | EventKind::TokenGivenBack
        | EventKind::Counted
        | EventKind::FirstSeen
        | EventKind::SeenBefore
        | EventKind::PerhapsSeen
        | EventKind::NumberIssued
        | EventKind::TakenBack
        | EventKind::NotThere
        | EventKind::OperationCancelled => say!(DEBUG),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::observe::event::every_kind;
    use crate::observe::heard::Heard;

    #[test]
    fn every_kind_has_the_level_that_its_docs_name() {
        let source = include_str!("event.rs");
        let (_, variants) = source.split_once("pub enum EventKind {").unwrap();
        let (variants, _) = variants.split_once('}').unwrap();
        let site = Site::example();
        for kind in every_kind() {
            let (docs, _) = variants.split_once(&format!(" {kind:?},")).unwrap();
            let docs = docs.rsplit(",\n").next().unwrap();
            let heard = Heard::from_now_on();
            say(&Event::new(&site, kind));
            let levels = ["ERROR", "WARN", "INFO", "DEBUG"];
            let told: Vec<_> = levels.map(|level| heard.at(level).len()).into();
            let documented: Vec<_> = levels.map(|level| docs.matches(level).count()).into();
            assert_eq!(told, documented, "{kind:?}: {docs}");
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
