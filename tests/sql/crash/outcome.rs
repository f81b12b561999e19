//! The state after a crash and after a retry.

use std::time::{Duration, Instant};

use crate::crash::flow::{self, Flow, Order};
use crate::crash::process::Process;

/// A call whose first process or server was killed.
#[derive(Debug)]
pub(crate) struct Crash {
    /// The place where the process or server was killed.
    pub(crate) place: String,
    /// The answer of the first process, if there was one.
    pub(crate) first_answer: Option<String>,
    /// The answer of the retry.
    pub(crate) retry: String,
    /// The business rows after the retry.
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

    /// Makes the same call again in new processes until one answers.
    pub(crate) fn after_a_retry(
        place: String,
        first_answer: Option<String>,
        flow: Flow,
        url: &str,
        number: u32,
    ) -> Self {
        let by = "the retry".to_owned();
        let order = Order { number, by };
        let deadline = Instant::now() + MAX_WAIT;
        let retry = loop {
            match Process::start(flow, url, &order).answer() {
                Ok(answer) => break answer,
                // The first transaction may still be open.
                Err(why) => assert!(Instant::now() < deadline, "after {place}: {why}"),
            }
        };
        Self {
            place,
            first_answer,
            retry,
            rows: flow::rows(url, number),
        }
    }
}

const MAX_WAIT: Duration = Duration::from_mins(2);

/// Whether the operation is lost: no retry does it.
pub(crate) fn lost(crash: &Crash) -> bool {
    crash.rows.is_empty()
}

/// Whether the operation happened twice.
pub(crate) fn twice(crash: &Crash) -> bool {
    crash.rows.len() == 2
}

/// Asserts that each operation happened once, and that all its answers are equal.
pub(crate) fn nothing_is_lost(crashes: &[Crash]) {
    for crash in crashes {
        assert_eq!(crash.rows, [crash.retry.as_str()], "{crash:#?}");
        assert!([FIRST, RETRY].contains(&&*crash.retry), "{crash:#?}");
        // An answer means that the operation was committed.
        let answer = crash.first_answer.as_ref();
        assert!(
            answer.is_none_or(|answer| *answer == crash.retry),
            "{crash:#?}"
        );
    }
}

/// Asserts that some crashes were before the commit and some after it.
pub(crate) fn both_sides_of_the_commit(crashes: &[Crash]) {
    let replayed: Vec<_> = crashes.iter().map(|crash| crash.retry == FIRST).collect();
    assert!(replayed.is_sorted(), "{crashes:#?}");
    assert_eq!(
        (replayed.first(), replayed.last()),
        (Some(&false), Some(&true)),
        "{crashes:#?}"
    );
}
