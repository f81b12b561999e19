//! The form of the pages of the guide: title, begin, end, table cells, hidden lines, and the number of words.

use std::collections::BTreeMap;
use std::fs;

use super::root;

/// How many words each page has room for, as `wc -w` counts. A page that needs more moves something to another page or to rustdoc.
const PLAN: [(&str, usize); 31] = [
    ("../../README.md", 950),
    ("../../llms.txt", 800),
    ("attribute.md", 2200),
    ("choosing.md", 750),
    ("command.md", 400),
    ("errors.md", 1300),
    ("etcd.md", 480),
    ("faq.md", 800),
    ("fingerprint.md", 800),
    ("guarantees.md", 1900),
    ("hand-written.md", 500),
    ("how-it-works.md", 550),
    ("http-answers.md", 950),
    ("http-frameworks.md", 850),
    ("http-profiles.md", 700),
    ("http.md", 1400),
    ("keys.md", 450),
    ("managed-redis.md", 500),
    ("mechanisms.md", 1150),
    ("migrating.md", 650),
    ("observability.md", 600),
    ("recipes.md", 1650),
    ("results.md", 700),
    ("runbooks.md", 1100),
    ("runtimes.md", 400),
    ("settings.md", 550),
    ("sql.md", 2200),
    ("store.md", 500),
    ("stores.md", 1050),
    ("testing.md", 400),
    ("vendors.md", 650),
];

#[test]
#[expect(clippy::print_stdout, reason = "CI prints the words of each page")]
fn words_per_page_within_the_plan() {
    let mut words = BTreeMap::new();
    for (page, plan) in PLAN {
        let path = root().join("docs/guide").join(page);
        let text = fs::read_to_string(path).expect("a page");
        words.insert(page, (text.split_whitespace().count(), plan));
    }
    let mut planned: Vec<_> = guide().into_keys().collect();
    planned.retain(|page| page != "SUMMARY.md");
    let listed = words.keys().filter(|page| !page.starts_with('.'));
    assert!(listed.eq(planned.iter()), "each page has a plan");

    for (page, (words, plan)) in &words {
        let mark = if words > plan { "above the plan" } else { "" };
        println!("{words:6} of {plan:5}  {page} {mark}");
    }
    let [all, plan] = words.values().fold([0, 0], |[all, sum], (words, plan)| {
        [all + words, sum + plan]
    });
    println!("{all:6} of {plan:5}  all pages");
    words.retain(|_, (words, plan)| *words * 100 > *plan * 115);
    assert!(words.is_empty(), "more than 15 % above the plan: {words:?}");
}

#[test]
fn a_page_has_one_title_and_says_who_needs_it_and_what_is_elsewhere() {
    for (page, text) in guide() {
        let titles = outside_of_code(&text).filter(|line| line.starts_with("# "));
        assert_eq!(titles.count(), 1, "{page}");
        if page != "SUMMARY.md" {
            let begin = text.lines().nth(2).unwrap_or_default();
            assert!(begin.starts_with("You need this if"), "{page}: {begin}");
            assert!(text.contains("\nNot here: "), "{page}");
        }
    }
}

#[test]
fn a_cell_of_a_table_has_at_most_25_words() {
    for (page, text) in guide() {
        for row in outside_of_code(&text).filter(|line| line.starts_with("| ")) {
            for cell in row.split(" | ") {
                let words = cell.trim_matches('|').split_whitespace().count();
                assert!(words <= 25, "{page}, {words}: {cell}");
            }
        }
    }
}

/// GitHub shows the lines that rustdoc hides.
#[test]
fn a_block_has_at_most_five_hidden_lines() {
    for (page, text) in guide() {
        for block in text.split("```rust").skip(1) {
            let code = block.split("```").next().unwrap_or_default();
            let hidden = code.lines().map(str::trim);
            let hidden = hidden.filter(|line| *line == "#" || line.starts_with("# "));
            assert!(hidden.count() <= 5, "{page}: {code}");
        }
    }
}

/// The pages of the guide, by their file names.
fn guide() -> BTreeMap<String, String> {
    let folder = root().join("docs/guide").read_dir().expect("a page");
    folder
        .map(|page| {
            let page = page.expect("a page");
            let name = page.file_name().into_string().expect("a page");
            (name, fs::read_to_string(page.path()).expect("a page"))
        })
        .collect()
}

fn outside_of_code(text: &str) -> impl Iterator<Item = &str> {
    let mut in_block = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        in_block ^= is_fence;
        !in_block && !is_fence
    })
}
