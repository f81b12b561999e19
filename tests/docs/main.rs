//! The pages agree with each other, and their links have targets.

mod dashboards;
mod form;
mod promises;
mod questions;
mod readme;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

const README: &str = include_str!("../../README.md");
const ATTRIBUTE: &str = include_str!("../../docs/guide/attribute.md");
const OPTIONS: &str = include_str!("../../idempotent-macro/src/options.rs");
const RUSTDOC_LINKS: &str = include_str!("../../src/links.md");

/// The rows of the table whose first cell is `head`.
fn table<'a>(page: &'a str, head: &str) -> Vec<&'a str> {
    let head = format!("| {head} |");
    let lines = page.lines().skip_while(|line| !line.starts_with(&head));
    lines.take_while(|line| line.starts_with('|')).collect()
}

#[test]
fn one_page_has_the_table_of_when_a_key_is_free() {
    assert_eq!(table(ATTRIBUTE, "`release`").len(), 3 + 2);
    assert_eq!(table(README, "`release`").len(), 0);
}

#[test]
fn the_options_have_one_table() {
    let first_cell = |row: &str| row.split('`').nth(1).expect("an option").to_owned();
    let mut rows: Vec<_> = table(ATTRIBUTE, "option")[2..]
        .iter()
        .map(|row| first_cell(row))
        .collect();
    let (_, options) = OPTIONS.split_once("\noptions! {\n").expect("the table");
    let (options, _) = options.split_once("\n}\n").expect("its end");
    // A row begins with `key: `, or with `krate = "crate": `.
    let options = options.lines().filter_map(|row| row.split_once(": "));
    let options = options.filter(|(field, _)| !field.contains("///"));
    let mut options: Vec<_> = options
        .map(|(field, _)| field.rsplit(' ').next().expect("a name").trim_matches('"'))
        .collect();
    rows.sort_unstable();
    options.sort_unstable();
    assert_eq!(rows, options);
    assert_eq!(table(README, "`key`").len(), 0);
}

#[test]
fn each_recipe_has_at_most_120_words_beside_its_code() {
    let page = include_str!("../../docs/guide/recipes.md");
    let (recipes, _) = page.split_once("\nNot here: ").expect("the end");
    for recipe in recipes.split("\n## ").skip(1) {
        let text = recipe.split("```").step_by(2);
        let words: usize = text.map(|text| text.split_whitespace().count()).sum();
        assert!(words <= 120, "{words}: {recipe}");
    }
}

#[test]
fn links_between_pages_lead_to_files_and_headings() {
    let pages = pages();
    assert!(pages.len() > 20, "{:?}", pages.keys());
    let mut broken = Vec::new();
    for (path, text) in &pages {
        for target in targets(text) {
            let (file, heading) = target.split_once('#').unwrap_or((&target, ""));
            let file = match file {
                "" => path.clone(),
                file => path.with_file_name("").join(file),
            };
            let found = file
                .canonicalize()
                .is_ok_and(|file| heading.is_empty() || headings(&pages[&file]).contains(heading));
            if !found {
                broken.push(format!("{}: {target}", path.display()));
            }
        }
    }
    assert_eq!(broken, [""; 0]);
}

#[test]
fn links_by_name_are_defined_for_the_repository_and_for_rustdoc() {
    for (path, text) in pages() {
        let defined = definitions(&text);
        for name in defined.keys() {
            let in_rustdoc = definitions(RUSTDOC_LINKS).contains_key(name);
            let is_page = path.ends_with("README.md") && path.parent() == Some(&root())
                || path.ends_with("README.zh-CN.md")
                || path.ends_with("llms.txt")
                || path.ends_with("SECURITY.md")
                || path.parent() == Some(&root().join("docs"))
                || path.parent() == Some(&root().join("docs/guide"));
            assert!(in_rustdoc || !is_page, "{}: [{name}]", path.display());
        }
        // A link without a definition is plain text: `[errors]` in the middle of a sentence.
        for name in definitions(RUSTDOC_LINKS).into_keys() {
            let text = text.to_lowercase().replace(&format!("[{name}]("), "");
            let used = text.contains(&format!("[{name}]"));
            assert!(
                !used || defined.contains_key(&name),
                "{}: [{name}] is not defined",
                path.display()
            );
        }
    }
}

fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    root.canonicalize().expect("the repository")
}

/// Every page of the repository, with its text outside of code blocks.
fn pages() -> BTreeMap<PathBuf, String> {
    let mut pages = BTreeMap::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in folder.read_dir().expect("a folder") {
            let entry = entry.expect("an entry");
            let (path, name) = (entry.path(), entry.file_name());
            let name = name.to_string_lossy();
            let is_dir = entry.file_type().expect("a type").is_dir();
            if is_dir
                && !["target", "node_modules"].contains(&name.as_ref())
                && !name.starts_with('.')
            {
                folders.push(path);
            } else if (name.ends_with(".md") || name == "llms.txt")
                && !path.ends_with("src/links.md")
            {
                let text = std::fs::read_to_string(&path).expect("a page");
                pages.insert(path, without_code(&text));
            }
        }
    }
    pages
}

/// The text without its code blocks and without code between backticks. Headings keep their code.
fn without_code(text: &str) -> String {
    let mut in_block = false;
    let mut kept = String::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if !in_block {
            let parts = line.split('`').enumerate();
            let parts = parts.filter(|(at, _)| at % 2 == 0 || line.starts_with('#'));
            kept.extend(parts.map(|(_, part)| part));
            kept.push('\n');
        }
    }
    kept
}

/// The targets of the relative links of a page.
fn targets(text: &str) -> Vec<String> {
    let inline = text.split("](").skip(1);
    let inline = inline.filter_map(|rest| rest.split_once(')'));
    let inline = inline.map(|(target, _)| target.to_owned());
    let all = inline.chain(definitions(text).into_values());
    all.filter(|target| !target.contains("://") && !target.contains("::"))
        .collect()
}

/// The definitions `[name]: target` of a page, by their names in lower case.
fn definitions(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines();
    let defined = lines.filter_map(|line| line.strip_prefix('[')?.split_once("]: "));
    let defined = defined.filter(|(name, target)| !name.contains(']') && !target.contains(' '));
    defined
        .map(|(name, target)| (name.to_lowercase(), target.to_owned()))
        .collect()
}

/// The anchors of the headings of a page, as GitHub and rustdoc make them.
fn headings(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|line| {
            let words = line.trim_start_matches('#').trim().to_lowercase();
            let words = words.replace(' ', "-");
            words
                .chars()
                .filter(|c| c.is_alphanumeric() || "-_".contains(*c))
                .collect()
        })
        .collect()
}
