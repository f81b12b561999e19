//! Tests that the password in a URL never appears in an output, even if it is in the wrong part of the URL.
//!
//! The tests check all logs of this crate and of the clients of Redis and the databases, on every level.

use std::error::Error as StdError;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use idempotence_test_servers::{MariaDbServer, Port, PostgresServer, RedisServer};
use idempotent_runtime::Idempotency;
use idempotent_sql::{MySqlStore, PostgresStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::recorder::{Recorder, Recording};

/// The password. Some URLs have `12` before it, because a parser may read `12` as a port.
const SECRET: &str = "s3cret";

/// URLs for a server at this address, each with the password in another valid or invalid part.
fn urls(at: &str) -> Vec<String> {
    let mut urls = redis_urls(at);
    urls.extend(database_urls(at));
    for scheme in ["", "http", "memory", "postgress", "redi", SECRET] {
        urls.push(format!("{scheme}://u:{SECRET}@{at}/d"));
        urls.push(format!("{scheme}:{SECRET}"));
    }
    urls
}

fn redis_urls(at: &str) -> Vec<String> {
    let mut urls = Vec::new();
    for scheme in [
        "redis",
        "rediss",
        "valkey",
        "redis-cluster",
        "rediss-cluster",
        "redis-sentinel",
    ] {
        // The path of a sentinel URL names the master.
        let path = if scheme.ends_with("sentinel") {
            "/m"
        } else {
            ""
        };
        for rest in [
            format!("//:{SECRET}@{at}{path}"),
            format!("//u:{SECRET}@{at}{path}"),
            format!("//{SECRET}@{at}{path}"),
            format!("//{SECRET}:u@{at}{path}"),
            format!("//u:{SECRET}@{at}{path}?protocol=3"),
            format!("//u:{SECRET}@{at}{path}/0"),
            format!("//u:{SECRET}@{at}{path}/{SECRET}"),
            format!("//u:{SECRET}"),
            format!("//:12/{SECRET}@{at}{path}"),
            format!("//:12?{SECRET}@{at}{path}"),
            format!("//:12#{SECRET}@{at}{path}"),
            format!("//:{SECRET}%@{at}{path}"),
            format!("//:{SECRET}@{at}:{SECRET}{path}"),
            format!("//{at}{path}?password={SECRET}"),
            format!("//{at}{path}?pass={SECRET}"),
            format!("//{at}{path}?{SECRET}"),
            format!("//{at}{path}?replicas={SECRET}"),
            format!("//{at}{path}#{SECRET}"),
            format!(":{SECRET}@{at}{path}"),
        ] {
            urls.push(format!("{scheme}:{rest}"));
        }
    }
    urls.push(format!(
        "redis-sentinel://{at}/m?sentinel_user=u&sentinel_pass={SECRET}"
    ));
    for scheme in ["redis+unix", "unix", "valkey+unix"] {
        for rest in [
            format!("///no/such.sock?user=u&pass={SECRET}"),
            format!("///no/such.sock?password={SECRET}"),
            format!("///no/such.sock?db={SECRET}"),
            format!("///no/such.sock#{SECRET}"),
        ] {
            urls.push(format!("{scheme}:{rest}"));
        }
    }
    urls
}

fn database_urls(at: &str) -> Vec<String> {
    let mut urls = Vec::new();
    for scheme in ["postgres", "postgresql", "mysql", "mariadb"] {
        for rest in [
            format!("//u:{SECRET}@{at}/d"),
            format!("//:{SECRET}@{at}/d"),
            format!("//{SECRET}@{at}/d"),
            format!("//{SECRET}:u@{at}/d"),
            format!("//u:{SECRET}@{at}/d?sslmode=verify-full"),
            format!("//u:{SECRET}@{at}/d?ssl-mode=VERIFY_IDENTITY"),
            format!("//u:{SECRET}"),
            format!("//u:{SECRET}@"),
            format!("//u:{SECRET}@{at}:{SECRET}/d"),
            format!("//u:{SECRET}/12@{at}/d"),
            format!("//u:12/{SECRET}@{at}/d"),
            format!("//u:12?{SECRET}@{at}/d"),
            format!("//u:12&{SECRET}?{SECRET}@{at}/d"),
            format!("//u:?sslmode={SECRET}@{at}/d"),
            format!("//u:?{SECRET}=1@{at}/d"),
            format!("//u:12#{SECRET}@{at}/d"),
            format!("//u:{SECRET}%ff@{at}/d"),
            format!("//u:%{SECRET}@{at}/d"),
            format!("//{at}/d?user=u&password={SECRET}"),
            format!("//{at}/d?user={SECRET}"),
            format!("//{at}/d?pasword={SECRET}"),
            format!("//{at}/d?pass={SECRET}"),
            format!("//{at}/d?pwd={SECRET}"),
            format!("//{at}/d?password=12&{SECRET}"),
            format!("//{at}/d?password=12&{SECRET}=12"),
            format!("//{at}/d?{SECRET}"),
            format!("//{at}/d?{SECRET}="),
            format!("//{at}/d?sslmode={SECRET}"),
            format!("//{at}/d?ssl-mode={SECRET}"),
            format!("//{at}/d?sslkey={SECRET}&sslmode=verify-full"),
            format!("//{at}/d?ssl_key={SECRET}"),
            format!("//{at}/d?statement-cache-capacity={SECRET}"),
            format!("//{at}/d?port={SECRET}"),
            format!("//{at}/d?hostaddr={SECRET}"),
            format!("//{at}/d?options[a={SECRET}"),
            format!("//{at}/d#{SECRET}"),
            format!("u:{SECRET}@{at}/d"),
            format!("/u:{SECRET}@{at}/d"),
            format!(" //u:{SECRET}@{at}/d"),
        ] {
            urls.push(format!("{scheme}:{rest}"));
        }
    }
    for rest in [
        format!("//u:{SECRET}@{at}/d"),
        format!("u:{SECRET}@{at}/no/such/file"),
        format!("//u:{SECRET}/no/such/file"),
        format!(":memory:?password={SECRET}"),
        format!(":memory:?key={SECRET}"),
        format!(":memory:?{SECRET}"),
        format!(":memory:?mode={SECRET}"),
        format!(":memory:?cache={SECRET}"),
        format!(":memory:?immutable={SECRET}"),
    ] {
        urls.push(format!("sqlite:{rest}"));
    }
    urls
}

/// Connects to a URL, and returns everything that a program may print about the result.
async fn printed(url: &str) -> String {
    let mut output = String::new();
    match Idempotency::from_url(url).await {
        Ok(handle) => {
            let store: Result<(), _> = handle
                .call("orders.pay")
                .key(&1)
                .ttl(Duration::from_secs(30))
                .run(async { Ok::<_, idempotent_runtime::Error>(()) })
                .await;
            write!(output, "{handle:?} {handle:#?} {store:?}").unwrap();
            write!(output, "{}", handle.doctor().await).unwrap();
        }
        Err(error) => {
            write!(output, "{error} {error:?} {error:#?}").unwrap();
            let mut cause = error.source();
            while let Some(error) = cause {
                write!(output, "{error} {error:?} {error:#?}").unwrap();
                cause = error.source();
            }
        }
    }
    output
}

/// Checks that neither the output for any of these URLs nor the log contains the password.
async fn assert_no_leak(urls: &[String], log: &Recording) {
    let output = join_all(urls.iter().map(|url| printed(url))).await;
    for (url, output) in urls.iter().zip(output) {
        assert!(!output.contains(SECRET), "{url}: {output}");
    }
    let logged = log.take();
    let line = logged.lines().find(|line| line.contains(SECRET));
    assert_eq!(line, None, "in the log");
}

/// Starts a server that answers each command with an error that repeats the command. Redis does this for unknown commands.
async fn echo_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut buffer = vec![0; 4096];
                while let Ok(length @ 1..) = client.read(&mut buffer).await {
                    let text = String::from_utf8_lossy(&buffer[..length]);
                    let commands = text.matches('*').count().max(1);
                    let words = text.replace(['\r', '\n'], " ");
                    let answer =
                        format!("-ERR unknown command, with args beginning with: {words}\r\n");
                    if client
                        .write_all(answer.repeat(commands).as_bytes())
                        .await
                        .is_err()
                    {
                        break;
                    }
                }
            });
        }
    });
    address.to_string()
}

#[tokio::test]
async fn a_password_in_any_part_of_a_url_appears_in_no_output() {
    let log = Recording::of_the_process();
    let before = Recorder::count();
    let closed = Port::free().unwrap();
    assert_no_leak(&urls(&format!("127.0.0.1:{}", closed.number())), &log).await;
    assert_no_leak(&urls(&echo_server().await), &log).await;
    assert!(Recorder::count() > before, "the log must contain events");
}

#[tokio::test]
async fn a_password_appears_in_no_output_of_a_successful_or_refused_login() {
    let log = Recording::of_the_process();
    let redis = RedisServer::start_with(["--requirepass", SECRET]).unwrap();
    let at = format!("127.0.0.1:{}", redis.port());
    let urls = ["redis", "redis-cluster", "redis-sentinel"].map(|scheme| {
        let path = if scheme == "redis-sentinel" { "/m" } else { "" };
        ["", "wrong-"].map(|wrong| {
            ["2", "3"].map(|protocol| {
                format!("{scheme}://default:{wrong}{SECRET}@{at}{path}?protocol={protocol}")
            })
        })
    });
    assert_no_leak(urls.as_flattened().as_flattened(), &log).await;

    let server = PostgresServer::start().unwrap();
    let url = server.database().unwrap();
    let admin = PostgresStore::connect(&url).await.unwrap();
    let user = "CREATE ROLE shop_user SUPERUSER LOGIN PASSWORD 's3cret'";
    run(admin.pool(), user).await;
    let rules = server.folder().join("data/pg_hba.conf");
    std::fs::write(rules, "host all all 127.0.0.1/32 scram-sha-256\n").unwrap();
    run(admin.pool(), "SELECT pg_reload_conf()").await;
    let deadline = Instant::now() + Duration::from_secs(30);
    while PostgresStore::connect(&url).await.is_ok() {
        assert!(
            Instant::now() < deadline,
            "the server must require passwords"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let in_place = url.replace("postgres@", &format!("shop_user:{SECRET}@"));
    PostgresStore::connect(&in_place).await.unwrap();
    log.take();
    assert_no_leak(&logins(&url, "postgres@"), &log).await;

    let server = MariaDbServer::start().unwrap();
    let url = server.database().unwrap();
    let admin = MySqlStore::connect(&url).await.unwrap();
    let user = "CREATE USER shop_user IDENTIFIED BY 's3cret'; GRANT ALL ON *.* TO shop_user";
    let user = idempotent_sql::sql::sqlx::raw_sql(user);
    user.execute(admin.pool()).await.unwrap();
    let in_place = url.replace("root@", &format!("shop_user:{SECRET}@"));
    MySqlStore::connect(&in_place).await.unwrap();
    log.take();
    assert_no_leak(&logins(&url, "root@"), &log).await;
}

async fn run(pool: &idempotent_sql::sql::sqlx::PgPool, statement: &'static str) {
    let statement = idempotent_sql::sql::sqlx::raw_sql(statement);
    statement.execute(pool).await.unwrap();
}

/// This URL with other logins in place of `login`.
fn logins(url: &str, login: &str) -> Vec<String> {
    [
        format!("shop_user:{SECRET}@"),
        format!("shop_user:wrong-{SECRET}@"),
        format!("nobody:{SECRET}@"),
        format!("{SECRET}:shop_user@"),
        format!("{SECRET}@"),
        format!("{SECRET}:@"),
        format!(":{SECRET}@"),
    ]
    .map(|other| url.replace(login, &other))
    .into()
}
