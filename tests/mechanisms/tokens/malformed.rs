//! A malformed token is never part of a key.

use std::collections::BTreeSet;

use idempotence::testkit::CountingStore;
use idempotent_runtime::MemoryStore;

use crate::tokens::{OPERATION, USER, assert_accepted, code_of, issue, on};

/// Strings that a client may send instead of this token.
fn malformed(token: &str) -> BTreeSet<String> {
    let mut strings: BTreeSet<String> = BTreeSet::new();
    for length in (0..200).filter(|length| *length != 64) {
        strings.insert("a".repeat(length));
        strings.insert(token.chars().cycle().take(length).collect());
    }
    // Replace each digit by every other ASCII byte, and by characters that look like a digit.
    let digit = |char: &char| matches!(char, '0'..='9' | 'a'..='f');
    let others = (0..=127_u8).map(char::from).filter(|char| !digit(char));
    let others: Vec<char> = others
        .chain("é０ａаΑ٣\u{200b}\u{202e}\u{feff}💣".chars())
        .collect();
    for at in 0..64 {
        for other in &others {
            strings.insert(format!("{}{other}{}", &token[..at], &token[at + 1..]));
            strings.insert(format!("{}{other}{}", &token[..at], &token[at..]));
        }
        strings.insert(format!("{}{}", &token[..at], &token[at + 1..]));
    }
    // Strings with the length of a token in bytes, but with other characters.
    strings.extend(["é".repeat(32), "💣".repeat(16), "０".repeat(21) + "0"]);
    for (before, after) in [
        ("idem:#token:orders.submit:", ""),
        ("0x", ""),
        ("\"", "\""),
        ("'", "'; DROP TABLE idem; --"),
        ("", "\r\nDEL idem:#token:orders.submit:1\r\n"),
        ("", "\n"),
        ("{", "}"),
    ] {
        strings.insert(format!("{before}{token}{after}"));
    }
    strings.insert(token.to_uppercase());
    for string in [
        "session:42",
        "*",
        "?",
        "[a-f0-9]*",
        "{idem}:*",
        "../../etc/passwd",
        "null",
        "undefined",
        "00000000-0000-0000-0000-000000000000",
    ] {
        strings.insert(string.to_owned());
        strings.insert(format!("{string:0<64}"));
        strings.insert(format!("{string:0>64}"));
    }
    strings.retain(|string| string.len() != 64 || !string.chars().all(|char| digit(&char)));
    strings
}

#[tokio::test]
async fn a_malformed_token_is_refused_before_anything_is_sent() {
    let store = CountingStore::new(MemoryStore::new());
    let tokens = on(store.clone());
    let token = issue(&tokens).await;
    store.reset();
    let strings = malformed(token.as_str());
    assert!(strings.len() > 10_000, "{}", strings.len());
    for string in &strings {
        let redeemed = tokens.redeem(string, &USER, OPERATION).await;
        let error = redeemed.unwrap_err();
        assert_eq!(error.code(), "token_malformed", "{string:?}");
        let text = format!("{error} {error:?}");
        assert!(string.len() < 8 || !text.contains(string), "{text}");
    }
    assert_eq!(store.counts().total(), 0);
    assert_accepted(&tokens, &token).await;
}

#[tokio::test]
async fn issued_tokens_are_well_formed_and_differ() {
    let tokens = on(MemoryStore::new());
    let mut seen = BTreeSet::new();
    for _ in 0..1000 {
        let token = issue(&tokens).await.to_string();
        let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        assert!(token.len() == 64 && token.bytes().all(digit), "{token}");
        assert!(seen.insert(token), "a token must not be issued twice");
    }
    let unknown = tokens.redeem(&"f".repeat(64), &USER, OPERATION).await;
    assert_eq!(code_of(unknown), "token_unknown");
}
