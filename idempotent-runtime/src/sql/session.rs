//! Who stands between a process and its database, and may read or change what they say.

use crate::store::Finding;
use crate::store::Level::{Fine, Note, Problem, Warning};

/// The way to a server, as far as the options of the client tell.
#[derive(Debug, Clone, Copy)]
pub struct Server<'a> {
    pub user: &'a str,
    /// Whether the server is reached by a socket, or by a name or an address of this machine alone.
    pub is_local: bool,
    /// Whether TLS is asked for, and the certificate of the server is checked.
    pub is_verified: bool,
    /// What to write to have it checked.
    pub verify_parameter: &'static str,
}

/// What the server says of a session.
#[derive(Debug, Clone, Copy)]
pub struct Session {
    /// Nothing: the server does not say.
    pub is_encrypted: Option<bool>,
    /// Whether the server finds the other end of the session on its own machine.
    pub is_local: bool,
}

impl Server<'_> {
    /// Warns of a way on which others can read the password and the records, or answer in the server's place.
    pub(super) fn warn(&self, database: &str) {
        if self.is_local || self.is_verified {
            return;
        }
        tracing::warn!(
            target: "idempotence",
            "the connection to {database} leaves this machine, and its URL does not have the server's certificate checked: \
             somebody between can read the password and the records, and answer in the server's place. Write `?{}`, and \
             build sqlx with TLS (its feature `tls-rustls` or `tls-native-tls`)",
            self.verify_parameter
        );
    }
}

impl Session {
    pub(super) const UNKNOWN: Self = Self {
        is_encrypted: None,
        is_local: false,
    };

    /// What is to be told of a session that was made on this way.
    pub(super) fn finding(self, server: &Server<'_>) -> Finding {
        let write = format!(
            "write `?{}` in the URL, and build sqlx with TLS (its feature `tls-rustls` or `tls-native-tls`)",
            server.verify_parameter
        );
        match self.is_encrypted {
            Some(true) if server.is_local || server.is_verified => {
                Finding::new(Fine, "the session with the database is encrypted")
            }
            Some(true) => {
                let found = "the session with the database is encrypted, but nobody checks the certificate of the server: \
                             somebody between can answer in its place";
                Finding::new(Warning, found).advise(write)
            }
            Some(false) if server.is_local && self.is_local => {
                let found = "the session with the database is not encrypted, and does not leave this machine";
                Finding::new(Fine, found)
            }
            Some(false) if server.is_local || self.is_local => {
                let found = "the database finds the session not encrypted, and one of the two ends finds the other on \
                             another machine: there is a proxy, a tunnel or a container between";
                let advice = "see that what is between encrypts, if it leaves this machine";
                Finding::new(Note, found).advise(advice)
            }
            Some(false) => {
                let found = "the session with the database leaves this machine and is not encrypted: somebody between can \
                             read the password and the records, and change them";
                Finding::new(Problem, found).advise(write)
            }
            None => {
                let found = "the database does not say whether the session is encrypted";
                Finding::new(Note, found)
            }
        }
    }
}

/// Whether what is sent to this host stays on this machine. A name is not looked up: an answer of the network is no reason to
/// trust the network.
#[cfg(any(test, feature = "mysql", feature = "postgres"))]
pub(super) fn is_loopback(host: &str) -> bool {
    use std::net::{IpAddr, Ipv6Addr};

    let host = host.strip_suffix('.').unwrap_or(host);
    if host.eq_ignore_ascii_case("localhost") {
        return true;
    }
    let address = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .unwrap_or(host);
    match address.parse() {
        Ok(IpAddr::V4(address)) => address.is_loopback(),
        Ok(IpAddr::V6(address)) => {
            let mapped = address.to_ipv4_mapped();
            address == Ipv6Addr::LOCALHOST || mapped.is_some_and(|address| address.is_loopback())
        }
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Level;

    #[test]
    fn hosts_of_this_machine_alone_are_known() {
        for host in [
            "localhost",
            "LocalHost",
            "localhost.",
            "127.0.0.1",
            "127.9.8.7",
            "::1",
            "[::1]",
            "::ffff:127.0.0.1",
            "[::ffff:127.0.0.1]",
        ] {
            assert!(is_loopback(host), "{host}");
        }
        for host in [
            "",
            "db",
            "localhost.example.com",
            "notlocalhost",
            "127.0.0.1.example.com",
            "127.0.0.1,db",
            "128.0.0.1",
            "10.0.0.1",
            "0.0.0.0",
            "::",
            "[fd00::1]",
            "::ffff:10.0.0.1",
            "[::1",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
    }

    #[test]
    fn a_session_that_others_can_read_is_a_problem() {
        let level = |encrypted, local, (server_local, verified)| -> Level {
            let server = Server {
                user: "u",
                is_local: server_local,
                is_verified: verified,
                verify_parameter: "sslmode=verify-full",
            };
            let session = Session {
                is_encrypted: encrypted,
                is_local: local,
            };
            session.finding(&server).level()
        };
        for (encrypted, local, way, expected) in [
            (Some(false), false, (false, false), Problem),
            (Some(false), true, (true, false), Fine),
            // Through a port of a container, or a proxy before the server.
            (Some(false), false, (true, false), Note),
            (Some(false), true, (false, false), Note),
            (Some(true), false, (false, false), Warning),
            (Some(true), false, (false, true), Fine),
            (Some(true), true, (true, false), Fine),
            (None, false, (false, false), Note),
        ] {
            assert_eq!(
                level(encrypted, local, way),
                expected,
                "{encrypted:?} {local} {way:?}"
            );
        }
    }
}
