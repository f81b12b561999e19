//! Redis servers of the test's own, alone and together, and what may happen between them and a client.

mod cluster;
mod proxy;
mod resp;
mod sentinel;
mod server;
mod tls;
mod wait;

pub use self::cluster::{RedisCluster, SlotMove};
pub use self::proxy::{Direction, ProxyFault, RedisProxy, Seen};
pub use self::sentinel::RedisSentinels;
pub use self::server::RedisServer;
pub use self::tls::Certificates;
