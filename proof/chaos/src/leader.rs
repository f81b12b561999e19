//! A server that answers, of any kind.

use std::io;

use idempotence::store::redis::redis::{Client, RedisResult, cmd, pipe};
use idempotence_test_servers::{MariaDbServer, RedisServer};

use crate::database;
use crate::history::{Micros, now};
use crate::stored::Stored;

/// A server that answers, of any kind.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Leader<'a> {
    Redis(&'a RedisServer),
    /// The server, and the URL of its database.
    MariaDb(&'a MariaDbServer, &'a str),
}

impl Leader<'_> {
    pub(crate) fn port(self) -> u16 {
        match self {
            Self::Redis(server) => server.port(),
            Self::MariaDb(server, _) => server.port(),
        }
    }

    pub(crate) fn kill(self) -> io::Result<()> {
        match self {
            Self::Redis(server) => server.kill(),
            Self::MariaDb(server, _) => server.kill(),
        }
    }

    pub(crate) fn restart(self) -> io::Result<()> {
        match self {
            Self::Redis(server) => server.restart(),
            Self::MariaDb(server, _) => server.restart(),
        }
    }

    pub(crate) fn pause(self) -> io::Result<()> {
        match self {
            Self::Redis(server) => server.pause(),
            Self::MariaDb(server, _) => server.pause(),
        }
    }

    pub(crate) fn resume(self) -> io::Result<()> {
        match self {
            Self::Redis(server) => server.resume(),
            Self::MariaDb(server, _) => server.resume(),
        }
    }

    /// Writes this key. Returns the time of a write that is on a replica; `None` if no replica has one in time.
    pub(crate) fn replicated(self, key: &str) -> Option<Micros> {
        let Self::Redis(server) = self else {
            return None;
        };
        let mut connection = Client::open(server.url()).ok()?.get_connection().ok()?;
        (0..20).find_map(|_| {
            let at = now();
            let mut write = pipe();
            write.cmd("SET").arg(key).arg("").arg("EX").arg(60).ignore();
            write.cmd("WAIT").arg(1).arg(500);
            let (replicas,): (u32,) = write.query(&mut connection).ok()?;
            (replicas > 0).then_some(at)
        })
    }

    /// Makes the server close the connections of all its other clients.
    pub(crate) fn cut_clients(self) -> io::Result<()> {
        match self {
            Self::Redis(server) => cut_clients(&server.url()).map_err(io::Error::other),
            Self::MariaDb(_, url) => database::cut_clients(url).map_err(io::Error::other),
        }
    }

    /// Makes the server forget scripts, or statements that clients have prepared.
    pub(crate) fn flush_scripts(self) -> io::Result<()> {
        match self {
            Self::Redis(server) => flush_scripts(&server.url()).map_err(io::Error::other),
            Self::MariaDb(_, url) => database::flush_statements(url).map_err(io::Error::other),
        }
    }

    /// Adds the records of the server.
    pub(crate) fn read(self, stored: &mut Stored) -> io::Result<()> {
        match self {
            Self::Redis(server) => stored.add(&server.url()).map_err(io::Error::other),
            Self::MariaDb(_, url) => database::read(url, stored).map_err(io::Error::other),
        }
    }
}

fn flush_scripts(url: &str) -> RedisResult<()> {
    let mut connection = Client::open(url)?.get_connection()?;
    cmd("SCRIPT").arg("FLUSH").query(&mut connection)
}

fn cut_clients(url: &str) -> RedisResult<()> {
    let mut connection = Client::open(url)?.get_connection()?;
    let mut kill = cmd("CLIENT");
    kill.arg("KILL").arg("TYPE").arg("normal");
    kill.query::<u64>(&mut connection).map(drop)
}
