//! Tests that the docs agree with the catalog about every error.

use super::{Error, Facts};

const ERRORS: &str = include_str!("../../../../docs/guide/errors.md");

/// Every table of errors: its page and its head.
const TABLES: [(&str, &str); 5] = [
    (ERRORS, "| error | `code()` | what it means |"),
    (ERRORS, OF_CLIENTS),
    (include_str!("../advice.rs"), "| error | action | because |"),
    (
        include_str!("../../../../idempotent-http/src/integrations/axum.rs"),
        "| error | status |",
    ),
    (
        include_str!("../../../../idempotent-http/src/integrations/tonic.rs"),
        "| error | code |",
    ),
];

const OF_CLIENTS: &str = "| `code()` | HTTP | `client_action()` | `is_silent()` | the front end |";

#[test]
fn every_table_of_errors_agrees_with_the_catalog() {
    for (page, head) in TABLES {
        let columns = cells(head);
        let mut missing = named_samples();
        for row in rows(page, head) {
            for (name, error) in taken(&mut missing, &row[0]) {
                for (column, cell) in columns.iter().zip(&row).skip(1) {
                    let agrees = cell_agrees(column, cell, error.facts());
                    assert!(agrees, "{head}: {name}: {column}: {cell}");
                }
            }
        }
        assert!(missing.is_empty(), "{head}: {missing:?}");
    }
}

#[test]
fn a_front_end_shows_no_message_for_silent_errors_only() {
    let mut missing = named_samples();
    for row in rows(ERRORS, OF_CLIENTS) {
        let advice = row.last().expect("a cell");
        for (name, error) in taken(&mut missing, &row[0]) {
            assert_eq!(
                advice.starts_with("shows no message"),
                error.is_silent(),
                "{name}: {advice}"
            );
        }
    }
}

#[test]
fn the_page_of_errors_names_the_duplicates() {
    let (_, names) = ERRORS
        .split_once("`error.is_duplicate()` is true for ")
        .expect("a sentence about duplicates");
    let (names, _) = names.split_once('.').expect("an end of the sentence");
    let mut others = named_samples();
    let names = names
        .replace(" of an equal call", "")
        .replace(" and ", ", ");
    for (name, error) in taken(&mut others, &names) {
        assert!(error.is_duplicate(), "{name}");
    }
    for (name, error) in others {
        assert!(!error.is_duplicate(), "{name}");
    }
}

#[test]
fn the_page_of_errors_quotes_texts_exactly() {
    let (_, shown) = ERRORS.split_once("简体中文 (").expect("examples of texts");
    let (shown, _) = shown.split_once(", …)").expect("an end of the examples");
    let errors = Error::samples();
    for text in shown.split("`, `").map(|text| text.trim_matches('`')) {
        let known = errors.iter().any(|error| error.facts().zh_hans == text);
        assert!(known, "{text}");
    }
}

/// Whether this cell agrees with these facts.
fn cell_agrees(column: &str, cell: &str, facts: &Facts) -> bool {
    match column {
        "code()" => cell == facts.code,
        "client_action()" | "action" => bare(cell) == bare(facts.action.as_str()),
        "is_silent()" => cell == if facts.silent { "yes" } else { "no" },
        "HTTP" | "status" => cell == facts.http.to_string(),
        "code" => bare(cell) == bare(&format!("{:?}", facts.grpc)),
        "what it means" | "because" | "the front end" => true,
        _ => panic!("unknown column `{column}`"),
    }
}

/// A name without its word separators and its case: `new_token` and `NewToken` become equal.
fn bare(name: &str) -> String {
    name.replace(['_', '`'], "").to_lowercase()
}

/// Removes the samples that a first cell names, by their variants or codes, from `missing`, and returns them.
fn taken(missing: &mut Vec<(String, Error)>, names: &str) -> Vec<(String, Error)> {
    if names == "the others" {
        return std::mem::take(missing);
    }
    let take = |name: &str| {
        let name = name.trim_matches('`');
        let mut samples = missing.iter();
        let at = samples.position(|(variant, error)| variant == name || error.code() == name);
        missing.remove(at.unwrap_or_else(|| panic!("`{name}` is not an error, or is named twice")))
    };
    names.split(", ").map(take).collect()
}

/// One error of each variant, with the name of the variant.
fn named_samples() -> Vec<(String, Error)> {
    let named = |error: Error| {
        let debug = format!("{error:?}");
        let (name, _) = debug.split_once('(').expect("a variant");
        (name.to_owned(), error)
    };
    Error::samples().into_iter().map(named).collect()
}

/// The rows of the table with this head, in Markdown or in doc comments.
fn rows(page: &str, head: &str) -> Vec<Vec<String>> {
    let lines = page.lines().map(|line| {
        let line = line.trim_start_matches(['/', '!']);
        line.trim_start()
    });
    let lines = lines.skip_while(|line| *line != head).skip(2);
    lines
        .take_while(|line| line.starts_with('|'))
        .map(cells)
        .collect()
}

/// The cells of a row, without the backticks at their ends.
fn cells(row: &str) -> Vec<String> {
    let cells = row.trim_matches('|').split(" | ");
    cells
        .map(|cell| cell.trim().trim_matches('`').to_owned())
        .collect()
}
