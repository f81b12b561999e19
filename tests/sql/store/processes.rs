//! Several processes share one file.

use std::env;
use std::io::{self, Write};
use std::process::{Command, Stdio};

use bytes::Bytes;
use idempotent_runtime::Store;
use idempotent_runtime::store::{Claim, Swap};
use idempotent_sql::sql::sqlx::Sqlite;

use crate::store::databases::{TTL, VALUE, connected};
use crate::store::races::claimed;
use support::databases::Kind;

const KEYS: usize = 100;
/// The environment variable with the path of the shared file.
const URL: &str = "SQL_STORE_URL";

#[tokio::test]
async fn processes_that_share_a_file_share_its_records() {
    let url = Sqlite::url();
    let mut processes = Vec::new();
    for _ in 0..4 {
        let process = Command::new(env::current_exe().unwrap())
            .args([
                "--exact",
                "store::processes::one_of_several_processes",
                "--nocapture",
            ])
            .env(URL, &url)
            .stdout(Stdio::piped())
            .spawn();
        processes.push(process.unwrap());
    }
    let mut won = 0;
    for process in processes {
        let output = process.wait_with_output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{printed}");
        let won_claims = printed.lines().find_map(|line| line.strip_prefix("won "));
        won += won_claims
            .expect("the number of won claims")
            .parse::<usize>()
            .unwrap();
    }
    assert_eq!(won, KEYS);
    let store = connected::<Sqlite>(&url).await;
    for key in 0..KEYS {
        let entry = store.get(&key.to_string()).await.unwrap();
        assert_eq!(entry.unwrap().value, VALUE);
    }
}

/// The code of the processes. Does nothing unless the test above has started the process.
#[tokio::test]
async fn one_of_several_processes() {
    let Ok(url) = env::var(URL) else {
        return;
    };
    let store = connected::<Sqlite>(&url).await;
    let own = Bytes::from(std::process::id().to_string());
    let mut won = 0;
    for key in 0..KEYS {
        let key = key.to_string();
        if claimed(&store, &key, &own, TTL).await {
            won += 1;
            let done = loop {
                if let Ok(swap) = store.replace(&key, &own, &VALUE, TTL).await {
                    break swap;
                }
            };
            assert_eq!(done, Swap::Done);
        }
        let taken = store.claim(&key, &Bytes::new(), TTL).await;
        assert_ne!(taken.unwrap_or(Claim::Taken(VALUE)), Claim::Claimed);
    }
    writeln!(io::stdout(), "\nwon {won}").unwrap();
}
