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
mod op;
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
pub use self::op::Op;
#[cfg(unix)]
pub use self::postgres::PostgresServer;
#[cfg(unix)]
pub use self::redis::{
    Certificates, Direction, ProxyFault, RedisCluster, RedisProxy, RedisSentinels, RedisServer,
    Seen, SlotMove,
};
#[doc(inline)]
pub use crate::conformance;
