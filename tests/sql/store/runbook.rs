//! The statements of the runbook find a stuck key, and free it.

use bytes::Bytes;
use idempotent_runtime::Store as _;

use crate::store::databases::{Fresh, TTL, store};

on_every_database! {
    the_statements_of_the_runbook_find_a_key_and_free_it
}

const PAGE: &str = include_str!("../../../docs/guide/runbooks.md");
const DIGEST: &str = "2240b97d9d372bb6826bd81d3542a419";
const OWNER: &str = "Dx4tPEtaaXiHlqW0w9Lh8A";

async fn the_statements_of_the_runbook_find_a_key_and_free_it<DB: Fresh>() {
    let (_, section) = PAGE.split_once(&format!("\n{}", DB::NAME)).unwrap();
    let (_, section) = section.split_once("```sql\n").unwrap();
    let (statements, _) = section.split_once(";\n```").unwrap();
    let (find, free) = statements.split_once(";\n").unwrap();

    let store = store::<DB>().await;
    let record =
        format!("idem2 D {OWNER} 1795253400250 33000 2240b97d..web-3:4242 - json:ok:0:9f86d081\n");
    // A result need not be text.
    let record = Bytes::from([record.as_bytes(), &[0xff, 0]].concat());
    for key in [DIGEST, "2240b97e9d372bb6826bd81d3542a419"] {
        let key = format!("idem:orders.pay:{key}");
        store.claim(&key, &record, TTL).await.unwrap();
    }

    let found = format!(
        "SELECT count(*) FROM ({find}) AS found WHERE line LIKE 'idem2 D {OWNER}%:9f86d081%'"
    );
    assert_eq!(DB::number(store.pool(), &found).await, 1);

    let free = free.replace("2240b97d9d37…", DIGEST);
    let all = "SELECT count(*) FROM idempotence";
    for (owner, left) in [("ffff", 2), (OWNER, 1)] {
        let free = free.replace("Dx4t…", owner);
        DB::run(store.pool(), &free).await.unwrap();
        assert_eq!(DB::number(store.pool(), all).await, left, "{free}");
    }
}
