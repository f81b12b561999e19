//! PostgreSQL and MariaDB: a crash at every message of the connection, one after the other.

use idempotence_test_servers::{MariaDbServer, PostgresServer};

use crate::crash::crash::{Crash, FIRST, both_sides_of_the_commit, lost, nothing_is_lost, twice};
use crate::crash::flow::{self, Flow};
use crate::crash::process::Process;
use support::wire::{Point, Wire};

/// Which program is killed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Victim {
    Process,
    Server,
}

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

/// Kills the victim at each message in turn, one message per call, until a call ends before its message.
fn at_every_message(server: &impl Server, flow: Flow, victim: Victim) -> Vec<Crash> {
    let url = server.database();
    flow::set_up(&url);
    let mut crashes = Vec::new();
    for (number, point) in (1..).zip(Point::all()) {
        let wire = Wire::to(server.port(), point);
        let mut process = Process::start(flow, &wire.url(&url), &Crash::first(number));
        if !wire.reached() {
            assert_eq!(process.answer().as_deref(), Ok(FIRST));
            break;
        }
        match victim {
            Victim::Process => process.kill(),
            Victim::Server => server.kill(),
        }
        let answer = process.answer().ok();
        if let Victim::Server = victim {
            server.restart();
        }
        crashes.push(Crash::after_a_retry(
            format!("{point:?}"),
            answer,
            flow,
            &url,
            number,
        ));
    }
    crashes
}

/// A server that can be killed.
pub(crate) trait Server {
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
