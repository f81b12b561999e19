//! What a crash left, and what a retry made of it.

use std::time::{Duration, Instant};

use crate::flow::{self, Flow, Order};
use crate::process::Process;

/// What was seen of a call whose first process, or its server, did not live to its end.
#[derive(Debug)]
pub(crate) struct Crash {
    /// Where it was killed.
    pub(crate) place: String,
    /// What the first process answered, if it got that far.
    pub(crate) said: Option<String>,
    /// What the retry answered.
    pub(crate) retry: String,
    /// What the business rows say after the retry.
    pub(crate) rows: Vec<String>,
}

pub(crate) const FIRST: &str = "paid by the first";
pub(crate) const RETRY: &str = "paid by the retry";

impl Crash {
    /// The order of the process that is killed.
    pub(crate) fn first(number: u32) -> Order {
        let by = "the first".to_owned();
        Order { number, by }
    }

    /// Makes the same call again, in other processes, until it is answered.
    pub(crate) fn after_a_retry(
        place: String,
        said: Option<String>,
        flow: Flow,
        url: &str,
        number: u32,
    ) -> Self {
        let by = "the retry".to_owned();
        let order = Order { number, by };
        let deadline = Instant::now() + PATIENCE;
        let retry = loop {
            match Process::start(flow, url, &order).answer() {
                Ok(answer) => break answer,
                // The first transaction may be open still.
                Err(why) => assert!(Instant::now() < deadline, "after {place}: {why}"),
            }
        };
        Self {
            place,
            said,
            retry,
            rows: flow::rows(url, number),
        }
    }
}

const PATIENCE: Duration = Duration::from_secs(30);

/// Whether the operation is lost: no retry will bring it back.
pub(crate) fn lost(crash: &Crash) -> bool {
    crash.rows.is_empty()
}

/// Whether the operation happened twice.
pub(crate) fn twice(crash: &Crash) -> bool {
    crash.rows.len() == 2
}

/// Asserts that all operations happened once, and that everybody heard of the one.
pub(crate) fn nothing_is_lost(crashes: &[Crash]) {
    for crash in crashes {
        assert_eq!(crash.rows, [crash.retry.as_str()], "{crash:#?}");
        assert!([FIRST, RETRY].contains(&&*crash.retry), "{crash:#?}");
        // What was answered was committed.
        let said = crash.said.as_ref();
        assert!(said.is_none_or(|said| *said == crash.retry), "{crash:#?}");
    }
}

/// Asserts that the crashes, from the first point to the last, come on both sides of the commit.
pub(crate) fn both_sides_of_the_commit(crashes: &[Crash]) {
    let replayed: Vec<_> = crashes.iter().map(|crash| crash.retry == FIRST).collect();
    assert!(replayed.is_sorted(), "{crashes:#?}");
    assert_eq!(
        (replayed.first(), replayed.last()),
        (Some(&false), Some(&true)),
        "{crashes:#?}"
    );
}
