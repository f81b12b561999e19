//! For tests: stores that fail on purpose, stores that count, private servers of Redis, PostgreSQL and
//! MariaDB, a proxy, and the suite that every [`Store`](crate::Store) has to pass.
//!
//! Time is [`tokio::time`] everywhere in this crate, so the test clock is `tokio::time::pause()`,
//! or `#[tokio::test(start_paused = true)]`: for everything but real servers.

pub mod conformance;
mod counting;
mod faulty;
#[cfg(unix)]
mod keeper;
#[cfg(unix)]
mod mariadb;
#[cfg(unix)]
mod postgres;
#[cfg(unix)]
mod redis;
#[cfg(unix)]
mod sql_server;

pub use self::counting::{CountingStore, Counts};
pub use self::faulty::{Fault, FaultyStore};
#[cfg(unix)]
pub use self::mariadb::MariaDbServer;
#[cfg(unix)]
pub use self::postgres::PostgresServer;
#[cfg(unix)]
pub use self::redis::{
    Certificates, Direction, ProxyFault, RedisCluster, RedisProxy, RedisSentinels, RedisServer,
    Seen, SlotMove,
};
#[doc(inline)]
pub use crate::conformance;

/// An operation of a [`Store`](crate::Store).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    /// [`Store::claim`](crate::Store::claim)
    Claim,
    /// [`Store::replace`](crate::Store::replace), telling of it or not
    Replace,
    /// [`Store::remove`](crate::Store::remove), telling of it or not
    Remove,
    /// [`Store::get`](crate::Store::get)
    Get,
    /// [`Store::exchange`](crate::Store::exchange)
    Exchange,
    /// [`Store::count`](crate::Store::count)
    Count,
    /// [`Store::add`](crate::Store::add)
    Add,
    /// [`Store::take_out`](crate::Store::take_out)
    TakeOut,
    /// [`Store::mark`](crate::Store::mark)
    Mark,
    /// [`Store::fill`](crate::Store::fill)
    Fill,
}

impl Op {
    /// The four that every store has to have.
    pub const FOUR: [Self; 4] = [Self::Claim, Self::Replace, Self::Remove, Self::Get];

    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Claim,
        Self::Replace,
        Self::Remove,
        Self::Get,
        Self::Exchange,
        Self::Count,
        Self::Add,
        Self::TakeOut,
        Self::Mark,
        Self::Fill,
    ];
}
