//! `bench`: how many calls a second the store can claim, beside the same commands by hand.

mod by_hand;
mod load;

use std::time::Duration;

use idempotence::{Error, Idempotency, Release};
use serde::Serialize;

use self::by_hand::{ByHand, ENDPOINT, TTL};
use self::load::{Measured, measure};
use crate::args::{Access, Bench};
use crate::ask::confirm;
use crate::exit::Failure;
use crate::open::{open, url};
use crate::output::{Output, note};
use crate::progress::Progress;

pub(crate) async fn run(access: &Access, args: &Bench, output: &mut Output) -> Result<(), Failure> {
    let (idempotency, url) = (open(access).await?, url(access)?);
    if !args.yes {
        let question = format!(
            "Load the store for {} with {} calls at once, whose keys are removed? A program that uses the store becomes slower.",
            humantime::format_duration(2 * args.lasts),
            args.callers
        );
        confirm(&question, "nothing was sent")?;
    }
    if cfg!(debug_assertions) {
        note("this build is not optimized: build it with --release");
    }
    let by_hand = ByHand::connect(&url, &access.prefix).await?;
    let (mut calls, mut commands) = (Measured::default(), Measured::default());
    // By turns, so that a slow moment of the store does not meet only one of them.
    let progress = Progress::new();
    for round in 1..=ROUNDS {
        progress.say(format!("round {round} of {ROUNDS}"));
        let call = async |number| call(&idempotency, number).await;
        calls.add(measure(args.callers, args.lasts / ROUNDS, call).await?);
        if let Some(by_hand) = &by_hand {
            let call = async |number| by_hand.call(number).await;
            commands.add(measure(args.callers, args.lasts / ROUNDS, call).await?);
        }
    }
    drop(progress);
    let mut rows = vec![("call", &calls)];
    if by_hand.is_some() {
        rows.push(("by hand", &commands));
    } else {
        note("the commands by hand are only measured on one server");
    }
    print(&rows, output)
}

const ROUNDS: u32 = 4;

/// A call whose key is claimed and removed.
async fn call(idempotency: &Idempotency, number: u64) -> Result<(), Failure> {
    let call = idempotency
        .call(ENDPOINT)
        .key(&(std::process::id(), number));
    let call = call.ttl(TTL).release(Release::Always);
    Ok(call.run(async { Ok::<_, Error>(()) }).await?)
}

#[derive(Serialize)]
struct Timing<'a> {
    what: &'a str,
    calls: usize,
    per_second: f64,
    p50_micros: u128,
    p99_micros: u128,
}

fn print(rows: &[(&str, &Measured)], output: &mut Output) -> Result<(), Failure> {
    if output.is_json() {
        let rows = rows.iter().map(|(what, measured)| Timing {
            what,
            calls: measured.calls(),
            per_second: measured.per_second(),
            p50_micros: measured.percentile(50).as_micros(),
            p99_micros: measured.percentile(99).as_micros(),
        });
        return output.json(&rows.collect::<Vec<_>>());
    }
    let millis = |time: Duration| format!("{:.2} ms", time.as_secs_f64() * 1e3);
    let rows = rows.iter().map(|(what, measured)| {
        [
            (*what).to_owned(),
            format!("{:.0}", measured.per_second()),
            millis(measured.percentile(50)),
            millis(measured.percentile(99)),
        ]
    });
    output.table(
        ["WHAT", "A SECOND", "P50", "P99"],
        &rows.collect::<Vec<_>>(),
    )
}
