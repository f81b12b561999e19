//! `idempotence-chaos --minutes 60`: chaos in rounds. Each round is checked. With `http` first: storms of HTTP requests.
#![allow(clippy::print_stdout)]

use std::env;
use std::error::Error;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use idempotence_chaos::broken::Fault;
use idempotence_chaos::check::Figures;
use idempotence_chaos::http;
use idempotence_chaos::http::service::{self, Service};
use idempotence_chaos::http::storm::{self, Mistake, storm};
use idempotence_chaos::run::{Setup, run};
use idempotence_chaos::servers::Topology;
use idempotence_chaos::worker::{self, Work};

const USAGE: &str = "\
usage: idempotence-chaos [--minutes N] [--seed N] [--on one|sentinels|replicas|cluster|mariadb] [--fault NAME]
       idempotence-chaos http [--minutes N] [--seed N]";
/// Short enough to check the history in memory and to find all results in the store.
const ROUND: Duration = Duration::from_mins(2);

#[tokio::main]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    let args: Vec<String> = env::args().skip(1).collect();
    match args.split_first() {
        Some((first, work)) if first == "worker" => {
            worker::run(Work::from_args(work).ok_or(USAGE)?).await?;
            Ok(ExitCode::SUCCESS)
        }
        Some((first, service)) if first == "service" => {
            service::run(Service::from_args(service).ok_or(USAGE)?).await?;
            Ok(ExitCode::SUCCESS)
        }
        Some((first, options)) if first == "http" => storms(options).await,
        _ => rounds(&args).await,
    }
}

async fn rounds(args: &[String]) -> Result<ExitCode, Box<dyn Error>> {
    let (mut minutes, mut seed, mut fault) = (1, 1, Fault::None);
    let mut topology = Topology::One;
    for option in args.chunks(2) {
        let [name, value] = option else {
            return Err(USAGE.into());
        };
        match &**name {
            "--minutes" => minutes = value.parse()?,
            "--seed" => seed = value.parse()?,
            "--on" => {
                topology = match &**value {
                    "one" => Topology::One,
                    "sentinels" => Topology::Sentinels,
                    "replicas" => Topology::Replicas,
                    "cluster" => Topology::Cluster,
                    "mariadb" => Topology::MariaDb,
                    _ => return Err(USAGE.into()),
                }
            }
            "--fault" => fault = value.parse().map_err(|()| USAGE)?,
            _ => return Err(USAGE.into()),
        }
    }
    let ends = Instant::now() + Duration::from_mins(minutes);
    let mut figures = Figures::default();
    while let remaining = ends.saturating_duration_since(Instant::now())
        && remaining > Duration::from_secs(1)
    {
        let setup = Setup {
            program: env::current_exe()?,
            topology,
            seed,
            lasts: remaining.min(ROUND),
            batches: true,
            workers: 4,
            callers: 32,
            fault,
        };
        let outcome = run(setup).await?;
        if !outcome.verdict.violations.is_empty() {
            println!("{outcome}");
            return Ok(ExitCode::FAILURE);
        }
        outcome.remove_histories()?;
        figures.add(outcome.verdict.figures);
        println!(
            "seed {seed}: nothing broken; {} calls so far",
            figures.calls
        );
        seed += 1;
    }
    println!("\n| | {minutes} min |\n| --- | --- |\n{figures}");
    Ok(ExitCode::SUCCESS)
}

/// Storms of HTTP requests, until the time is over.
async fn storms(args: &[String]) -> Result<ExitCode, Box<dyn Error>> {
    let (mut minutes, mut seed) = (1, 1);
    for option in args.chunks(2) {
        match option {
            [name, value] if name == "--minutes" => minutes = value.parse()?,
            [name, value] if name == "--seed" => seed = value.parse()?,
            _ => return Err(USAGE.into()),
        }
    }
    let ends = Instant::now() + Duration::from_mins(minutes);
    let mut figures = http::check::Figures::default();
    while Instant::now() < ends {
        let setup = storm::Setup {
            program: env::current_exe()?,
            seed,
            waves: 20,
            clients: 1000,
            mistake: Mistake::None,
        };
        let outcome = storm(setup).await?;
        if !outcome.verdict.violations.is_empty() {
            println!("{outcome}");
            return Ok(ExitCode::FAILURE);
        }
        outcome.remove_histories()?;
        figures.add(&outcome.verdict.figures);
        println!(
            "seed {seed}: nothing broken; {} requests so far",
            figures.requests
        );
        seed += 1;
    }
    println!("\n| | {minutes} min |\n| --- | --- |\n{figures}");
    Ok(ExitCode::SUCCESS)
}
