//! The private sentinels.

use idempotence_test_servers::{RedisSentinels, RedisServer};

use super::ask;

#[test]
fn a_killed_master_is_replaced_and_comes_back_as_a_replica() {
    let group = RedisSentinels::start().unwrap();
    let ports = group.sentinels().iter().map(RedisServer::port);
    let addresses: Vec<_> = ports.map(|port| format!("127.0.0.1:{port}")).collect();
    let url = format!("redis-sentinel://{}/mymaster", addresses.join(","));
    assert_eq!(group.url(), url);

    let (old, replica) = (group.master().unwrap(), group.replica().unwrap());
    assert_eq!(old.port(), group.servers()[0].port());
    assert_eq!(ask(old.port(), "SET key value").unwrap(), "+OK");
    assert!(
        ask(replica.port(), "SET key value")
            .unwrap()
            .starts_with("-READONLY")
    );
    old.kill().unwrap();
    let new = group.wait_for_failover(old).unwrap();
    assert_eq!(new.port(), replica.port());
    assert_eq!(ask(new.port(), "SET key value").unwrap(), "+OK");
    old.restart().unwrap();
    // A replica is in sync. On a slow machine there may have been another fail-over, so roles are not compared.
    group.wait_until_healthy().unwrap();
}
