//! Crossing transfers between accounts, from two processes.

use std::array;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use idempotent_runtime::{Error, GuardedCall, Idempotency, Release};
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

const ACCOUNTS: usize = 4;
const TRANSFERS: usize = 24;
const ROUNDS: usize = 10;
const MAX_WAIT: Duration = Duration::from_mins(2);

/// Which accounts a transfer uses now.
type Busy = Arc<[AtomicBool; ACCOUNTS]>;

/// Checks that crossing transfers of two handles never meet in an account, that all run if they wait, and that one of two runs if they do not.
pub async fn assert_crossing_transfers_end(handles: [Idempotency; 2]) {
    let pairs = (0..ACCOUNTS).flat_map(|from| (0..ACCOUNTS).map(move |to| (from, to)));
    let mut pairs = pairs.filter(|(from, to)| from != to).cycle();
    let waiting = |number: usize| {
        let pair = pairs.next().unwrap();
        (pair, transfer(&handles[number % 2], pair).wait(MAX_WAIT))
    };
    let ended = run((0..TRANSFERS).map(waiting).collect()).await;
    assert_eq!(ended, vec!["executed"; TRANSFERS]);
    for round in 0..ROUNDS {
        let (from, to) = (round % ACCOUNTS, (round + 1 + round / ACCOUNTS) % ACCOUNTS);
        let crossing = [((from, to), 0), ((to, from), 1)];
        let calls = crossing.map(|(pair, handle)| (pair, transfer(&handles[handle], pair)));
        let ended = run(calls.into()).await;
        assert!(ended.contains(&"executed"), "round {round}: {ended:?}");
        assert!(
            ended
                .iter()
                .all(|end| ["executed", "in_progress"].contains(end)),
            "{ended:?}"
        );
    }
}

fn transfer(handle: &Idempotency, (from, to): (usize, usize)) -> GuardedCall {
    let call = handle.call("accounts.transfer").key(&from).also(&to);
    call.ttl(Duration::from_secs(30)).release(Release::Always)
}

/// Runs these transfers at once. Returns how each ended.
async fn run(calls: Vec<((usize, usize), GuardedCall)>) -> Vec<&'static str> {
    let busy: Busy = Arc::new(array::from_fn(|_| AtomicBool::new(false)));
    let start = Arc::new(Barrier::new(calls.len()));
    let mut running = JoinSet::new();
    for (pair, call) in calls {
        let (busy, start) = (Arc::clone(&busy), Arc::clone(&start));
        running.spawn(async move {
            start.wait().await;
            let ended = call.run(uses(busy, pair)).await;
            ended.map_or_else(|error| error.code(), |()| "executed")
        });
    }
    let ended = timeout(MAX_WAIT, running.join_all()).await;
    ended.expect("no transfer waits for ever")
}

async fn uses(busy: Busy, (from, to): (usize, usize)) -> Result<(), Error> {
    for account in [from, to] {
        let was_busy = busy[account].swap(true, Ordering::SeqCst);
        assert!(!was_busy, "two transfers use account {account}");
    }
    sleep(Duration::from_millis(5)).await;
    for account in [from, to] {
        busy[account].store(false, Ordering::SeqCst);
    }
    Ok(())
}
