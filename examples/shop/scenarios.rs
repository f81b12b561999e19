//! What may happen to a click on "buy".

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::Failure;
use super::attempt::Click;
use super::bank::Pace;
use super::order::PRICE;
use super::report::Report;
use super::run::Run;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Scenario {
    DoubleClick,
    /// Many clicks at once.
    Storm,
    /// A second click after the answer to the first.
    LateClick,
    /// The answer to the first click is lost, and the browser sends it again.
    LostReply,
    /// The same page sends another amount.
    OtherAmount,
    /// The bank refuses the first click, and the customer tries again.
    HandlerFails,
    /// The handler is slower than its lease.
    OutlivesLease,
    /// The second click reaches another process.
    TwoNodes,
    StoreDown,
    /// The process dies after the charge, and before it has recorded the charge.
    Crash,
    /// The customer wants a second phone, and opens a second page.
    SecondPhone,
}

impl Scenario {
    pub(crate) const ALL: [Self; 11] = [
        Self::DoubleClick,
        Self::Storm,
        Self::LateClick,
        Self::LostReply,
        Self::OtherAmount,
        Self::HandlerFails,
        Self::OutlivesLease,
        Self::TwoNodes,
        Self::StoreDown,
        Self::Crash,
        Self::SecondPhone,
    ];

    /// The name in JSON.
    pub(crate) fn name(self) -> String {
        let name = serde_json::to_value(self).unwrap_or_default();
        name.as_str().unwrap_or_default().to_owned()
    }

    /// Why a mechanism has no such scenario.
    pub(crate) fn not_applicable(self, mechanism: &str) -> Option<&'static str> {
        match (self, mechanism) {
            (Self::OtherAmount, "unprotected") => Some("no_key"),
            (Self::OtherAmount, "fingerprint_released" | "fingerprint_held") => {
                Some("amount_is_key")
            }
            (
                Self::OutlivesLease,
                "unprotected" | "check_then_set" | "page_counter" | "order_number" | "bloom"
                | "unique_index" | "dedup_row" | "transition",
            ) => Some("no_lease"),
            _ => None,
        }
    }

    pub(crate) fn timing(self) -> Timing {
        let usual = Timing::default();
        match self {
            Self::OutlivesLease => Timing {
                lease: SHORT_LEASE,
                pace: Pace::FirstIsSlow,
                ..usual
            },
            Self::Crash => Timing {
                lease: SHORT_LEASE,
                ..usual
            },
            // A call asks a store that is down until its deadline.
            Self::StoreDown => Timing {
                deadline: SHORT_DEADLINE,
                ..usual
            },
            _ => usual,
        }
    }

    /// Plays the scenario to its end.
    pub(crate) async fn play(self, run: &Arc<Run>, storm: usize) -> Result<Report, Failure> {
        let page = run.open_page().await?;
        let click = Click::new(&page);
        let again = click.clone();
        match self {
            Self::DoubleClick => together(run, &click, 2, 1).await?,
            Self::Storm => together(run, &click, storm, 1).await?,
            Self::TwoNodes => together(run, &click, 2, 2).await?,
            Self::LateClick => drop((run.click(click).await, run.click(again).await)),
            Self::LostReply => {
                let reply_lost = true;
                run.click(Click {
                    reply_lost,
                    ..click
                })
                .await;
                run.click(again).await;
            }
            Self::OtherAmount => {
                run.click(click).await;
                let cents = 2 * PRICE;
                run.click(Click { cents, ..again }).await;
            }
            Self::HandlerFails => {
                run.bank.fail_next();
                drop((run.click(click).await, run.click(again).await));
            }
            Self::OutlivesLease => slow_first(run, click).await,
            Self::StoreDown => {
                run.take_store_down();
                run.click(click).await;
            }
            Self::Crash => crash_and_retry(run, click).await,
            Self::SecondPhone => {
                run.click(click).await;
                let second = run.open_page().await?;
                run.click(Click::new(&second)).await;
            }
        }
        run.report(if self == Self::SecondPhone { 2 } else { 1 })
            .await
    }
}

/// A customer waits for its end. A machine that is busy still renews it in time.
const SHORT_LEASE: Duration = Duration::from_millis(900);
const SHORT_DEADLINE: Duration = Duration::from_millis(300);

/// The times of one run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timing {
    /// How long a key outlives its process.
    pub(crate) lease: Duration,
    /// How long a call waits for the store.
    pub(crate) deadline: Duration,
    pub(crate) pace: Pace,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(30),
            deadline: Duration::from_secs(5),
            pace: Pace::Together,
        }
    }
}

/// Sends clicks at the same moment, to the nodes in turn.
async fn together(
    run: &Arc<Run>,
    click: &Click,
    clicks: usize,
    nodes: usize,
) -> Result<(), Failure> {
    run.bank.expect(clicks);
    let start = Arc::new(Barrier::new(clicks));
    let mut tasks = JoinSet::new();
    for no in 0..clicks {
        let (run, start, mut click) = (Arc::clone(run), Arc::clone(&start), click.clone());
        click.node = no % nodes;
        tasks.spawn(async move {
            start.wait().await;
            run.send(click).await
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended?;
    }
    Ok(())
}

/// The first click is slower than its lease. When a lease without renewals has ended, the second click comes.
async fn slow_first(run: &Arc<Run>, click: Click) {
    let second = click.clone();
    let after_the_lease = async {
        sleep(lease_and_grace(run)).await;
        run.click(second).await
    };
    tokio::join!(run.click(click), after_the_lease);
}

/// The first node takes the money and dies. When its lease has ended, the customer tries again at the other node.
async fn crash_and_retry(run: &Arc<Run>, click: Click) {
    run.bank.crash_next();
    let retry = Click {
        node: 1,
        ..click.clone()
    };
    let mut first = Box::pin(run.click(click));
    tokio::select! {
        _ = &mut first => return, // the bank was never reached
        () = run.bank.crashed() => run.kill(0),
    }
    // Dropping the future rolls a transaction back, as the database does when a client dies. Its other effects end at the cut link.
    drop(first);
    sleep(lease_and_grace(run)).await;
    run.click(retry).await;
}

/// How long a dead process keeps its key. The store adds a grace of 250 ms at least to a lease.
fn lease_and_grace(run: &Run) -> Duration {
    run.timing.lease + Duration::from_millis(300)
}
