//! The requests of one call, as a table of `benches/README.md`. Included by its path in the test programs of stores that have a command of
//! their own.

use std::fmt::Write as _;
use std::time::Duration;

use idempotence::store::Bytes;
use idempotence::{Error, Idempotency, Release, Store};

const README: &str = include_str!("../benches/README.md");
const MINUTE: Duration = Duration::from_mins(1);

/// Makes each call, and compares its requests with the table of the store. `since_last` counts the requests of each method since the last
/// question.
pub(crate) async fn compare<const N: usize>(
    store: impl Store + Clone,
    name: &str,
    methods: [&str; N],
    mut since_last: impl FnMut() -> [u64; N],
) {
    let mut table = format!("| on {name} | {} |\n| ---", methods.join(" | "));
    let columns = " | ---:".repeat(N);
    let _ = writeln!(table, "{columns} |");
    let mut row = |what: &str| {
        let counts = since_last().map(|count| count.to_string()).join(" | ");
        let _ = writeln!(table, "| {what} | {counts} |");
    };
    let handle = Idempotency::builder(store.clone()).deadline(MINUTE);
    let handle = handle.build().unwrap();
    let call = |key: &'static str| handle.call("requests").key(key).ttl(MINUTE);
    let body = || async { Ok::<_, Error>(7) };

    // The first request of a store may also learn the time or get a lease.
    store.get("warm").await.unwrap();
    call("warm").run(body()).await.unwrap();
    row("");
    call("replay").replay().run(body()).await.unwrap();
    row("first call");
    call("replay").replay().run(body()).await.unwrap();
    row("replay");
    call("warm").run(body()).await.unwrap_err();
    row("refused duplicate");
    let released = |key| call(key).release(Release::Always);
    released("release").run(body()).await.unwrap();
    row("first call, release");
    let several = released("one").also("two").also("three");
    several.run(body()).await.unwrap();
    row("first call, 2 further keys");
    released("fence").fence().run(body()).await.unwrap();
    row("first call, `fence`");
    released("fence").fence().run(body()).await.unwrap();
    row("the next call of the key, `fence`");
    let record = Bytes::from_static(b"record");
    store.claim("renewed", &record, MINUTE).await.unwrap();
    row("");
    let renewal = store.replace("renewed", &record, &record, MINUTE);
    renewal.await.unwrap();
    row("renewal");
    let table: Vec<_> = table
        .lines()
        .filter(|row| !row.starts_with("|  |"))
        .collect();
    let table = table.join("\n");
    assert!(
        README.contains(&table),
        "benches/README.md should have this table:\n{table}"
    );
}
