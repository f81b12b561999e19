//! The form of the pages of the guide: title, begin, end, table cells, hidden lines, and the number of words.

use std::collections::BTreeMap;
use std::fs;

use super::root;

/// How many words each page has room for. A word counts if a reader reads it: not in a code block, not in the definition of a link,
/// and not a bar or a ruler of a table. A page that needs more moves something to another page or to rustdoc.
const PLAN: [(&str, usize); 31] = [
    ("../../README.md", 640),
    ("attribute.md", 1990),
    ("choosing.md", 670),
    ("command.md", 330),
    ("dynamodb.md", 420),
    ("errors.md", 1030),
    ("etcd.md", 400),
    ("faq.md", 820),
    ("fingerprint.md", 730),
    ("guarantees.md", 1800),
    ("hand-written.md", 420),
    ("how-it-works.md", 340),
    ("http-answers.md", 740),
    ("http-frameworks.md", 600),
    ("http-profiles.md", 600),
    ("http.md", 1120),
    ("keys.md", 420),
    ("managed-redis.md", 420),
    ("mechanisms.md", 860),
    ("migrating.md", 460),
    ("observability.md", 580),
    ("recipes.md", 710),
    ("results.md", 620),
    ("runbooks.md", 860),
    ("runtimes.md", 290),
    ("settings.md", 420),
    ("sql.md", 1800),
    ("store.md", 250),
    ("stores.md", 850),
    ("testing.md", 210),
    ("vendors.md", 440),
];

/// The page that programs read.
const ASSISTANTS: (&str, usize) = ("../../llms.txt", 510);

#[test]
#[expect(clippy::print_stdout, reason = "CI prints the words of each page")]
fn words_per_page_within_the_plan() {
    let mut words = BTreeMap::new();
    for (page, plan) in PLAN.into_iter().chain([ASSISTANTS]) {
        let path = root().join("docs/guide").join(page);
        let text = fs::read_to_string(path).expect("a page");
        words.insert(page, (words_to_read(&text), plan));
    }
    let mut planned: Vec<_> = guide().into_keys().collect();
    planned.retain(|page| page != "SUMMARY.md");
    let listed = words.keys().filter(|page| !page.starts_with('.'));
    assert!(listed.eq(planned.iter()), "each page has a plan");

    for (page, (words, plan)) in &words {
        let mark = if words > plan { "above the plan" } else { "" };
        println!("{words:6} of {plan:5}  {page} {mark}");
    }
    let [all, plan] = PLAN.into_iter().fold([0, 0], |[all, sum], (page, plan)| {
        [all + words[page].0, sum + plan]
    });
    println!("{all:6} of {plan:5}  README and guide");
    assert!(words["../../README.md"].0 <= 900);
    assert!(all.max(plan) <= 22_000, "{all} words, {plan} planned");
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

/// A page shows no cell that its table has no column for.
#[test]
fn a_row_of_a_table_has_as_many_cells_as_its_head() {
    for (page, text) in guide() {
        let mut head = None;
        for line in outside_of_code(&text) {
            let cells = line.replace("\\|", "").matches('|').count();
            head = line.starts_with('|').then(|| head.unwrap_or(cells));
            assert!(head.is_none_or(|head| head == cells), "{page}: {line}");
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

fn words_to_read(text: &str) -> usize {
    let lines =
        outside_of_code(text).filter(|line| !(line.starts_with('[') && line.contains("]: ")));
    let words = lines.flat_map(str::split_whitespace);
    words
        .filter(|word| !word.chars().all(|c| "|:-".contains(c)))
        .count()
}
