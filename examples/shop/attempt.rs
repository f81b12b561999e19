//! One click on "buy": what became of it, and what it cost.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use idempotence::Once;
use serde::Serialize;

use super::order::{BuyError, PRICE, Receipt};

/// A row of the timeline.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Attempt {
    pub(crate) no: usize,
    /// The process that served the click.
    pub(crate) node: usize,
    /// Milliseconds since the run began.
    pub(crate) at: u64,
    pub(crate) took: u64,
    pub(crate) cents: i64,
    pub(crate) outcome: Outcome,
    /// The word of the error, and its text.
    pub(crate) code: Option<String>,
    pub(crate) text: Option<String>,
    pub(crate) receipt: Option<i64>,
    /// How many times the click sent each command to the store.
    pub(crate) commands: BTreeMap<&'static str, usize>,
    #[serde(skip)]
    pub(crate) log: Arc<Log>,
    /// The customer never saw the answer.
    pub(crate) reply_lost: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    Running,
    /// It took money.
    Charged,
    /// It got the receipt of an earlier click.
    Replayed,
    Refused,
    /// The handler failed before it took money.
    Failed,
    /// Its process died.
    Crashed,
}

impl Attempt {
    /// A click that is sent now. Its process and its task fill in the rest.
    pub(crate) fn new(no: usize, at: u64, click: &Click) -> Self {
        Self {
            no,
            node: click.node,
            at,
            took: 0,
            cents: click.cents,
            outcome: Outcome::Running,
            code: None,
            text: None,
            receipt: None,
            commands: BTreeMap::new(),
            log: Arc::default(),
            reply_lost: click.reply_lost,
        }
    }

    /// Its process dies now.
    pub(crate) fn crash(&mut self, now: u64) {
        self.outcome = Outcome::Crashed;
        self.stop(now);
    }

    /// Fills in the answer.
    pub(crate) fn end(&mut self, now: u64, answer: &Result<Once<Receipt>, BuyError>) {
        self.stop(now);
        self.outcome = match answer {
            Ok(Once::Executed(_)) => Outcome::Charged,
            Ok(Once::Replayed(_)) => Outcome::Replayed,
            Err(error) if error.code() == BuyError::BankBusy.code() => Outcome::Failed,
            Err(_) => Outcome::Refused,
        };
        match answer {
            Ok(receipt) => self.receipt = Some(receipt.get().number),
            Err(error) => {
                self.code = Some(error.code().to_owned());
                self.text = Some(error.to_string());
            }
        }
    }

    fn stop(&mut self, now: u64) {
        self.took = now - self.at;
        self.commands = self.log.commands();
    }
}

/// One click, before it is sent.
#[derive(Debug, Clone)]
pub(crate) struct Click {
    pub(crate) page: String,
    pub(crate) node: usize,
    pub(crate) cents: i64,
    pub(crate) reply_lost: bool,
}

impl Click {
    pub(crate) fn new(page: &str) -> Self {
        Self {
            page: page.to_owned(),
            node: 0,
            cents: PRICE,
            reply_lost: false,
        }
    }
}

tokio::task_local! {
    /// The attempt for which this task works.
    pub(crate) static ATTEMPT: Arc<Log>;
}

/// What the bank and the store note about a running attempt.
#[derive(Debug, Default)]
pub(crate) struct Log {
    commands: Mutex<BTreeMap<&'static str, usize>>,
    arrived: AtomicBool,
}

impl Log {
    pub(crate) fn count(&self, command: &'static str) {
        let mut commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        *commands.entry(command).or_default() += 1;
    }

    pub(crate) fn commands(&self) -> BTreeMap<&'static str, usize> {
        let commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        commands.clone()
    }

    /// Whether this is the first note that the attempt has reached the bank or has ended.
    pub(crate) fn arrives(&self) -> bool {
        !self.arrived.swap(true, Ordering::SeqCst)
    }
}
