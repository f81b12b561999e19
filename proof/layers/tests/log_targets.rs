//! Every line of the log has the target `idempotence`, so that one filter shows all lines of the library.

use std::fs;
use std::path::{Path, PathBuf};

/// The macros of `tracing` that write a line.
const MACROS: [&str; 6] = ["error!", "warn!", "info!", "debug!", "trace!", "event!"];

const TARGET: &str = "target: \"idempotence\"";

/// The lines on which a macro of `tracing` does not begin with the target.
fn without_target(file: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, prefix) in text.match_indices("tracing::") {
        let call = &text[at + prefix.len()..];
        let arguments = MACROS
            .iter()
            .find_map(|name| call.strip_prefix(name)?.strip_prefix('('));
        if arguments.is_some_and(|arguments| !arguments.trim_start().starts_with(TARGET)) {
            let line = 1 + text[..at].matches('\n').count();
            found.push(format!("{file}:{line}: write `{TARGET}` first"));
        }
    }
    found
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry of the folder").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn every_line_of_the_log_has_the_target_of_the_library() {
    let mut files = Vec::new();
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    for package in [
        "idempotent-http",
        "idempotent-redis",
        "idempotent-runtime",
        "idempotent-sql",
    ] {
        sources(&root.join(package).join("src"), &mut files);
    }
    let found = files.iter().flat_map(|file| {
        let text = fs::read_to_string(file).expect("a file of sources");
        without_target(&file.display().to_string(), &text)
    });
    assert_eq!(found.collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn a_line_with_the_target_of_its_module_is_found() {
    let text =
        "tracing::debug!(\n    target: \"idempotence\",\n    \"a\"\n);\ntracing::warn!(\"b\");";
    assert_eq!(
        without_target("a.rs", text),
        ["a.rs:5: write `target: \"idempotence\"` first"]
    );
}
