//! The README says what the code, the benches and the other pages say, and its Chinese translation says the same.

use std::path::Path;

use super::{README, pages, root};

const CHINESE: &str = include_str!("../../README.zh-CN.md");
const ASSISTANTS: &str = include_str!("../../llms.txt");

/// What a reader of rustdoc types, and the file of an item that it finds.
const ALIASES: [(&str, &str); 13] = [
    ("幂等", "idempotent-macro/src/lib.rs"),
    ("防重复提交", "idempotent-macro/src/lib.rs"),
    ("重复提交", "idempotent-macro/src/lib.rs"),
    ("分布式锁", "idempotent-macro/src/lib.rs"),
    ("setnx", "idempotent-macro/src/lib.rs"),
    ("dedup", "idempotent-macro/src/lib.rs"),
    ("exactly-once", "idempotent-macro/src/lib.rs"),
    ("redlock", "idempotent-macro/src/lib.rs"),
    ("watchdog", "idempotent-macro/src/lib.rs"),
    ("令牌", "idempotent-runtime/src/mechanisms/tokens.rs"),
    ("布隆过滤器", "idempotent-runtime/src/mechanisms/bloom.rs"),
    ("去重表", "idempotent-sql/src/block/insert.rs"),
    ("状态机", "idempotent-sql/src/block/transition.rs"),
];

#[test]
fn the_chinese_readme_has_the_sections_and_the_code_of_the_english_one() {
    assert_eq!(sections(CHINESE).len(), sections(README).len());
    assert_eq!(blocks(CHINESE), blocks(README));
    let pairs = sections(CHINESE).into_iter().zip(sections(README));
    for ((chinese, translated), (english, section)) in pairs {
        // The Chinese section may have more tables, below headings of its own.
        let translated = translated.split("\n### ").next().unwrap_or_default();
        assert_eq!(rows(translated), rows(section), "{chinese}, {english}");
    }
}

#[test]
fn every_number_of_the_readme_is_one_that_a_bench_or_a_test_prints() {
    let benches = ["benches/README.md", "benches/sql.md"];
    let mut printed: String = benches
        .iter()
        .map(|page| std::fs::read_to_string(root().join(page)).unwrap())
        .collect();
    let guide = root().join("docs/guide");
    printed.extend(
        pages()
            .into_iter()
            .filter(|(path, _)| path.parent() == Some(&guide) && is_evidence(path))
            .map(|(_, text)| text),
    );
    let printed = numbers(&printed);
    let mut missing = Vec::new();
    // 万 is ten thousand.
    let chinese = CHINESE.replace("1670 万", "16.7 million");
    for readme in [README, &chinese] {
        let of_numbers = ["Proof", "Cost", "Comparison", "证据", "开销", "对比"];
        let claims = sections(readme);
        let claims = claims.iter().filter(|(name, _)| of_numbers.contains(name));
        assert_eq!(claims.clone().count(), 3);
        let claimed = claims.flat_map(|(_, text)| numbers(text));
        missing.extend(claimed.filter(|number| !printed.contains(number)));
    }
    assert_eq!(missing, [""; 0]);
}

#[test]
fn a_block_of_the_readme_that_does_not_compile_alone_is_in_a_page_that_compiles() {
    let compiled: Vec<String> = blocks(ASSISTANTS)
        .iter()
        .map(|block| dense(block))
        .collect();
    for block in blocks(README) {
        if let Some(code) = block.strip_prefix("rust,ignore\n") {
            let found = compiled.iter().any(|block| block.contains(&dense(code)));
            assert!(found, "{code}");
        }
    }
}

/// A test of the layer compares the refusals of the guide with what the layer sends.
#[test]
fn the_refusal_in_the_readme_is_one_of_the_guide() {
    let json = blocks(README)
        .into_iter()
        .find_map(|block| block.strip_prefix("json\n"));
    let json = dense(json.unwrap());
    let guide = root().join("docs/guide").read_dir().unwrap();
    let mut pages = guide.map(|page| std::fs::read_to_string(page.unwrap().path()).unwrap());
    assert!(pages.any(|page| dense(&page).contains(&json)), "{json}");
}

#[test]
fn the_words_that_people_search_find_an_item() {
    for (word, file) in ALIASES {
        let source = std::fs::read_to_string(root().join(file)).unwrap();
        let aliases = source.lines().filter(|line| line.contains("#[doc(alias("));
        let mut aliases = aliases.map(|line| line.contains(&format!("\"{word}\"")));
        assert!(aliases.any(|found| found), "{word}: {file}");
    }
}

/// The pages that say what was measured, and not what follows from it.
fn is_evidence(path: &Path) -> bool {
    let names = ["choosing.md", "how-it-works.md", "faq.md"];
    !names.iter().any(|name| path.ends_with(name))
}

/// The names and the texts of the sections.
fn sections(page: &str) -> Vec<(&str, &str)> {
    let sections = page.split("\n## ").skip(1);
    sections
        .map(|section| section.split_once('\n').expect("a heading"))
        .collect()
}

/// The code blocks, with their languages.
fn blocks(page: &str) -> Vec<&str> {
    page.split("```").skip(1).step_by(2).collect()
}

fn rows(section: &str) -> usize {
    section.lines().filter(|line| line.starts_with('|')).count()
}

/// The text without blanks.
fn dense(code: &str) -> String {
    code.split_whitespace().collect()
}

/// The numbers of two digits or more.
fn numbers(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_ascii_digit() && c != ',' && c != '.');
    let words = words.map(|word| word.trim_matches([',', '.']));
    let is_number = |word: &&str| word.chars().filter(char::is_ascii_digit).count() > 1;
    words.filter(is_number).map(str::to_owned).collect()
}
