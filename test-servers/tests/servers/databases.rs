//! Tests of the private PostgreSQL and MariaDB servers.

use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::{Command, Stdio, abort};
use std::sync::Barrier;
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use idempotence_test_servers::{MariaDbServer, PostgresServer};
use sqlx::{Connection, Executor, MySqlConnection, PgConnection};
use tokio::time::timeout;

const ROLE: &str = "IDEMPOTENCE_TEST_ROLE";

macro_rules! tests {
    ($database:ident, $Server:ty, $Client:ty, $bad_argument:expr, $missing:expr) => {
        mod $database {
            use super::*;

            /// Executes a statement on a new connection.
            async fn execute(url: &str, statement: &'static str) -> sqlx::Result<()> {
                let mut connection = <$Client>::connect(url).await?;
                connection.execute(statement).await?;
                connection.close().await
            }

            #[tokio::test]
            async fn answers_until_it_is_dropped() {
                let server = <$Server>::start().unwrap();
                let (url, port) = (server.url(), server.port());
                assert!(url.contains(&format!("127.0.0.1:{port}")), "{url}");
                execute(&url, "SELECT 1").await.unwrap();
                drop(server);
                assert!(execute(&url, "SELECT 1").await.is_err());
            }

            #[tokio::test]
            async fn is_killed_and_started_again_with_what_was_committed() {
                let server = <$Server>::start().unwrap();
                let url = server.database().unwrap();
                execute(&url, "CREATE TABLE it (n INT PRIMARY KEY)")
                    .await
                    .unwrap();
                execute(&url, "INSERT INTO it VALUES (1)").await.unwrap();
                // The process of this connection must not outlive the server.
                let mut open = <$Client>::connect(&url).await.unwrap();
                let mut transaction = open.begin().await.unwrap();
                transaction
                    .execute("INSERT INTO it VALUES (2)")
                    .await
                    .unwrap();
                server.kill().unwrap();
                assert!(execute(&url, "SELECT 1").await.is_err());
                assert!(transaction.execute("SELECT 1").await.is_err());
                server.restart().unwrap();
                execute(&url, "INSERT INTO it VALUES (2)").await.unwrap();
                server.restart().unwrap();
                let again = execute(&url, "INSERT INTO it VALUES (1)")
                    .await
                    .unwrap_err();
                let again = again.as_database_error().unwrap();
                assert!(again.is_unique_violation(), "{again}");
            }

            #[tokio::test]
            async fn is_paused_and_resumed_with_its_connections() {
                let server = <$Server>::start().unwrap();
                let url = server.url();
                let mut open = <$Client>::connect(&url).await.unwrap();
                server.pause().unwrap();
                let wait = Duration::from_millis(200);
                assert!(timeout(wait, execute(&url, "SELECT 1")).await.is_err());
                {
                    let answer = open.execute("SELECT 1");
                    tokio::pin!(answer);
                    assert!(timeout(wait, &mut answer).await.is_err());
                    server.resume().unwrap();
                    answer.await.unwrap();
                }
                execute(&url, "SELECT 1").await.unwrap();
                // A paused server is removed as well.
                server.pause().unwrap();
            }

            #[tokio::test]
            async fn twenty_databases_are_made_at_once_and_differ() {
                let barrier = Barrier::new(20);
                let database = || {
                    barrier.wait();
                    <$Server>::shared().unwrap().database().unwrap()
                };
                let mut urls: Vec<_> = thread::scope(|scope| {
                    let threads: Vec<_> = (0..20).map(|_| scope.spawn(database)).collect();
                    threads.into_iter().map(|it| it.join().unwrap()).collect()
                });
                for url in &urls {
                    execute(url, "CREATE TABLE it (n INT PRIMARY KEY)")
                        .await
                        .unwrap();
                }
                urls.sort_unstable();
                urls.dedup();
                assert_eq!(urls.len(), 20);
            }

            #[test]
            fn says_why_it_does_not_start() {
                let error = <$Server>::start_with($bad_argument).unwrap_err();
                for part in ["does not start", "no_such_option"] {
                    assert!(error.to_string().contains(part), "{error}");
                }
            }

            /// Two tests below run this in another process. It does nothing unless they set [`ROLE`].
            #[test]
            fn in_another_process() {
                if env::var_os(ROLE).is_none() {
                    return;
                }
                // The test harness captures `eprintln!`, but not this.
                let mut output = std::io::stderr();
                match <$Server>::shared() {
                    Ok(server) => {
                        writeln!(output, "folder {}", server.folder().display()).unwrap();
                        abort();
                    }
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::NotFound);
                        writeln!(output, "{error}").unwrap();
                    }
                }
            }

            fn another_process() -> Command {
                let mut command = Command::new(env::current_exe().unwrap());
                let name = concat!("databases::", stringify!($database), "::in_another_process");
                command.args(["--exact", name, "--nocapture"]);
                command.env(ROLE, "server").stdout(Stdio::null());
                command
            }

            #[test]
            fn nothing_is_left_when_the_process_dies_without_destructors() {
                let output = another_process().output().unwrap();
                let text = String::from_utf8(output.stderr).unwrap();
                let folder = text.lines().find_map(|line| line.strip_prefix("folder "));
                let folder = Path::new(folder.unwrap());
                let deadline = Instant::now() + Duration::from_mins(1);
                // The folder is removed last.
                while folder.exists() {
                    assert!(Instant::now() < deadline, "{folder:?} still exists");
                    thread::sleep(Duration::from_millis(10));
                }
            }

            #[test]
            fn says_how_to_install_a_missing_program() {
                let (variable, value) = $missing;
                let output = another_process().env(variable, value).output().unwrap();
                let text = String::from_utf8(output.stderr).unwrap();
                for part in ["apt-get install", "brew install", variable] {
                    assert!(text.contains(part), "{text}");
                }
            }
        }
    };
}

tests!(
    postgres,
    PostgresServer,
    PgConnection,
    ["-c", "no_such_option=1"],
    ("POSTGRES_BIN", "/no/such/folder")
);
tests!(
    mariadb,
    MariaDbServer,
    MySqlConnection,
    ["--no_such_option"],
    ("MARIADBD", "no-such-server")
);

#[tokio::test]
async fn a_busy_postgres_process_is_killed_with_its_server() {
    let server = PostgresServer::start().unwrap();
    let url = server.url();
    let mut worker = PgConnection::connect(&url).await.unwrap();
    let work = tokio::spawn(async move { worker.execute("DO 'BEGIN LOOP END LOOP; END'").await });
    let mut observer = PgConnection::connect(&url).await.unwrap();
    let works = "SELECT 1 FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'DO%'";
    while observer.fetch_optional(works).await.unwrap().is_none() {
        assert!(!work.is_finished());
    }
    server.kill().unwrap();
    let ended = timeout(Duration::from_mins(1), work).await;
    let result = ended.expect("the killed process must not keep working");
    result.unwrap().unwrap_err();
    server.restart().unwrap();
}

#[test]
fn a_killed_postgres_leaves_no_shared_memory() {
    let server = PostgresServer::start().unwrap();
    let text = fs::read_to_string(server.folder().join("data/postmaster.pid")).unwrap();
    let segment = text
        .lines()
        .nth(6)
        .unwrap()
        .split_whitespace()
        .last()
        .unwrap();
    let segment_exists = || {
        let output = Command::new("ipcs").arg("-m").output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let mut segments = text
            .lines()
            .filter_map(|line| line.split_whitespace().nth(1));
        segments.any(|id| id == segment)
    };
    assert!(segment_exists());
    server.kill().unwrap();
    drop(server);
    assert!(!segment_exists());
}
