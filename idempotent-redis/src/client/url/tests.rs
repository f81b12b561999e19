//! What URLs mean, and which are refused.

use idempotent_runtime::store::StoreErrorKind;

use super::*;

fn host(host: &str, port: u16) -> Host {
    (host.to_owned(), port)
}

#[test]
fn one_server_is_named() {
    for (url, place, db) in [
        ("redis://h", host("h", 6379), 0),
        ("redis://h/", host("h", 6379), 0),
        ("redis://h:7000/3", host("h", 7000), 3),
        ("valkey://h", host("h", 6379), 0),
        ("redis://[::1]", host("::1", 6379), 0),
        ("redis://[fe80::1]:7000/1/", host("fe80::1", 7000), 1),
        ("redis://u:p%40%3A%2f@h:1?protocol=3", host("h", 1), 0),
    ] {
        let address = Address::parse(url).expect(url);
        assert_eq!(address.place, Servers::Server(place), "{url}");
        assert_eq!(address.login.db(), db, "{url}");
        assert!(!address.tls);
    }
}

#[test]
fn credentials_are_decoded() {
    for (url, user, password) in [
        ("redis://h", None, None),
        ("redis://@h", None, None),
        ("redis://:p@h", None, Some("p")),
        ("redis://u:p@h", Some("u"), Some("p")),
        ("redis://u:p%40%3A%2F%25:q@h", Some("u"), Some("p@:/%:q")),
        ("redis://u:p@q@h", Some("u"), Some("p@q")),
        ("redis://%C3%BC:%C3%BC@h", Some("ü"), Some("ü")),
        ("redis-cluster://u:p@a,b", Some("u"), Some("p")),
        ("redis-sentinel://:p@a,b/m", None, Some("p")),
        ("unix:///s?user=u&pass=p%26", Some("u"), Some("p&")),
    ] {
        let login = Address::parse(url).expect(url).login;
        assert_eq!(
            (login.username(), login.password()),
            (user, password),
            "{url}"
        );
    }
}

#[test]
fn sockets_are_named() {
    for url in [
        "unix:///tmp/a%20b.sock?db=2",
        "redis+unix:///tmp/a%20b.sock?db=2&protocol=2",
        "unix:/tmp/a%20b.sock?db=2",
        "valkey+unix://localhost/tmp/a%20b.sock?db=2",
    ] {
        let address = Address::parse(url).expect(url);
        assert_eq!(
            address.place,
            Servers::Socket("/tmp/a b.sock".into()),
            "{url}"
        );
        assert_eq!(address.login.db(), 2);
    }
}

#[test]
fn a_cluster_has_many_hosts() {
    let address = Address::parse("redis-cluster://u:p@a:1,b,[::1]:2,[::1]").expect("a cluster");
    let hosts = vec![
        host("a", 1),
        host("b", 6379),
        host("::1", 2),
        host("::1", 6379),
    ];
    assert_eq!(address.place, Servers::Cluster(hosts));
}

#[test]
fn sentinels_know_a_master_by_name() {
    let url = "redis-sentinel://u:p@a:1,b/my%20master/4?sentinel_user=s&sentinel_pass=t%26";
    let address = Address::parse(url).expect("sentinels");
    let place = Servers::Sentinels {
        sentinels: vec![host("a", 1), host("b", 26379)],
        master: "my master".to_owned(),
        credentials: Credentials {
            user: Some("s".to_owned()),
            password: Some("t&".to_owned()),
        },
    };
    assert_eq!(address.place, place);
    assert_eq!(address.login.db(), 4);
    assert!(!format!("{address:?}").contains("t&"));
}

#[test]
fn options_are_read() {
    for (url, allow) in [
        ("redis://h", None),
        ("redis://h?allow_eviction=true", Some(true)),
        ("redis://h/1?allow_eviction=false", Some(false)),
        (
            "redis-cluster://h?protocol=3&allow_eviction=true",
            Some(true),
        ),
        (
            "redis-sentinel://h/m?allow_eviction=true&protocol=resp3",
            Some(true),
        ),
        ("redis://h?", None),
    ] {
        let address = Address::parse(url).expect(url);
        assert_eq!(address.options.allow_eviction, allow, "{url}");
        let resp3 = address.login.protocol() == ProtocolVersion::RESP3;
        assert_eq!(resp3, url.contains("protocol"), "{url}");
    }
}

#[test]
fn batches_may_be_switched_off_anywhere() {
    for (url, batch) in [
        ("redis://h", None),
        ("redis://h?batch=false", Some(false)),
        ("redis-cluster://h?batch=true", Some(true)),
        ("redis-sentinel://h/m?batch=false&protocol=3", Some(false)),
        ("unix:///s?batch=false&db=1", Some(false)),
    ] {
        assert_eq!(
            Address::parse(url).expect(url).options.batch,
            batch,
            "{url}"
        );
    }
    let address = Address::parse("redis://h?batch_above=64").expect("a URL");
    assert_eq!(address.options.batch_above, Some(64));
}

#[test]
fn replicas_may_be_wanted_anywhere() {
    for (url, replicas, millis) in [
        ("redis://h", None, None),
        ("redis://h?replicas=1", Some(1), None),
        ("unix:///s?replicas=0&db=1", Some(0), None),
        ("redis-cluster://h?replica_timeout=70ms", None, Some(70)),
        (
            "redis-sentinel://h/m?replica_timeout=1s500ms&protocol=3&replicas=2",
            Some(2),
            Some(1500),
        ),
    ] {
        let address = Address::parse(url).expect(url);
        assert_eq!(address.options.replicas, replicas, "{url}");
        let timeout = millis.map(Duration::from_millis);
        assert_eq!(address.options.replica_timeout, timeout, "{url}");
    }
}

#[test]
fn an_invalid_url_is_refused_and_not_repeated() {
    for url in [
        "",
        "s3cret",
        "http://:s3cret@h",
        "redis:h",
        "redis:/s3cret",
        "redis://",
        "redis://:s3cret@",
        "redis://:s3cret@:6379",
        "redis://user:s3cret",
        "redis://:s3c/s3cret@h",
        "redis://:s3c?s3cret@h",
        "redis://:s3c#s3cret@h",
        "redis://:s3cret%@h",
        "redis://:s3cret%4@h",
        "redis://:s3cret%zz@h",
        "redis://:s3cret%ff@h",
        "redis://:s3cret@h:70000",
        "redis://:s3cret@h:0",
        "redis://:s3cret@h:-1",
        "redis://:s3cret@h:+1x",
        "redis://:s3cret@::1",
        "redis://:s3cret@[::1",
        "redis://:s3cret@[::1]6379",
        "redis://:s3cret@[s3cret]",
        "redis://:s3cret@h/s3cret",
        "redis://:s3cret@h/-1",
        "redis://:s3cret@h/1/2",
        "redis://:s3cret@h,h2",
        "redis://h?allow_eviction=1",
        "redis://h?allow_eviction",
        "redis://h?batch",
        "redis://h?batch_above=-1",
        "redis://:s3cret@h?batch=s3cret",
        "redis://h?protocol=4",
        "redis://:s3cret?replicas=s3cret",
        "redis://h?replicas=-1",
        "redis://h?replicas",
        "redis://h?replica_timeout=0ms",
        "redis://h?replica_timeout=200",
        "redis://:s3cret?replica_timeout=s3cret",
        "redis://:s3cret?allow_eviction=s3cret",
        "redis://:s3cret?allow_evction=true",
        "redis://h?pass=s3cret",
        "redis://h?sentinel_pass=s3cret",
        "redis-cluster://:s3cret@a,,b",
        "redis-cluster://:s3cret@a,b/s3cret",
        "redis-sentinel://:s3cret@a,b",
        "redis-sentinel://:s3cret@a,b/",
        "redis-sentinel://:s3cret@a,b//1",
        "redis-sentinel://:s3cret@a,b/master/s3cret",
        "redis-sentinel://127.0.0.1:1/s3cret@127.0.0.1",
        "redis-sentinel://a/master?sentinel_password=s3cret",
        "redis+unix://",
        "redis+unix://s3cret",
        "redis+unix:///",
        "unix:///a?db=s3cret",
        "rediss://:s3cret@h#insecure",
    ] {
        let error = Address::parse(url).expect_err(url);
        assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
        let text = format!("{error} {error:?} {error:#?}");
        assert!(!text.contains("s3c"), "{url}: {text}");
    }
}

#[test]
fn tls_needs_a_feature() {
    for scheme in ["rediss", "valkeys", "rediss-cluster", "rediss-sentinel"] {
        let parsed = Address::parse(&format!("{scheme}://:s3cret@h/0"));
        if cfg!(any(feature = "redis-rustls", feature = "redis-native-tls")) {
            assert!(parsed.expect(scheme).tls);
        } else {
            let error = parsed.expect_err(scheme);
            assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
            let text = format!("{error:?}");
            assert!(text.contains("redis-rustls"), "{text}");
        }
    }
}
