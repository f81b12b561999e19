//! The pages of promises and of security: each promise is one row, and each finding names tests that exist.

use super::{pages, root, table};

const SECURITY: &str = include_str!("../../SECURITY.md");

#[test]
fn each_promise_is_one_row_of_all_pages() {
    let texts: Vec<_> = pages().into_values().collect();
    let ids = [('S', 11), ('L', 3), ('M', 8), ('T', 6)];
    let ids = ids
        .into_iter()
        .flat_map(|(kind, last)| (1..=last).map(move |number| format!("| {kind}{number} | ")));
    for id in ids {
        let lines = texts.iter().flat_map(|text| text.lines());
        assert_eq!(
            lines.filter(|line| line.starts_with(&id)).count(),
            1,
            "{id}"
        );
    }
}

#[test]
fn each_finding_of_the_security_page_names_tests_that_exist() {
    let rows = table(SECURITY, "threat");
    assert!(rows.len() > 30, "{}", rows.len());
    for row in &rows[2..] {
        let test = row.split(" | ").nth(2).expect("a cell");
        for name in test.split('`').skip(1).step_by(2) {
            let folders = [root(), root().join("idempotent-runtime/src")];
            let is_there = folders.iter().any(|folder| folder.join(name).exists());
            assert!(is_there, "{name}: {row}");
        }
    }
}
