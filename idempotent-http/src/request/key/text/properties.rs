//! Any header value is read or refused, and the strict syntax agrees with an independent reader of RFC 9651.

use arbtest::arbitrary::{Result, Unstructured};
use sfv::{BareItem, Item, Parser, Version};

use super::*;
use crate::cases::cases;

const SYNTAXES: [KeySyntax; 3] = [KeySyntax::Lenient, KeySyntax::Strict, KeySyntax::Uuid];

/// Bytes that are often almost a key.
fn any_value(u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let mut value = Vec::new();
    let strange = u.int_in_range(0..=9)?;
    for _ in 0..u.int_in_range(0..=40)? {
        value.push(match u.int_in_range(0..=9)?.max(9 - strange) {
            0 => u.arbitrary()?,
            1 => *u.choose(b"\"\"\\, \t\r\n\0\x7f\xff")?,
            _ => u.int_in_range(b' '..=b'~')?,
        });
    }
    Ok(value.repeat(u.int_in_range(1..=10)?))
}

/// A quoted text, often with parameters.
fn quoted_value(u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let mut value = vec![b'"'];
    for _ in 0..u.int_in_range(0..=4)? {
        let part = u.choose(&["a", " ", ",", "\\\"", "\\\\", "\\", "\x7f", "~"])?;
        value.extend_from_slice(part.as_bytes());
    }
    value.push(b'"');
    for _ in 0..u.int_in_range(0..=3)? {
        let part = u.choose(&[
            ";",
            ";a",
            "; b",
            "=",
            "=1",
            "=-1.25",
            "=\"x\"",
            "=\"\\\"\"",
            "=?1",
            "=?",
            "=@7",
            "=tok/en",
            "=*",
            "=%\"%c3%bc\"",
            "=%\"%C3\"",
            ";*a.b-c_d",
            " ",
            "A",
            "(",
            "9",
            ".5",
            "\\",
        ])?;
        value.extend_from_slice(part.as_bytes());
    }
    Ok(value)
}

/// The text of a value that is one String of RFC 9651, with any parameters, as the crate `sfv` reads it.
fn by_sfv(value: &[u8]) -> Option<String> {
    let item: Item = Parser::new(value)
        .with_version(Version::Rfc9651)
        .parse()
        .ok()?;
    match item.bare_item {
        BareItem::String(text) => Some(text.as_str().to_owned()),
        _ => None,
    }
}

#[test]
fn the_strict_syntax_is_a_string_of_rfc_9651() {
    let (mut keys, mut others) = (0, 0);
    cases(300, |u| {
        let value = if u.ratio(1, 4)? {
            any_value(u)?
        } else {
            quoted_value(u)?
        };
        let expected = by_sfv(&value).filter(|text| checked(text.as_bytes()).is_ok());
        let found = read(&value, KeySyntax::Strict).ok();
        // White space around the value is the server's to remove, so both readers may differ on a tab there.
        if value.trim_ascii() == value {
            let shown = value.escape_ascii();
            assert_eq!(found.as_deref(), expected.as_deref(), "{shown}");
            keys += u32::from(found.is_some());
            others += u32::from(found.is_none());
        }
        Ok(())
    });
    assert!(keys > 500 && others > 500, "{keys} keys, {others} others");
}

#[test]
fn any_header_is_read_or_refused() {
    let mut reads = 0;
    cases(300, |u| {
        let value = any_value(u)?;
        for syntax in SYNTAXES {
            let Ok(key) = read(&value, syntax) else {
                continue;
            };
            reads += 1;
            assert!((1..=255).contains(&key.len()), "{key:?}");
            assert!(
                key.bytes().all(|byte| matches!(byte, b' '..=b'~')),
                "{key:?}"
            );
            let quoted = format!("\"{}\"", key.replace('\\', r"\\").replace('"', r#"\""#));
            assert_eq!(read(quoted.as_bytes(), syntax), Ok(key), "{quoted}");
        }
        Ok(())
    });
    assert!(reads > 100, "only {reads} of the headers were keys");
}

#[test]
fn what_the_strict_syntax_accepts_is_the_same_key_in_the_lenient_syntax() {
    let mut keys = 0;
    cases(300, |u| {
        let value = quoted_value(u)?;
        if let Ok(key) = read(&value, KeySyntax::Strict) {
            keys += 1;
            assert_eq!(read(&value, KeySyntax::Lenient), Ok(key));
        }
        Ok(())
    });
    assert!(keys > 500, "only {keys} of the headers were keys");
}
