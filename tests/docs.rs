//! Texts that are in two places are equal.

const README: &str = include_str!("../README.md");
const ATTRIBUTE: &str = include_str!("../docs/attribute.md");

/// The table with the first cell `head`.
fn table<'a>(page: &'a str, head: &str) -> Vec<&'a str> {
    let head = format!("| {head} |");
    let lines = page.lines().skip_while(|line| !line.starts_with(&head));
    lines.take_while(|line| line.starts_with('|')).collect()
}

#[test]
fn the_tables_of_the_attribute_equal_the_tables_of_the_readme() {
    for (head, rows) in [("option", 23), ("`release`", 3)] {
        let in_readme = table(README, head);
        assert_eq!(in_readme.len(), rows + 2, "the table of {head}");
        assert_eq!(in_readme, table(ATTRIBUTE, head));
    }
}
