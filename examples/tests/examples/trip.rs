//! Three processes book trips, and are killed at random lines of their output: each provider charges each trip once.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use idempotence_test_servers::RedisServer;
use redis::{Commands as _, Connection};

const BIN: &str = env!("CARGO_BIN_EXE_trip");
const WORKERS: usize = 3;

/// How often a process is killed: 200 times take seven seconds.
fn kills() -> u32 {
    let kills = std::env::var("TRIP_KILLS").ok();
    kills.map_or(20, |kills| kills.parse().expect("a number"))
}

/// A worker, and the lines that it prints; `None` when it has ended.
fn start(url: &str, trips: u32, slot: usize, lines: &Sender<(usize, Option<String>)>) -> Child {
    let mut worker = Command::new(BIN)
        .args([url, &trips.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let stdout = BufReader::new(worker.stdout.take().unwrap());
    let lines = lines.clone();
    thread::spawn(move || {
        for line in stdout.lines().map_while(Result::ok) {
            let _ = lines.send((slot, Some(line)));
        }
        let _ = lines.send((slot, None));
    });
    worker
}

/// Lets the workers book all trips, and kills them until then. Returns how often.
fn book(url: &str, trips: u32) -> u32 {
    let (sender, lines) = channel();
    let mut workers: Vec<Child> = (0..WORKERS)
        .map(|slot| start(url, trips, slot, &sender))
        .collect();
    let (mut killed, mut running, mut random) = (0, WORKERS, 37_u32);
    let deadline = Instant::now() + Duration::from_mins(3);
    while running > 0 {
        assert!(
            Instant::now() < deadline,
            "{killed} kills, {running} workers run"
        );
        let Ok((slot, line)) = lines.recv_timeout(Duration::from_mins(1)) else {
            panic!("no line for a minute");
        };
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        match line {
            Some(_) if killed < kills() && (random >> 16) % 3 == 0 => {
                // It may have ended, or may be killed already.
                let _ = workers[slot].kill();
            }
            Some(_) => {}
            None => {
                if workers[slot].wait().unwrap().success() {
                    running -= 1;
                } else {
                    killed += 1;
                    workers[slot] = start(url, trips, slot, &sender);
                }
            }
        }
    }
    killed
}

/// What happened to one trip, in order.
fn log(redis: &mut Connection, trip: u32) -> Vec<String> {
    redis.lrange(format!("trips:log:{trip}"), 0, -1).unwrap()
}

#[test]
fn each_provider_charges_each_trip_once_although_processes_are_killed() {
    let server = RedisServer::start().unwrap();
    let trips = 20 + kills() * 2;
    let killed = book(&server.url(), trips);
    assert!(killed >= kills(), "{killed} kills");
    let client = redis::Client::open(server.url()).unwrap();
    let mut redis = client.get_connection().unwrap();
    println!("{killed} kills, {trips} trips\nstep    runs  charges");
    for step in ["flight", "hotel", "car"] {
        let charges: HashMap<String, u32> = redis.hgetall(format!("trips:charges:{step}")).unwrap();
        let mut trips_charged: Vec<u32> = charges.into_values().collect();
        trips_charged.sort_unstable();
        assert!(trips_charged.into_iter().eq(1..=trips), "{step}");
        let mut runs = 0;
        for trip in 1..=trips {
            let log = log(&mut redis, trip);
            let (asks, has) = (format!("asks {step}"), format!("has {step}"));
            let recorded = log.iter().position(|entry| *entry == has).expect(step);
            // A recorded step does not run again.
            assert!(!log[recorded..].contains(&asks), "trip {trip}: {log:?}");
            runs += log.iter().filter(|entry| **entry == asks).count();
        }
        println!("{step:6} {runs:5} {trips:8}");
    }
}
