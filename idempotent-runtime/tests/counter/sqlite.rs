//! Attempts that are counted in a file of SQLite.

use idempotent_runtime::SqliteStore;

use crate::together::{counter, wrong};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_counts_50_attempts_at_once() {
    let name = format!("counter-{}.db", std::process::id());
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let store = SqliteStore::connect(&format!("sqlite:{}", file.display()))
        .await
        .unwrap();
    let begun = std::time::Instant::now();
    let wrong = wrong(&counter(store), 50).await;
    eprintln!("50 attempts at once in {:.1?}", begun.elapsed());
    for end in ["", "-wal", "-shm"] {
        let mut file = file.clone().into_os_string();
        file.push(end);
        let _ = std::fs::remove_file(file);
    }
    assert_eq!(wrong, None);
}
