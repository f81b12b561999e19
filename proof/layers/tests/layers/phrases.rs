//! Comments, docs, texts and pages contain none of the phrases that a reader whose first language is not English stumbles
//! over; and code none of the names that only its author understands. The lists are short: nothing in them has a good use.

use std::fs;
use std::path::{Path, PathBuf};

/// Each phrase in lower case, with single spaces.
const PHRASES: [&str; 22] = [
    "of yours",
    "makes no sense",
    "make no sense",
    "sees to",
    "is told",
    "are told",
    "was told",
    "be told",
    "goes away",
    "such a one",
    "who comes next",
    "has it so",
    "of ours",
    "under way",
    "looks after",
    "as it were",
    "for want of",
    "somebody",
    "whoever",
    "what it is asked",
    "goes with",
    "all the same",
];

/// Names that only this repository would understand, with the field's own words. A name here is a whole identifier.
const NAMES: [(&str, &str); 11] = [
    ("Entrance", "sender"),
    ("Flight", "batch in flight"),
    ("Gathering", "batch scope"),
    ("Lane", "queue, connection"),
    ("OneTooMany", "uncached"),
    ("Patience", "limits of retries"),
    ("Tries", "retry policy"),
    ("Way", "route, plan, access, fault"),
    ("_piece", "token"),
    ("owe", "return"),
    ("somes", "option depth"),
];

/// The marks of comments and quotations, on which a phrase may continue.
const MARKS: [&str; 7] = ["//", "///", "//!", "#", "--", "*", ">"];

const ADVICE: &str = "name the subject, say what it does, then why";

/// The endings of the files that people read.
const ENDINGS: [&str; 10] = [
    "rs", "md", "txt", "toml", "sql", "lua", "sh", "yml", "html", "stderr",
];

/// Folders without sources of this repository.
const SKIPPED: [&str; 4] = ["target", "node_modules", "corpus", "artifacts"];

/// Reports each phrase in `text`, with the file and the line on which it begins. A phrase may continue on the next line.
fn struck_phrases(file: &str, text: &str) -> Vec<String> {
    let lines = (1..).zip(text.lines());
    let words: Vec<(usize, String)> = lines
        .flat_map(|(line, text)| {
            let words = text.split_whitespace().filter(|word| !MARKS.contains(word));
            words.map(move |word| (line, word.to_lowercase()))
        })
        .collect();
    let mut found = Vec::new();
    for phrase in PHRASES {
        let phrase: Vec<&str> = phrase.split(' ').collect();
        for window in words.windows(phrase.len()) {
            if is_phrase(window, &phrase) {
                let (line, phrase) = (window[0].0, phrase.join(" "));
                found.push(format!("{file}:{line}: \"{phrase}\": {ADVICE}"));
            }
        }
    }
    found
}

/// Reports each of [`NAMES`] in the code of a file. Comments, and texts of one line, may contain the words.
fn struck_names(file: &str, text: &str) -> Vec<String> {
    let is_in_name = |c: char| c.is_alphanumeric() || c == '_';
    let mut found = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        let code = text.split("//").next().unwrap_or_default();
        // Every second piece between quotes is a text.
        for word in code
            .split('"')
            .step_by(2)
            .flat_map(|code| code.split(|c| !is_in_name(c)))
        {
            if let Some((name, field)) = NAMES.iter().find(|(name, _)| *name == word) {
                found.push(format!("{file}:{line}: `{name}`: the field says {field}"));
            }
        }
    }
    found
}

/// Whether these words are the phrase, with other marks only before and after it.
fn is_phrase(words: &[(usize, String)], phrase: &[&str]) -> bool {
    let is_mark = |c: char| !c.is_alphanumeric() && c != '_';
    let last = phrase.len() - 1;
    words.iter().enumerate().all(|(at, (_, word))| {
        let word = if at == 0 {
            word.trim_start_matches(is_mark)
        } else {
            word
        };
        let word = if at == last {
            word.trim_end_matches(is_mark)
        } else {
            word
        };
        word == phrase[at]
    })
}

/// The files below `folder` that people read, without this one.
pub(crate) fn readable_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a readable folder") {
        let path = entry.expect("a readable entry").path();
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.expect("a name in UTF-8");
        if path.is_dir() {
            // `.ci` and `.github` are sources.
            let is_source = !SKIPPED.contains(&name) && name != ".git";
            if is_source {
                readable_files(&path, files);
            }
            continue;
        }
        let ending = path.extension().and_then(|ending| ending.to_str());
        let is_readable = ending.is_some_and(|ending| ENDINGS.contains(&ending));
        if is_readable && !path.ends_with("proof/layers/tests/layers/phrases.rs") {
            files.push(path);
        }
    }
}

#[test]
fn no_page_comment_or_text_contains_a_struck_phrase() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let mut files = Vec::new();
    readable_files(root, &mut files);
    files.sort();
    assert!(files.len() > 500, "only {} files were found", files.len());
    let found: Vec<String> = files
        .iter()
        .flat_map(|path| {
            let text = fs::read_to_string(path).expect("a file in UTF-8");
            let file = path.strip_prefix(root).expect("a file below the root");
            let file = file.display().to_string();
            let is_code = path.extension().is_some_and(|ending| ending == "rs");
            let names = is_code.then(|| struck_names(&file, &text));
            [struck_phrases(&file, &text), names.unwrap_or_default()].concat()
        })
        .collect();
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

#[test]
fn a_planted_phrase_is_reported_with_its_file_and_line() {
    let text = "/// A waiter IS\n/// told: it wakes.\nlet text = \"a store of yours\";\n";
    assert_eq!(
        struck_phrases("a.rs", text),
        [
            "a.rs:3: \"of yours\": name the subject, say what it does, then why",
            "a.rs:1: \"is told\": name the subject, say what it does, then why",
        ]
    );
}

#[test]
fn a_private_name_is_reported_in_code_alone() {
    let text = "// Flight\nlet somes = \"Flight\";\nstruct FlightDeck(Flight);\n";
    assert_eq!(
        struck_names("a.rs", text),
        [
            "a.rs:2: `somes`: the field says option depth",
            "a.rs:3: `Flight`: the field says batch in flight",
        ]
    );
}

#[test]
fn similar_words_are_not_reported() {
    for text in [
        "this told",
        "is_told()",
        "of yourself",
        "| is | told |",
        "as it is. Told",
    ] {
        assert_eq!(struck_phrases("a.md", text), [""; 0], "{text:?}");
    }
}
