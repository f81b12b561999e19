//! JSON text as a tree that keeps the exact text of every number.

use std::borrow::Cow;

/// The maximum nesting of arrays and objects.
const DEPTH: usize = 128;

/// A JSON value. The members of an object are sorted by the bytes of their names, and every name is there once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    Null,
    Bool(bool),
    /// The number as it was written.
    Number(&'a str),
    String(Cow<'a, str>),
    Array(Vec<Self>),
    Object(Vec<(Cow<'a, str>, Self)>),
}

/// Why a text was not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnreadJson {
    /// The text is not JSON (RFC 8259), or a string in it is not Unicode.
    NotJson,
    /// An object has two members with one name. Parsers differ in which of the two they take.
    DuplicateMember,
    /// Arrays and objects are nested deeper than 128 levels.
    TooDeep,
}

/// Reads one JSON value with white space around it.
pub(crate) fn parse(body: &[u8]) -> Result<Value<'_>, UnreadJson> {
    let text = std::str::from_utf8(body).map_err(|_| UnreadJson::NotJson)?;
    let mut reader = Reader { text, at: 0 };
    let value = reader.value(0)?;
    reader.skip_space();
    if reader.at == text.len() {
        Ok(value)
    } else {
        Err(UnreadJson::NotJson)
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn value(&mut self, depth: usize) -> Result<Value<'a>, UnreadJson> {
        self.skip_space();
        match self.peek() {
            Some(b'n') => self.word("null", Value::Null),
            Some(b't') => self.word("true", Value::Bool(true)),
            Some(b'f') => self.word("false", Value::Bool(false)),
            Some(b'"') => Ok(Value::String(self.string()?)),
            Some(b'[' | b'{') if depth == DEPTH => Err(UnreadJson::TooDeep),
            Some(b'[') => self.array(depth + 1),
            Some(b'{') => self.object(depth + 1),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => Err(UnreadJson::NotJson),
        }
    }

    fn array(&mut self, depth: usize) -> Result<Value<'a>, UnreadJson> {
        self.at += 1;
        let mut items = Vec::new();
        if self.take_after_space(b']') {
            return Ok(Value::Array(items));
        }
        loop {
            items.push(self.value(depth)?);
            if self.take_after_space(b']') {
                return Ok(Value::Array(items));
            }
            self.expect_after_space(b',')?;
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value<'a>, UnreadJson> {
        self.at += 1;
        let mut members = Vec::new();
        if self.take_after_space(b'}') {
            return Ok(Value::Object(members));
        }
        loop {
            self.skip_space();
            let name = self.string()?;
            self.expect_after_space(b':')?;
            members.push((name, self.value(depth)?));
            if self.take_after_space(b'}') {
                break;
            }
            self.expect_after_space(b',')?;
        }
        members.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        if members.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return Err(UnreadJson::DuplicateMember);
        }
        Ok(Value::Object(members))
    }

    fn number(&mut self) -> Result<Value<'a>, UnreadJson> {
        let start = self.at;
        self.take(b'-');
        if !self.take(b'0') {
            self.digits()?;
        }
        if self.take(b'.') {
            self.digits()?;
        }
        if self.take(b'e') || self.take(b'E') {
            let _ = self.take(b'+') || self.take(b'-');
            self.digits()?;
        }
        Ok(Value::Number(&self.text[start..self.at]))
    }

    fn digits(&mut self) -> Result<(), UnreadJson> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at == start {
            Err(UnreadJson::NotJson)
        } else {
            Ok(())
        }
    }

    fn string(&mut self) -> Result<Cow<'a, str>, UnreadJson> {
        self.expect(b'"')?;
        let mut start = self.at;
        let mut unescaped: Option<String> = None;
        loop {
            match self.peek().ok_or(UnreadJson::NotJson)? {
                b'"' => {
                    let rest = &self.text[start..self.at];
                    self.at += 1;
                    return Ok(match unescaped {
                        None => Cow::Borrowed(rest),
                        Some(text) => Cow::Owned(text + rest),
                    });
                }
                b'\\' => {
                    let text = unescaped.get_or_insert_default();
                    text.push_str(&self.text[start..self.at]);
                    self.at += 1;
                    text.push(self.escaped()?);
                    start = self.at;
                }
                0..=0x1f => return Err(UnreadJson::NotJson),
                _ => self.at += 1,
            }
        }
    }

    /// The character that an escape means, from the byte after the backslash.
    fn escaped(&mut self) -> Result<char, UnreadJson> {
        let byte = self.peek().ok_or(UnreadJson::NotJson)?;
        self.at += 1;
        Ok(match byte {
            b'"' | b'\\' | b'/' => char::from(byte),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.code_point(),
            _ => return Err(UnreadJson::NotJson),
        })
    }

    /// The character of `\u` and four digits, or of two such escapes in UTF-16.
    fn code_point(&mut self) -> Result<char, UnreadJson> {
        let first = self.code_unit()?;
        let mut units = vec![first];
        if (0xd800..0xdc00).contains(&first) {
            self.expect(b'\\')?;
            self.expect(b'u')?;
            units.push(self.code_unit()?);
        }
        let mut characters = char::decode_utf16(units);
        match (characters.next(), characters.next()) {
            (Some(Ok(character)), None) => Ok(character),
            _ => Err(UnreadJson::NotJson),
        }
    }

    fn code_unit(&mut self) -> Result<u16, UnreadJson> {
        let digits = self.text.as_bytes().get(self.at..self.at + 4);
        self.at += 4;
        digits
            .ok_or(UnreadJson::NotJson)?
            .iter()
            .try_fold(0, |unit, byte| {
                let digit = char::from(*byte).to_digit(16).ok_or(UnreadJson::NotJson)?;
                #[expect(clippy::cast_possible_truncation, reason = "a digit is below 16")]
                Ok((unit << 4) | digit as u16)
            })
    }

    fn word(&mut self, word: &str, value: Value<'a>) -> Result<Value<'a>, UnreadJson> {
        if self.text.as_bytes()[self.at..].starts_with(word.as_bytes()) {
            self.at += word.len();
            Ok(value)
        } else {
            Err(UnreadJson::NotJson)
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, byte: u8) -> Result<(), UnreadJson> {
        if self.take(byte) {
            Ok(())
        } else {
            Err(UnreadJson::NotJson)
        }
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn take_after_space(&mut self, byte: u8) -> bool {
        self.skip_space();
        self.take(byte)
    }

    fn expect_after_space(&mut self, byte: u8) -> Result<(), UnreadJson> {
        self.skip_space();
        self.expect(byte)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_value_is_read() {
        let value =
            parse(br#" { "b" : [ null , true , false , -1.50e+3 , [ ] , { } ] , "a" : "x" } "#);
        let items = vec![
            Value::Null,
            Value::Bool(true),
            Value::Bool(false),
            Value::Number("-1.50e+3"),
            Value::Array(Vec::new()),
            Value::Object(Vec::new()),
        ];
        let members = vec![
            ("a".into(), Value::String("x".into())),
            ("b".into(), Value::Array(items)),
        ];
        assert_eq!(value, Ok(Value::Object(members)));
    }

    #[test]
    fn escapes_are_read() {
        let text = parse(br#""\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00 z""#);
        assert_eq!(text, Ok(Value::String("\"\\/\u{8}\u{c}\n\r\té😀 z".into())));
    }

    #[test]
    fn what_is_not_json_is_refused() {
        for text in [
            "",
            " ",
            "nul",
            "nulll",
            "True",
            "01",
            "-",
            "1.",
            ".5",
            "1e",
            "1e+",
            "+1",
            "0x1",
            "NaN",
            "Infinity",
            "'a'",
            "\"",
            "\"\n\"",
            "\"\\x\"",
            "\"\\u12\"",
            "\"\\u12g4\"",
            "\"\\ud800\"",
            "\"\\ud800\\u0041\"",
            "\"\\udc00\"",
            "\"\\ud800x\"",
            "[",
            "[1",
            "[1,",
            "[1,]",
            "[,1]",
            "[1 2]",
            "{",
            "{\"a\"",
            "{\"a\":",
            "{\"a\":1",
            "{\"a\":1,}",
            "{a:1}",
            "{1:1}",
            "{\"a\" 1}",
            "1 2",
            "[]]",
            "\u{feff}1",
            "// c\n1",
            "1\u{a0}",
        ] {
            assert_eq!(parse(text.as_bytes()), Err(UnreadJson::NotJson), "{text:?}");
        }
        for bytes in [
            b"\"\xff\"".as_slice(),
            b"\"\xed\xa0\x80\"",
            b"\xfe\xff\x001",
        ] {
            assert_eq!(
                parse(bytes),
                Err(UnreadJson::NotJson),
                "{}",
                bytes.escape_ascii()
            );
        }
    }

    #[test]
    fn two_members_with_one_name_are_refused() {
        for text in [
            r#"{"a":1,"a":1}"#,
            r#"{"a":1,"b":2,"a":3}"#,
            r#"{"a":1,"\u0061":1}"#,
            r#"[{"x":{"":1,"":2}}]"#,
        ] {
            assert_eq!(
                parse(text.as_bytes()),
                Err(UnreadJson::DuplicateMember),
                "{text}"
            );
        }
        assert!(parse(r#"{"a":{"a":1},"A":2}"#.as_bytes()).is_ok());
        // A composed and a decomposed letter are two names.
        assert!(parse(r#"{"\u00e9":1,"e\u0301":2}"#.as_bytes()).is_ok());
    }

    #[test]
    fn the_nesting_is_limited() {
        let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        assert!(parse(nested(DEPTH).as_bytes()).is_ok());
        assert_eq!(
            parse(nested(DEPTH + 1).as_bytes()),
            Err(UnreadJson::TooDeep)
        );
        let objects = r#"{"a":"#.repeat(100_000);
        assert_eq!(parse(objects.as_bytes()), Err(UnreadJson::TooDeep));
    }
}
