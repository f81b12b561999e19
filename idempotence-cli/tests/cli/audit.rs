//! The line for an audit of a release.

use serde_json::Value;

use crate::support::{Program, Ran, run, sqlite};

/// The line for an audit, which is one for each `release` that has found its key.
#[track_caller]
pub(crate) fn audit(ran: &Ran) -> Value {
    let mut lines = ran.err.lines().filter(|line| line.starts_with('{'));
    let (Some(line), None) = (lines.next(), lines.next()) else {
        panic!("{}", ran.err);
    };
    serde_json::from_str(line).unwrap()
}

#[test]
fn each_release_that_finds_its_key_writes_the_same_fields_for_an_audit() {
    let url = sqlite();
    Program::on(&url).pay(7);
    let release = ["release", "orders.pay", "--key", "7"];
    let fields = [
        (&["--yes"][..], "refused"),
        (&["--force"], "refused"),
        (&["--force", "--dry-run"], "dry_run"),
        (&["--force", "--yes"], "released"),
    ];
    let fields = fields.map(|(options, outcome)| {
        let line = audit(&run(&url, &[&release[..], options].concat()));
        assert_eq!(line["outcome"], outcome);
        assert_eq!(line["dry_run"], options.contains(&"--dry-run"));
        let fields = line.as_object().unwrap().keys();
        fields.cloned().collect::<Vec<_>>()
    });
    assert!(fields.iter().all(|line| *line == fields[0]), "{fields:?}");
    let free = run(&url, &[&release[..], &["--yes"]].concat());
    assert!(!free.err.contains('{'), "{}", free.err);
}

#[test]
fn a_removal_that_fails_has_an_unknown_outcome() {
    let url = sqlite();
    let program = Program::on(&url);
    program.pay(7);
    program.block_on(async {
        let pool = sqlx::SqlitePool::connect(&url).await.unwrap();
        let fails = "CREATE TRIGGER fails BEFORE DELETE ON idempotence \
                     BEGIN SELECT RAISE(ABORT, 'on purpose'); END";
        sqlx::raw_sql(fails).execute(&pool).await.unwrap();
    });
    let release = ["release", "orders.pay", "--key", "7", "--force", "--yes"];
    let failed = run(&url, &release);
    assert_eq!(failed.code, 1, "{}", failed.out);
    assert_eq!(audit(&failed)["outcome"], "unknown");
}
