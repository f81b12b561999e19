//! Crashes at several messages at once: each process has its own connection and its own database.

use std::thread;

use idempotence_test_servers::{MariaDbServer, PostgresServer};

use crate::crash::process::Process;
use support::wire::{Point, Wire};

/// How many processes stop at the same time.
pub(crate) const LANES: usize = 10;

/// Which program is killed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Victim {
    Process,
    Server,
}

/// A process whose call reached its point, or ended before it.
pub(crate) struct Stopped<T> {
    pub(crate) point: Point,
    pub(crate) url: String,
    pub(crate) is_reached: bool,
    /// What the process printed until its end.
    pub(crate) printed: T,
}

/// Starts a process for each point, waits until all of them stand still at their points, and kills the victims. A message that
/// arrives at its point arrives immediately before the kill. Returns when the server works again.
pub(crate) fn stop_at<T>(
    points: &[Point],
    databases: &[String],
    server: &impl Server,
    victim: Victim,
    start: impl Fn(Point, &str) -> Process,
    read: impl Fn(&mut Process) -> T,
) -> Vec<Stopped<T>> {
    let lanes = points.iter().zip(databases).map(|(point, url)| {
        let wire = Wire::to(server.port(), *point);
        let process = start(*point, &wire.url(url));
        (*point, url, wire, process)
    });
    let mut lanes: Vec<_> = lanes.collect();
    let reached: Vec<_> = lanes.iter().map(|(_, _, wire, _)| wire.reached()).collect();
    let is_killed = victim == Victim::Server && reached.contains(&true);
    for ((_, _, wire, process), _) in lanes.iter_mut().zip(&reached).filter(|lane| *lane.1) {
        wire.deliver();
        if victim == Victim::Process {
            process.kill();
        }
    }
    if is_killed {
        server.kill();
    }
    let stopped = lanes.into_iter().zip(reached);
    let stopped = stopped.map(|((point, url, _, mut process), is_reached)| Stopped {
        point,
        url: url.clone(),
        is_reached,
        printed: read(&mut process),
    });
    let stopped = stopped.collect();
    if is_killed {
        server.restart();
    }
    stopped
}

/// A database for each lane.
pub(crate) fn databases(server: &impl Server, set_up: fn(&str)) -> Vec<String> {
    at_once((0..LANES).collect(), |_| {
        let url = server.database();
        set_up(&url);
        url
    })
}

/// Calls the function for all items at the same time.
pub(crate) fn at_once<T: Send, R: Send>(items: Vec<T>, call: impl Fn(T) -> R + Sync) -> Vec<R> {
    let call = &call;
    thread::scope(|scope| {
        let calls: Vec<_> = items
            .into_iter()
            .map(|item| scope.spawn(move || call(item)))
            .collect();
        let answers = calls.into_iter().map(|answer| answer.join().unwrap());
        answers.collect()
    })
}

/// A server that can be killed.
pub(crate) trait Server: Sync {
    fn database(&self) -> String;
    fn port(&self) -> u16;
    fn kill(&self);
    fn restart(&self);
}

macro_rules! server {
    ($Server:ty) => {
        impl Server for $Server {
            fn database(&self) -> String {
                self.database().unwrap()
            }

            fn port(&self) -> u16 {
                self.port()
            }

            fn kill(&self) {
                self.kill().unwrap();
            }

            fn restart(&self) {
                self.restart().unwrap();
            }
        }
    };
}

server!(PostgresServer);
server!(MariaDbServer);
