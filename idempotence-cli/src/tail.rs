//! `tail`: prints what changes between two listings.

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime};

use idempotence::{Idempotency, ListedCall};
use serde::Serialize;
use tokio::time::sleep;

use crate::args::{Access, State, Tail};
use crate::exit::Failure;
use crate::ls::{Id, ListedRow, Pages, id, state_of};
use crate::open::open;
use crate::output::{self, Output};

pub(crate) async fn run(access: &Access, args: &Tail, output: &mut Output) -> Result<(), Failure> {
    let idempotency = open(access).await?;
    let begin = Instant::now();
    let mut known = look(&idempotency, &args.endpoint).await?;
    while args.lasts.is_none_or(|lasts| begin.elapsed() < lasts) {
        let rest = args
            .lasts
            .map(|lasts| lasts.saturating_sub(begin.elapsed()));
        let pause = args.every.max(SHORTEST_PAUSE);
        sleep(rest.map_or(pause, |rest| pause.min(rest))).await;
        let found = look(&idempotency, &args.endpoint).await?;
        for (id, call) in &found {
            let change = match known.get(id) {
                None => Some(began(call)),
                Some(before) => changed(before, call),
            };
            if let Some(change) = change {
                print(change, call, output)?;
            }
        }
        for (id, call) in &known {
            if !found.contains_key(id) {
                print("free", call, output)?;
            }
        }
        known = found;
    }
    Ok(())
}

/// Spares the store.
const SHORTEST_PAUSE: Duration = Duration::from_millis(10);

type Calls = HashMap<Id, ListedCall>;

async fn look(idempotency: &Idempotency, pattern: &str) -> Result<Calls, Failure> {
    let (mut calls, mut pages) = (Calls::new(), Pages::new(pattern, None, None));
    while let Some(page) = pages.next(idempotency, usize::MAX).await? {
        calls.extend(page.into_iter().map(|call| (id(&call), call)));
    }
    Ok(calls)
}

fn began(call: &ListedCall) -> &'static str {
    match state_of(call) {
        State::Taken => "claimed",
        state => state.word(),
    }
}

fn changed(before: &ListedCall, now: &ListedCall) -> Option<&'static str> {
    if before.since() == now.since() && state_of(before) == state_of(now) {
        return None;
    }
    Some(began(now))
}

#[derive(Serialize)]
struct Line<'a> {
    time: String,
    change: &'static str,
    #[serde(flatten)]
    call: ListedRow<'a>,
}

fn print(change: &'static str, call: &ListedCall, output: &mut Output) -> Result<(), Failure> {
    let time = output::time(SystemTime::now());
    if output.is_json() {
        let call = ListedRow::of(call);
        return output.json(&Line { time, change, call });
    }
    let holder = call.holder().unwrap_or("-");
    output.line(&format!(
        "{time}  {change:<8}  {}  {}  {holder}",
        call.endpoint(),
        call.digits()
    ))
}
