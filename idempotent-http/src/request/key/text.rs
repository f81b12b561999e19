//! Reads a key from the value of its header.

use std::borrow::Cow;

use idempotent_runtime::port::http::{Expected, Mistake};

use super::parameters::are_parameters;

/// Which header values are a key.
///
/// | value of the header | `Lenient` | `Strict` | `Uuid` | `Opaque` |
/// | --- | --- | --- | --- | --- |
/// | `"8e03978e-40d5-43e8-bc93-6894a57f9324"` | a key | a key | a key | a key |
/// | the same without quotes | the same key | refused | the same key | another key |
/// | `"a b"`, `"a,b"`, `"a\"b\\c"` | a key | a key | refused | a key |
/// | `"abc";v=1` | the key `abc` | the key `abc` | refused: `abc` is not a UUID | a key |
/// | `a b` or `a,b` without quotes | refused | refused | refused | a key |
///
/// A key has 1 to 255 characters after its quotes are removed. Text in quotes is a String of RFC 9651 (section 3.3.3), as the
/// IETF draft `idempotency-key-header-07` asks. Parameters after the closing quote are checked and ignored, because the draft
/// defines none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum KeySyntax {
    /// Text in quotes, or visible ASCII characters without quotes. Most clients send no quotes. A value without quotes must not
    /// contain a space, a quote or a comma: proxies join the values of a repeated header with commas.
    #[default]
    Lenient,
    /// Only text in quotes, as the draft says.
    Strict,
    /// Only a UUID (RFC 9562) with four hyphens, in quotes or without. Upper and lower case are the same key.
    Uuid,
    /// The whole value: quotes, commas and spaces are parts of the key. For clients that know nothing of RFC 9651.
    Opaque,
}

impl KeySyntax {
    /// What the client must send.
    pub(crate) const fn expected(self) -> Expected {
        match self {
            Self::Lenient | Self::Opaque => Expected::Text,
            Self::Strict => Expected::Quoted,
            Self::Uuid => Expected::Uuid,
        }
    }
}

/// The key in this header value.
pub(crate) fn read(value: &[u8], syntax: KeySyntax) -> Result<Cow<'_, str>, Mistake> {
    let value = value.trim_ascii();
    if syntax == KeySyntax::Opaque {
        return checked(value).map(Cow::Borrowed);
    }
    match value.strip_prefix(b"\"") {
        Some(rest) => match quoted(rest)? {
            Cow::Borrowed(text) => checked_as(text, syntax),
            Cow::Owned(text) => checked_as(&text, syntax).map(|key| Cow::Owned(key.into_owned())),
        },
        None => checked_as(bare(value, syntax)?, syntax),
    }
}

/// The key in this text without quotes, for example in a JSON string.
pub(crate) fn read_text(text: &str, syntax: KeySyntax) -> Result<Cow<'_, str>, Mistake> {
    checked_as(text.as_bytes(), syntax)
}

fn checked_as(text: &[u8], syntax: KeySyntax) -> Result<Cow<'_, str>, Mistake> {
    match syntax {
        KeySyntax::Uuid => uuid(text),
        KeySyntax::Lenient | KeySyntax::Strict | KeySyntax::Opaque => {
            checked(text).map(Cow::Borrowed)
        }
    }
}

/// The text as a key, if it is 1 to 255 printable ASCII characters, and one of them is not a space.
fn checked(text: &[u8]) -> Result<&str, Mistake> {
    match Mistake::in_characters(text) {
        Some(mistake) => Err(mistake),
        None if text.iter().all(|byte| *byte == b' ') => Err(Mistake::Blank),
        None => str::from_utf8(text).map_err(|_| Mistake::Unprintable),
    }
}

/// A value without quotes.
fn bare(value: &[u8], syntax: KeySyntax) -> Result<&[u8], Mistake> {
    // Without an early end, because the compiler then compares many bytes at once.
    let is_special = |byte: &u8| matches!(byte, b'"' | b',' | b' ');
    let has_special = value.iter().fold(false, |any, byte| any | is_special(byte));
    if value.is_empty() {
        Err(Mistake::Empty)
    } else if has_special {
        Err(if value.contains(&b'"') {
            Mistake::UnquotedQuote
        } else if value.contains(&b',') {
            Mistake::UnquotedComma
        } else {
            Mistake::UnquotedSpace
        })
    } else if syntax == KeySyntax::Strict {
        Err(Mistake::Unquoted)
    } else {
        Ok(value)
    }
}

/// Reads a String of RFC 9651, section 4.2.5, from the byte after its opening quote, and the parameters after it.
fn quoted(rest: &[u8]) -> Result<Cow<'_, [u8]>, Mistake> {
    let is_special = |byte: &u8| matches!(byte, b'"' | b'\\');
    if let Some(text) = rest.strip_suffix(b"\"") {
        // Most keys end here. Without an early end, because the compiler then compares many bytes at once.
        let has = |byte: &u8| text.iter().fold(false, |any, one| any | one.eq(byte));
        if !has(&b'"') && !has(&b'\\') {
            return Ok(Cow::Borrowed(text));
        }
    }
    let plain = rest.iter().position(is_special).ok_or(Mistake::Unclosed)?;
    let (text, mut bytes) = rest.split_at(plain);
    // Most keys have no escapes, so they are not copied.
    let mut text = Cow::Borrowed(text);
    loop {
        let (first, rest) = bytes.split_first().ok_or(Mistake::Unclosed)?;
        bytes = rest;
        let byte = match first {
            b'"' => break,
            b'\\' => match bytes.split_first().ok_or(Mistake::Unclosed)? {
                (byte @ (b'"' | b'\\'), rest) => {
                    bytes = rest;
                    byte
                }
                _ => return Err(Mistake::Escape),
            },
            byte => byte,
        };
        text.to_mut().push(*byte);
    }
    match bytes {
        [] => Ok(text),
        rest @ [b';', ..] if are_parameters(rest) => Ok(text),
        [b';', ..] => Err(Mistake::Parameters),
        _ => Err(Mistake::AfterQuote),
    }
}

/// A UUID in the form `8-4-4-4-12` (RFC 9562, section 4), in lower case.
fn uuid(text: &[u8]) -> Result<Cow<'_, str>, Mistake> {
    let is_uuid = text.len() == 36
        && text.iter().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        });
    if !is_uuid {
        return Err(Mistake::in_characters(text).unwrap_or(Mistake::NotUuid));
    }
    let text = str::from_utf8(text).map_err(|_| Mistake::NotUuid)?;
    let has_capital = text.bytes().any(|byte| byte.is_ascii_uppercase());
    Ok(if has_capital {
        text.to_ascii_lowercase().into()
    } else {
        text.into()
    })
}

#[cfg(test)]
mod properties;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: &[u8], syntax: KeySyntax) -> Result<String, Mistake> {
        super::read(value, syntax).map(Cow::into_owned)
    }

    const UUID: &str = "8e03978e-40d5-43e8-bc93-6894a57f9324";
    const SYNTAXES: [KeySyntax; 3] = [KeySyntax::Lenient, KeySyntax::Strict, KeySyntax::Uuid];

    fn texts(value: &[u8]) -> [Result<String, Mistake>; 3] {
        SYNTAXES.map(|syntax| read(value, syntax))
    }

    #[expect(clippy::unnecessary_wraps, reason = "it is compared with a result")]
    fn key(text: &str) -> Result<String, Mistake> {
        Ok(text.to_owned())
    }

    #[test]
    fn a_quoted_uuid_is_a_key_in_every_syntax() {
        let value = format!("\"{UUID}\"");
        assert_eq!(texts(value.as_bytes()), [key(UUID), key(UUID), key(UUID)]);
    }

    #[test]
    fn a_key_without_escapes_and_capitals_is_not_copied() {
        for syntax in SYNTAXES {
            let value = format!("\"{UUID}\"");
            let key = super::read(value.as_bytes(), syntax);
            assert_eq!(key, Ok(Cow::Borrowed(UUID)));
            assert!(matches!(key, Ok(Cow::Borrowed(_))), "{syntax:?}");
        }
    }

    #[test]
    fn only_the_strict_syntax_needs_quotes() {
        let found = texts(UUID.as_bytes());
        assert_eq!(found, [key(UUID), Err(Mistake::Unquoted), key(UUID)]);
    }

    #[test]
    fn a_backslash_escapes_a_quote_and_a_backslash() {
        let found = texts(br#""a\"b\\c""#);
        let text = r#"a"b\c"#;
        assert_eq!(found, [key(text), key(text), Err(Mistake::NotUuid)]);
    }

    #[test]
    fn an_opaque_key_is_the_whole_value() {
        for text in ["\"abc\"", "\"abc\";v=1", "a, b", "a\"", UUID] {
            assert_eq!(read(text.as_bytes(), KeySyntax::Opaque), key(text));
        }
        assert_eq!(read(b" ", KeySyntax::Opaque), Err(Mistake::Empty));
    }

    #[test]
    fn parameters_are_ignored() {
        for value in [
            r#""abc";v=1"#,
            r#""abc"; v=1"#,
            r#""abc";v"#,
            r#""abc";a="x;y";b=:YWJj:;c=?1;d=@1;e=1.5"#,
        ] {
            let found = texts(value.as_bytes());
            assert_eq!(
                found,
                [key("abc"), key("abc"), Err(Mistake::NotUuid)],
                "{value}"
            );
        }
        let uuid = format!("\"{UUID}\";v=1");
        assert_eq!(texts(uuid.as_bytes()), [key(UUID), key(UUID), key(UUID)]);
    }

    #[test]
    fn a_text_in_quotes_may_have_commas_and_spaces() {
        for text in ["a,b", "a b", " a "] {
            let value = format!("\"{text}\"");
            let found = texts(value.as_bytes());
            assert_eq!(
                found,
                [key(text), key(text), Err(Mistake::NotUuid)],
                "{value}"
            );
        }
    }

    #[test]
    fn a_value_that_is_no_key_is_refused_in_every_syntax() {
        let values: [(&[u8], Mistake); 27] = [
            (b"", Mistake::Empty),
            (b"   ", Mistake::Empty),
            (b"\"\"", Mistake::Empty),
            (b"\"abc", Mistake::Unclosed),
            (b"\"", Mistake::Unclosed),
            (br#""a\""#, Mistake::Unclosed),
            (br#""a\"#, Mistake::Unclosed),
            (b"abc\"", Mistake::UnquotedQuote),
            (b"\"a\" \"b\"", Mistake::AfterQuote),
            (b"\"a\", \"b\"", Mistake::AfterQuote),
            (b"\"a\" ;v=1", Mistake::AfterQuote),
            (b"\"a\";", Mistake::Parameters),
            (b"\"a\";V=1", Mistake::Parameters),
            (b"\"a\";v=1,b", Mistake::Parameters),
            (br#""a\b""#, Mistake::Escape),
            (b"a,b", Mistake::UnquotedComma),
            (b"a, b", Mistake::UnquotedComma),
            (b"a b", Mistake::UnquotedSpace),
            (b"\"\t\"", Mistake::Unprintable),
            (b"\"a\x00b\"", Mistake::Unprintable),
            (b"\"a\x7fb\"", Mistake::Unprintable),
            (b"\"a\nb\"", Mistake::Unprintable),
            ("\"schlüssel\"".as_bytes(), Mistake::Unprintable),
            ("\"键\"".as_bytes(), Mistake::Unprintable),
            (b"\"\xff\"", Mistake::Unprintable),
            (b"%\"abc\"", Mistake::UnquotedQuote),
            (b"\"a\";v=\"\xff\"", Mistake::Parameters),
        ];
        for (value, mistake) in values {
            for syntax in SYNTAXES {
                let shown = value.escape_ascii();
                assert_eq!(read(value, syntax), Err(mistake), "{shown} {syntax:?}");
            }
        }
    }

    #[test]
    fn a_key_of_spaces_is_refused() {
        let found = texts(b"\"  \"");
        let [lenient, strict, uuid] = found;
        assert_eq!(
            (lenient, strict),
            (Err(Mistake::Blank), Err(Mistake::Blank))
        );
        assert_eq!(uuid, Err(Mistake::NotUuid));
    }

    #[test]
    fn a_value_without_quotes_that_is_not_visible_ascii_is_refused() {
        for value in [b"a\tb".as_slice(), b"a\x01", "é".as_bytes(), b"\xff"] {
            let shown = value.escape_ascii();
            let [lenient, strict, uuid] = texts(value);
            assert_eq!(lenient, Err(Mistake::Unprintable), "{shown}");
            assert_eq!(strict, Err(Mistake::Unquoted), "{shown}");
            assert_eq!(uuid, Err(Mistake::Unprintable), "{shown}");
        }
    }

    #[test]
    fn a_key_has_255_characters_at_most_without_its_quotes() {
        // Every character is escaped, so the header value is twice as long.
        for (character, escaped) in [("a", "a"), ("\"", "\\\""), ("\\", "\\\\")] {
            for syntax in [KeySyntax::Lenient, KeySyntax::Strict] {
                let value = |length| format!("\"{}\"", escaped.repeat(length));
                let longest = character.repeat(255);
                assert_eq!(read(value(255).as_bytes(), syntax), Ok(longest));
                assert_eq!(
                    read(value(256).as_bytes(), syntax),
                    Err(Mistake::TooLong),
                    "{character}"
                );
            }
        }
        let bare = "a".repeat(256);
        assert_eq!(
            read(&bare.as_bytes()[..255], KeySyntax::Lenient),
            key(&bare[..255])
        );
        assert_eq!(
            read(bare.as_bytes(), KeySyntax::Lenient),
            Err(Mistake::TooLong)
        );
    }

    #[test]
    fn only_the_form_with_four_hyphens_is_a_uuid() {
        let read = |value: &str| read(value.as_bytes(), KeySyntax::Uuid);
        assert_eq!(read("8E03978E-40D5-43E8-BC93-6894A57F9324"), key(UUID));
        assert_eq!(read("\"8E03978E-40d5-43e8-bc93-6894A57F9324\""), key(UUID));
        for value in [
            "8e03978e40d543e8bc936894a57f9324",
            "{8e03978e-40d5-43e8-bc93-6894a57f9324}",
            "urn:uuid:8e03978e-40d5-43e8-bc93-6894a57f9324",
            "8e03978e-40d5-43e8-bc93-6894a57f932g",
            "8e03978e-40d5-43e8-bc93-6894a57f932",
            "8e03978e-40d5-43e8-bc93-6894a57f93244",
            "8e03978e-40d5-43e8-bc936-894a57f9324",
            "abc",
        ] {
            assert_eq!(read(value), Err(Mistake::NotUuid), "{value}");
        }
    }
}
