//! PostgreSQL and MariaDB: a crash at every message of the connection.

use idempotence_test_servers::{MariaDbServer, PostgresServer};

use crate::crash::flow::{self, Flow};
use crate::crash::lanes::{LANES, Server, Victim, at_once, databases, stop_at};
use crate::crash::outcome::{Crash, FIRST, both_sides_of_the_commit, lost, nothing_is_lost, twice};
use crate::crash::process::Process;
use support::wire::Point;

macro_rules! tests {
    ($database:ident, $Server:ty) => {
        mod $database {
            use super::*;

            fn crashes(flow: Flow, victim: Victim) -> Vec<Crash> {
                match victim {
                    Victim::Process => at_every_message(<$Server>::shared().unwrap(), flow, victim),
                    Victim::Server => at_every_message(&<$Server>::start().unwrap(), flow, victim),
                }
            }

            #[test]
            fn a_process_killed_at_any_message_loses_nothing() {
                let crashes = crashes(Flow::InTheTransaction, Victim::Process);
                nothing_is_lost(&crashes);
                both_sides_of_the_commit(&crashes);
            }

            #[test]
            fn a_server_killed_at_any_message_loses_nothing() {
                let crashes = crashes(Flow::InTheTransaction, Victim::Server);
                nothing_is_lost(&crashes);
                both_sides_of_the_commit(&crashes);
            }

            #[test]
            fn a_row_that_is_committed_before_the_work_loses_the_operation() {
                let crashes = crashes(Flow::MarkedFirst, Victim::Process);
                assert!(crashes.iter().any(lost), "{crashes:#?}");
            }

            #[test]
            fn a_row_that_is_committed_after_the_work_lets_it_happen_twice() {
                let crashes = crashes(Flow::MarkedLast, Victim::Process);
                assert!(crashes.iter().any(twice), "{crashes:#?}");
            }
        }
    };
}

tests!(postgres, PostgresServer);
tests!(mariadb, MariaDbServer);

/// Kills the victim at each message, one message per call, until a call ends before its message.
fn at_every_message(server: &impl Server, flow: Flow, victim: Victim) -> Vec<Crash> {
    let databases = databases(server, flow::set_up);
    let mut crashes = Vec::new();
    let mut points = Point::all();
    for number in 1.. {
        let points: Vec<_> = points.by_ref().take(LANES).collect();
        let start = |_, url: &str| Process::start(flow, url, &Crash::first(number));
        let stopped = stop_at(&points, &databases, server, victim, start, Process::answer);
        let (reached, ended): (Vec<_>, Vec<_>) =
            stopped.into_iter().partition(|lane| lane.is_reached);
        crashes.extend(at_once(reached, |lane| {
            let (place, answer) = (format!("{:?}", lane.point), lane.printed.ok());
            Crash::after_a_retry(place, answer, flow, &lane.url, number)
        }));
        for lane in &ended {
            assert_eq!(lane.printed.as_deref(), Ok(FIRST), "{:?}", lane.point);
        }
        if !ended.is_empty() {
            break;
        }
    }
    crashes
}
