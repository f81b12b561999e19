//! Whether a third party can read or change the messages between a process and its database.

use idempotent_runtime::store::Finding;
use idempotent_runtime::store::Level::{Fine, Note, Problem, Warning};

/// A server, as the options of the client describe it.
#[derive(Debug, Clone, Copy)]
pub struct Server<'a> {
    pub user: &'a str,
    /// Whether the connection uses a Unix socket or a loopback address.
    pub is_local: bool,
    /// Whether the options require TLS and a check of the server's certificate.
    pub is_verified: bool,
    /// The parameter of a URL that requires the check.
    pub verify_parameter: &'static str,
}

/// A session, as the server describes it.
#[derive(Debug, Clone, Copy)]
pub struct Session {
    /// `None`: the server does not report it.
    pub is_encrypted: Option<bool>,
    /// Whether the server sees the client on its own machine.
    pub is_local: bool,
}

impl Server<'_> {
    /// Logs a warning if a third party can read the password and the records, or answer in the server's place.
    pub(crate) fn warn(&self, database: &str) {
        if self.is_local || self.is_verified {
            return;
        }
        tracing::warn!(
            target: "idempotence",
            "the connection to {database} leaves this machine without a check of the server's certificate: a third party \
             on the network can read the password and the records, and answer in the server's place; write `?{}` in the \
             URL, and build sqlx with TLS (its feature `tls-rustls` or `tls-native-tls`)",
            self.verify_parameter
        );
    }
}

impl Session {
    pub(crate) const UNKNOWN: Self = Self {
        is_encrypted: None,
        is_local: false,
    };

    /// The finding about a session with `server`.
    pub(crate) fn finding(self, server: &Server<'_>) -> Finding {
        let write = format!(
            "write `?{}` in the URL, and build sqlx with TLS (its feature `tls-rustls` or `tls-native-tls`)",
            server.verify_parameter
        );
        match self.is_encrypted {
            Some(true) if server.is_local || server.is_verified => {
                Finding::new(Fine, "the session with the database is encrypted")
            }
            Some(true) => {
                let found = "the session with the database is encrypted, but the certificate of the server is not checked: \
                             a third party on the network can answer in its place";
                Finding::new(Warning, found).advise(write)
            }
            Some(false) if server.is_local && self.is_local => {
                let found = "the session with the database is not encrypted, and does not leave this machine";
                Finding::new(Fine, found)
            }
            Some(false) if server.is_local || self.is_local => {
                let found = "the session with the database is not encrypted, and passes through a proxy, a tunnel or a \
                             container: only one of its ends sees the other on the same machine";
                let advice = "encrypt the part of the way that leaves this machine";
                Finding::new(Note, found).advise(advice)
            }
            Some(false) => {
                let found = "the session with the database leaves this machine and is not encrypted: a third party on the \
                             network can read the password and the records, and change them";
                Finding::new(Problem, found).advise(write)
            }
            None => {
                let found = "the database does not report whether the session is encrypted";
                Finding::new(Note, found)
            }
        }
    }
}

/// Whether data sent to this host stays on this machine. Names are not resolved, because an answer from the network does not
/// prove that the network can be trusted.
#[cfg(any(test, feature = "mysql", feature = "postgres"))]
pub(crate) fn is_loopback(host: &str) -> bool {
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
    use idempotent_runtime::store::Level;

    use super::*;

    #[test]
    fn only_loopback_hosts_are_local() {
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
            // Through a published port of a container, or a proxy before the server.
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
