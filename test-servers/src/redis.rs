//! Redis servers for tests: alone, as a cluster, behind sentinels, and a proxy that injects faults.

mod cluster;
mod proxy;
mod resp;
mod sentinel;
mod server;
mod tls;
mod wait;

pub use self::cluster::{RedisCluster, SlotMove};
pub use self::proxy::{Direction, ProxyFault, RedisProxy, Traffic};
pub use self::sentinel::RedisSentinels;
pub use self::server::RedisServer;
pub use self::tls::Certificates;
