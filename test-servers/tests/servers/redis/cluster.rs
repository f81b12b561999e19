//! The private cluster.

use idempotence_test_servers::{RedisCluster, RedisServer};

use super::ask;

fn answer(server: &RedisServer, question: &str) -> String {
    ask(server.port(), question).unwrap()
}

#[test]
fn a_killed_master_is_replaced_and_comes_back_as_a_replica() {
    let cluster = RedisCluster::start(3, 1).unwrap();
    let ports: Vec<_> = cluster.nodes().iter().map(RedisServer::port).collect();
    assert_eq!(ports.len(), 6);
    for (port, url) in ports.iter().zip(cluster.urls()) {
        assert_eq!(url, format!("redis://127.0.0.1:{port}"));
        assert!(cluster.url().contains(&format!("127.0.0.1:{port}")));
    }
    assert!(cluster.url().starts_with("redis-cluster://127.0.0.1:"));

    let old = cluster.master_of("key").unwrap();
    assert_eq!(answer(old, "SET key value"), "+OK");
    assert!(answer(old, "WAIT 1 20000").starts_with(":1"));
    old.kill().unwrap();
    let new = cluster.wait_for_failover("key", old).unwrap();
    assert_eq!(answer(new, "GET key"), "$5\r\nvalue");
    old.restart().unwrap();
    // Every replica is in sync. On a slow machine there may have been another fail-over, so roles are not compared.
    cluster.wait_until_healthy().unwrap();
}

#[test]
fn a_moving_slot_redirects_clients() {
    let cluster = RedisCluster::start(2, 0).unwrap();
    let master = cluster.master_of("key").unwrap();
    assert_eq!(answer(master, "SET key value"), "+OK");

    let moving = cluster.begin_move("key").unwrap();
    let (from, to) = (moving.from(), moving.to());
    assert_eq!(from.port(), master.port());
    assert_eq!(answer(from, "GET key"), "$5\r\nvalue");
    assert!(answer(to, "GET key").starts_with("-MOVED"));
    let other = answer(from, "GET other{key}");
    assert!(other.starts_with("-ASK"), "{other}");
    moving.move_keys().unwrap();
    let asked = answer(from, "GET key");
    assert!(asked.ends_with(&format!(":{}", to.port())), "{asked}");
    assert!(asked.starts_with("-ASK"), "{asked}");

    moving.finish().unwrap();
    assert!(answer(from, "GET key").starts_with("-MOVED"));
    assert_eq!(answer(to, "GET key"), "$5\r\nvalue");
    assert_eq!(cluster.master_of("key").unwrap().port(), to.port());
}
