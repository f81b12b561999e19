//! Stores on servers with TLS.

use std::sync::OnceLock;
use std::time::Instant;

use idempotence_test_servers::RedisServer;
use idempotent_redis::RedisOptions;
use idempotent_redis::RedisStore;
use idempotent_redis::redis::{cmd, from_redis_value};
use idempotent_runtime::StoreErrorKind;

use crate::store::nodes::connections;
use crate::store::servers::{
    MAX_WAIT, assert_works, assert_works_in_cluster, chain, connected_by, send,
};
use crate::store::waiting::assert_waiting_call_is_woken;

mod suite {
    idempotence::testkit::conformance!(super::on_the_shared_server());
}

async fn on_the_shared_server() -> RedisStore {
    static SERVER: OnceLock<RedisServer> = OnceLock::new();
    let server = SERVER.get_or_init(|| RedisServer::start_tls().unwrap());
    trusting(server).connect(&server.url()).await.unwrap()
}

fn trusting(server: &RedisServer) -> RedisOptions {
    let ca = server.certificates().unwrap().ca_pem();
    RedisStore::options().root_certificates(ca)
}

#[tokio::test]
async fn a_waiting_call_is_woken_over_tls() {
    let server = RedisServer::start_tls().unwrap();
    let options = trusting(&server);
    let here = options.clone().connect(&server.url()).await.unwrap();
    let there = options.connect(&server.url()).await.unwrap();
    assert_waiting_call_is_woken(here, there, &[server]).await;
}

#[tokio::test]
async fn an_untrusted_certificate_is_refused() {
    let (server, stranger) = (
        RedisServer::start_tls().unwrap(),
        RedisServer::start_tls().unwrap(),
    );
    let url = server.url();
    for options in [RedisStore::options(), trusting(&stranger)] {
        let error = options.connect(&url).await.unwrap_err();
        #[cfg(feature = "redis-rustls")]
        assert_eq!(
            error.kind(),
            StoreErrorKind::Misconfigured,
            "{}",
            chain(&error)
        );
        assert!(chain(&error).contains("certificate"), "{}", chain(&error));
    }
    // The certificate is not for this address.
    let elsewhere = url.replace("127.0.0.1", "127.0.0.2");
    trusting(&server).connect(&elsewhere).await.unwrap_err();
    let by_name = url.replace("127.0.0.1", "localhost");
    assert_works(&trusting(&server).connect(&by_name).await.unwrap()).await;
}

#[tokio::test]
async fn a_server_may_require_a_client_certificate() {
    let server = RedisServer::start_tls_with(["--tls-auth-clients", "yes"]).unwrap();
    let certificates = server.certificates().unwrap();
    let error = trusting(&server).connect(&server.url()).await.unwrap_err();
    assert_ne!(error.kind(), StoreErrorKind::Full, "{}", chain(&error));
    let (certificate, key) = (certificates.client_pem(), certificates.client_key_pem());
    let options = trusting(&server).client_certificate(certificate, key);
    assert!(!format!("{options:?}").contains("BEGIN"));
    assert_works(&options.connect(&server.url()).await.unwrap()).await;
}

#[tokio::test]
async fn invalid_certificates_are_a_misconfiguration() {
    let (plain, server) = (
        RedisServer::start().unwrap(),
        RedisServer::start_tls().unwrap(),
    );
    let certificates = server.certificates().unwrap();
    let (client, key) = (certificates.client_pem(), certificates.client_key_pem());
    let broken = client.replace(char::is_alphanumeric, "!");
    let options = RedisStore::options;
    for (options, url) in [
        (trusting(&server), plain.url()),
        (options().root_certificates("s3cret"), server.url()),
        (options().root_certificates(key), server.url()),
        (options().root_certificates(broken), server.url()),
        (options().client_certificate(client, "s3cret"), server.url()),
        (options().client_certificate(key, client), server.url()),
    ] {
        let error = options.connect(&url).await.unwrap_err();
        assert_eq!(
            error.kind(),
            StoreErrorKind::Misconfigured,
            "{}",
            chain(&error)
        );
        assert!(!chain(&error).contains("s3cret"));
    }
}

#[tokio::test]
async fn a_cluster_speaks_tls() {
    let args = [
        ["--cluster-enabled", "yes"],
        ["--tls-cluster", "yes"],
        ["--cluster-announce-ip", "127.0.0.1"],
    ];
    let args = <[&str; 6]>::try_from(args.concat()).unwrap();
    let server = RedisServer::start_tls_with(args).unwrap();
    let slots: Vec<_> = (0..16384).collect();
    send(&server, cmd("CLUSTER").arg("ADDSLOTS").arg(&slots)).await;
    let info = cmd("CLUSTER").arg("INFO").clone();
    let deadline = Instant::now() + MAX_WAIT;
    loop {
        let state: String = from_redis_value(send(&server, &info).await).unwrap();
        if state.contains("cluster_state:ok") {
            break;
        }
        assert!(Instant::now() < deadline, "{state}");
    }
    let url = server.url().replace("rediss", "rediss-cluster");
    if cfg!(feature = "redis-rustls") {
        let here = connected_by(&trusting(&server), &url).await;
        assert_works_in_cluster(&here).await;
        // Operations go straight to the node over a second connection.
        while connections(&server).await < 2 {
            assert!(Instant::now() < deadline, "the store must know its node");
            assert_works_in_cluster(&here).await;
        }
        assert_works_in_cluster(&here).await;
        let there = connected_by(&trusting(&server), &url).await;
        assert_waiting_call_is_woken(here, there, &[server]).await;
    } else {
        let error = trusting(&server).connect(&url).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
        assert!(chain(&error).contains("redis-rustls"), "{}", chain(&error));
    }
}

#[tokio::test]
async fn sentinels_and_their_master_speak_tls() {
    let master = RedisServer::start_tls().unwrap();
    let sentinel = RedisServer::start_tls_with(["--sentinel"]).unwrap();
    let port = master.port().to_string();
    let monitor = ["MONITOR", "mymaster", "127.0.0.1", &port, "1"];
    send(&sentinel, cmd("SENTINEL").arg(&monitor)).await;
    let both = [&master, &sentinel].map(|server| server.certificates().unwrap().ca_pem());
    let options = RedisStore::options().root_certificates(both.concat());
    let url = sentinel.url().replace("rediss", "rediss-sentinel") + "/mymaster";
    let here = connected_by(&options, &url).await;
    assert_works(&here).await;
    let there = connected_by(&options, &url).await;
    assert_waiting_call_is_woken(here, there, &[master]).await;
}

#[tokio::test]
async fn a_port_with_tls_and_a_url_without_it_do_not_match() {
    let (plain, tls) = (
        RedisServer::start().unwrap(),
        RedisServer::start_tls().unwrap(),
    );
    let plain_url = plain.url().replace("redis://", "rediss://");
    let tls_url = tls.url().replace("rediss://", "redis://");
    for url in [plain_url, tls_url] {
        let error = RedisStore::connect(&url).await.unwrap_err();
        assert_eq!(
            error.kind(),
            StoreErrorKind::NotApplied,
            "{}",
            chain(&error)
        );
    }
}
