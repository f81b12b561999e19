//! `connect` and the doctor report a session that leaves this machine without TLS.
//!
//! The tests use a non-loopback address of this machine as the address of another machine.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::net::{IpAddr, TcpListener, UdpSocket};

use idempotence_test_servers::{MariaDbServer, Port, PostgresServer};
use idempotent_runtime::store::Level;
use idempotent_runtime::{Idempotency, Store};
use idempotent_sql::sql::sqlx::mysql::MySqlPoolOptions;
use idempotent_sql::sql::sqlx::postgres::PgPoolOptions;
use idempotent_sql::sql::sqlx::{MySql, Postgres};
use idempotent_sql::{MySqlStore, PostgresStore};

use crate::store::databases::{Fresh, connected};
use support::databases::Kind;
use support::log_capture::LogCapture;
use support::patient::patient;

const LEAVES: &str = "leaves this machine";

/// A non-loopback address of this machine.
fn outer_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // This sends nothing. It finds the address from which this machine would send.
    socket.connect("203.0.113.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    let usable = !address.is_loopback() && TcpListener::bind((address, 0)).is_ok();
    usable.then_some(address)
}

/// The warnings of an attempt to connect to a closed port.
async fn warnings(url: &str) -> Vec<String> {
    let log = LogCapture::start();
    let error = Idempotency::from_url(url).await.unwrap_err();
    assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
    log.events()
}

#[tokio::test]
async fn a_url_that_leaves_the_machine_without_verified_tls_is_warned_of_once() {
    let Some(address) = outer_address() else {
        return;
    };
    let port = Port::free().unwrap();
    let port = port.number();
    for (scheme, advice, unverified) in [
        ("postgres", "sslmode=verify-full", "sslmode=require"),
        ("postgresql", "sslmode=verify-full", "ssl-mode=prefer"),
        ("mysql", "ssl-mode=VERIFY_IDENTITY", "ssl-mode=REQUIRED"),
        ("mariadb", "ssl-mode=VERIFY_IDENTITY", "sslmode=preferred"),
    ] {
        for query in ["", unverified] {
            let url = format!("{scheme}://user:s3cret@{address}:{port}/d?{query}");
            let warnings = warnings(&url).await;
            assert_eq!(warnings.len(), 1, "{url}: {warnings:?}");
            assert!(
                warnings[0].starts_with("WARN ") && warnings[0].contains(LEAVES),
                "{warnings:?}"
            );
            assert!(warnings[0].contains(advice), "{warnings:?}");
            assert!(!warnings[0].contains("s3cret"), "{warnings:?}");
        }
    }
    // The last parameter wins.
    let turned = format!("postgres://u@{address}:{port}/d?sslmode=verify-full&sslmode=prefer");
    assert_eq!(warnings(&turned).await.len(), 1);
    let moved = format!("postgres://u@localhost:{port}/d?host={address}");
    assert_eq!(warnings(&moved).await.len(), 1);
}

#[tokio::test]
async fn a_url_with_a_verified_server_or_a_local_one_has_no_warning() {
    let port = Port::free().unwrap();
    let port = port.number();
    let mut urls = vec![
        format!("postgres://u:s3cret@127.0.0.1:{port}/d"),
        format!("postgres://u:s3cret@localhost:{port}/d?sslmode=disable"),
        format!("postgres://u:s3cret@[::1]:{port}/d"),
        format!("postgres://u:s3cret@db.invalid:{port}/d?host=%2Fno%2Fsuch%2Ffolder"),
        format!("postgres://u:s3cret@%2Fno%2Fsuch%2Ffolder:{port}/d"),
        format!("postgres://u:s3cret@db.invalid:{port}/d?hostaddr=127.0.0.1"),
        format!("mysql://u:s3cret@127.0.0.1:{port}/d"),
        format!("mysql://u:s3cret@[::1]:{port}/d"),
        format!("mariadb://u:s3cret@db.invalid:{port}/d?socket=%2Fno%2Fsuch.sock"),
    ];
    if let Some(address) = outer_address() {
        for (scheme, query) in [
            ("postgres", "sslmode=verify-full"),
            ("postgres", "application_name=a&ssl-mode=VERIFY-CA"),
            ("postgres", "ssl%6dode=verify%2Dfull"),
            ("mysql", "ssl-mode=VERIFY_IDENTITY"),
            ("mariadb", "charset=utf8mb4&sslmode=verify_ca"),
        ] {
            urls.push(format!("{scheme}://u:s3cret@{address}:{port}/d?{query}"));
        }
    }
    for url in urls {
        assert_eq!(warnings(&url).await, [""; 0], "{url}");
    }
}

/// The doctor's line about the session, with its level.
async fn session(store: impl Store) -> String {
    let diagnosis = patient(store).doctor().await.to_string();
    let mut lines = diagnosis.lines().filter(|line| line.contains("encrypted"));
    let line = lines
        .next()
        .unwrap_or_else(|| panic!("the doctor must report the session:\n{diagnosis}"));
    assert_eq!(lines.next(), None, "{diagnosis}");
    line.to_owned()
}

#[tokio::test]
async fn the_doctor_reports_a_readable_session_with_postgres() {
    let here = connected::<Postgres>(&Postgres::url()).await;
    let findings = session(here).await;
    assert!(findings.starts_with(&Level::Fine.to_string()), "{findings}");
    let Some(address) = outer_address() else {
        return;
    };
    let listen = format!("listen_addresses=127.0.0.1,{address}");
    let server = PostgresServer::start_with(["-c", &listen]).unwrap();
    let url = server.database().unwrap();
    let admin = connected::<Postgres>(&url).await;
    let rules = server.folder().join("data/pg_hba.conf");
    let mut rules = OpenOptions::new().append(true).open(rules).unwrap();
    writeln!(rules, "host all all {address}/32 trust").unwrap();
    Postgres::run(admin.pool(), "SELECT pg_reload_conf()")
        .await
        .unwrap();
    let outer = url.replace("127.0.0.1", &address.to_string());
    // The server rereads its rules some time later.
    let deadline = std::time::Instant::now() + crate::store::databases::MAX_WAIT;
    let store = loop {
        match PostgresStore::connect(&outer).await {
            Ok(store) => break store,
            Err(error) => assert!(std::time::Instant::now() < deadline, "{error:?}"),
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    };
    let pool = PgPoolOptions::new().connect_lazy(&outer).unwrap();
    for store in [store, PostgresStore::new(pool)] {
        let findings = session(store).await;
        assert!(
            findings.starts_with(&Level::Problem.to_string()),
            "{findings}"
        );
        assert!(findings.contains(LEAVES), "{findings}");
    }
}

#[tokio::test]
async fn the_doctor_reports_a_readable_session_with_mysql() {
    let here = connected::<MySql>(&MySql::url()).await;
    let findings = session(here).await;
    assert!(findings.starts_with(&Level::Fine.to_string()), "{findings}");
    let Some(address) = outer_address() else {
        return;
    };
    let listen = format!("--bind-address=127.0.0.1,{address}");
    let server = MariaDbServer::start_with([&*listen]).unwrap();
    let url = server.database().unwrap();
    let admin = connected::<MySql>(&url).await;
    let user = "CREATE USER outer_user IDENTIFIED BY 's3cret'; GRANT ALL ON *.* TO outer_user";
    MySql::run(admin.pool(), user).await.unwrap();
    let outer = url.replace("root@127.0.0.1", &format!("outer_user:s3cret@{address}"));
    let store = connected::<MySql>(&outer).await;
    let pool = MySqlPoolOptions::new().connect_lazy(&outer).unwrap();
    for store in [store, MySqlStore::new(pool)] {
        let findings = session(store).await;
        assert!(
            findings.starts_with(&Level::Problem.to_string()),
            "{findings}"
        );
        assert!(findings.contains(LEAVES), "{findings}");
    }
}
