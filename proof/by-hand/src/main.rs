//! `cargo run -p idempotence-by-hand` prints the table of `docs/guide/hand-written.md`. It takes about three minutes, because
//! a caller waits 30 s for a connection.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::time::Duration;

use idempotence_by_hand::scenarios::{Answers, Design, Scenario, Times, other_users, run};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let times = Times {
        unit: Duration::from_secs(1),
        acquire: Duration::from_secs(30),
    };
    println!("| what is done | by hand | with `begin` and `tx` |\n| --- | --- | --- |");
    for scenario in Scenario::ALL {
        let by_hand = run(scenario, Design::ByHand, times).await?;
        let guarded = run(scenario, Design::Guarded, times).await?;
        let (by_hand, guarded) = (cell(&by_hand), cell(&guarded));
        println!("| {} | {by_hand} | {guarded} |", scenario.title());
    }
    let mut ratios = Vec::new();
    for _ in 0..5 {
        let others = other_users(Design::Guarded, times).await?;
        ratios.push(others.beside.as_secs_f64() / others.alone.as_secs_f64());
        println!(
            "99 of 100 posts of others: {:.2?}; beside 100 duplicates: {:.2?}",
            others.alone, others.beside
        );
    }
    ratios.sort_by(f64::total_cmp);
    println!("the median of the ratios is {:.2}", ratios[2]);
    Ok(())
}

fn cell(answers: &Answers) -> String {
    let mut parts = vec![format!("{} answered", answers.receipts)];
    if answers.refused > 0 {
        parts.push(format!("{} refused", answers.refused));
    }
    if answers.failed > 0 {
        parts.push(format!("{} × 500", answers.failed));
    }
    if answers.paid_twice > 0 {
        parts.push(format!("{} paid twice", answers.paid_twice));
    }
    format!("{}, {:.2?}", parts.join(", "), answers.longest)
}
