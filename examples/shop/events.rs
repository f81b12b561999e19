//! Live updates of the page, by server-sent events.

use std::convert::Infallible;

use axum::response::sse;
use futures_util::{Stream, stream};
use serde::Serialize;
use tokio::sync::broadcast::{self, error::RecvError};

use super::attempt::Attempt;
use super::report::Report;

#[derive(Debug, Clone, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Event {
    /// A click of the button began or ended.
    Attempt { run: u64, attempt: Attempt },
    /// A scenario has ended.
    Report { report: Box<Report> },
    /// All scenarios have ended.
    AllEnded,
    /// Events were lost: the page reads the whole state again.
    Resync,
}

#[derive(Debug, Clone)]
pub(crate) struct Events(broadcast::Sender<Event>);

impl Events {
    /// Keeps so many events for a page that is slow.
    pub(crate) fn new(kept: usize) -> Self {
        Self(broadcast::Sender::new(kept))
    }

    pub(crate) fn send(&self, event: Event) {
        // Without an open page nobody receives it.
        let _ = self.0.send(event);
    }

    /// The events from now on. The first one asks the page to read the state, which may have changed before.
    pub(crate) fn stream(&self) -> impl Stream<Item = Result<sse::Event, Infallible>> + use<> {
        let start = (self.0.subscribe(), true);
        stream::unfold(start, async |(mut events, is_first)| {
            let event = if is_first {
                Event::Resync
            } else {
                match events.recv().await {
                    Ok(event) => event,
                    Err(RecvError::Lagged(_)) => Event::Resync,
                    Err(RecvError::Closed) => return None,
                }
            };
            let event = sse::Event::default().json_data(event).unwrap_or_default();
            Some((Ok(event), (events, false)))
        })
    }
}
