#![doc = include_str!("../README.md")]
#![cfg(unix)]

mod etcd;
mod mariadb;
mod moto;
mod pgbouncer;
mod ports;
mod postgres;
mod program;
mod redis;
mod shared;
mod sql_server;
mod supervisor;

pub use self::etcd::{EtcdCluster, EtcdMember};
pub use self::mariadb::MariaDbServer;
pub use self::moto::MotoServer;
pub use self::pgbouncer::PgBouncer;
pub use self::ports::Port;
pub use self::postgres::PostgresServer;
pub use self::redis::{
    Certificates, Direction, ProxyFault, RedisCluster, RedisProxy, RedisSentinels, RedisServer,
    SlotMove, Traffic,
};
