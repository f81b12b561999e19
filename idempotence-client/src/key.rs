//! The name of one logical request.

use std::error::Error;
use std::fmt;
use std::str::FromStr;

use reqwest::header::{HeaderValue, InvalidHeaderValue};

/// The name of one logical request: the same for each try, and another for each intention.
///
/// A program that must finish its work after a restart makes the key itself, stores it with the work, and adds it to the request:
///
/// ```
/// use idempotence_client::OutgoingKey;
///
/// # fn request(client: &reqwest_middleware::ClientWithMiddleware) -> reqwest_middleware::RequestBuilder {
/// let key = OutgoingKey::random(); // or the key that the program has stored: `OutgoingKey::try_from(stored)?`
/// client.post("https://shop.example/orders").with_extension(key)
/// # }
/// ```
///
/// In a body that is guarded by the crate `idempotence`, the key is its `downstream_key`, which is the same in each run:
/// `OutgoingKey::try_from(cx.downstream_key("bank.charge"))?`.
///
/// The `IdempotencyKey` of `idempotence` is another type: the key that a server has got.
///
/// A key has 1 to 255 printable ASCII characters, and no space at its ends. Its `Debug` does not show it, because a key may contain
/// private data.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct OutgoingKey(String);

/// A text that cannot be an [`OutgoingKey`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidKey;

/// A text in the extensions of a request, where a key was expected.
///
/// With a new key instead, a program that runs again after a crash would do the work again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TextIsNoKey;

impl OutgoingKey {
    /// The key with this text; the same as `try_from` and `parse`.
    pub fn new(text: impl Into<String>) -> Result<Self, InvalidKey> {
        let text = text.into();
        let is_printable = text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        let is_key = is_printable && (1..=255).contains(&text.len()) && text.trim() == text;
        is_key.then_some(Self(text)).ok_or(InvalidKey)
    }

    /// A new key: a random UUID (RFC 9562, version 4). A program that runs again after a crash would get another key, so it stores
    /// the key before it sends it, or makes the key of its data by `new`.
    ///
    /// # Panics
    ///
    /// If the operating system has no generator of random numbers.
    pub fn random() -> Self {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).expect("the operating system has a generator");
        // Version 4, and the variant of RFC 9562.
        let bits = u128::from_be_bytes(bits_of_version_4(bytes));
        let mut text = format!("{bits:032x}");
        for hyphen in [20, 16, 12, 8] {
            text.insert(hyphen, '-');
        }
        Self(text)
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The value of the header, in quotes if it is a String of RFC 9651. Logs of `http` do not show it.
    pub(crate) fn header(&self, is_quoted: bool) -> Result<HeaderValue, InvalidHeaderValue> {
        let mut value = if is_quoted {
            let escaped = self.0.replace('\\', r"\\").replace('"', "\\\"");
            HeaderValue::try_from(format!("\"{escaped}\""))?
        } else {
            HeaderValue::try_from(self.as_str())?
        };
        value.set_sensitive(true);
        Ok(value)
    }

    /// The key in the value of a header. If the server reads Strings of RFC 9651, quotes are not a part of it.
    pub(crate) fn read(value: &HeaderValue, is_quoted: bool) -> Result<Self, InvalidKey> {
        let text = value.to_str().map_err(|_| InvalidKey)?;
        match text.strip_prefix('"').filter(|_| is_quoted) {
            Some(rest) => unquoted(rest).ok_or(InvalidKey)?.parse(),
            None => text.parse(),
        }
    }
}

fn bits_of_version_4(mut bytes: [u8; 16]) -> [u8; 16] {
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    bytes
}

/// The text before the closing quote. Parameters after it are not a part of the key.
fn unquoted(rest: &str) -> Option<String> {
    let mut text = String::new();
    let mut characters = rest.chars();
    loop {
        match characters.next()? {
            '"' => return Some(text),
            '\\' => text.push(characters.next()?),
            character => text.push(character),
        }
    }
}

impl FromStr for OutgoingKey {
    type Err = InvalidKey;

    fn from_str(text: &str) -> Result<Self, InvalidKey> {
        Self::new(text)
    }
}

impl TryFrom<&str> for OutgoingKey {
    type Error = InvalidKey;

    fn try_from(text: &str) -> Result<Self, InvalidKey> {
        Self::new(text)
    }
}

impl TryFrom<String> for OutgoingKey {
    type Error = InvalidKey;

    fn try_from(text: String) -> Result<Self, InvalidKey> {
        Self::new(text)
    }
}

impl fmt::Debug for OutgoingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OutgoingKey({} characters)", self.0.len())
    }
}

impl fmt::Display for InvalidKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the idempotency key of the request is malformed: use 1 to 255 printable ASCII characters, without spaces at the ends")
    }
}

impl Error for InvalidKey {}

impl fmt::Display for TextIsNoKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the extensions of the request have a `String`, which is no idempotency key: use `.with_extension(OutgoingKey::try_from(text)?)`")
    }
}

impl Error for TextIsNoKey {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_keys_are_uuids_of_version_4_and_differ() {
        let (one, other) = (OutgoingKey::random(), OutgoingKey::random());
        assert_ne!(one, other);
        let groups: Vec<usize> = one.as_str().split('-').map(str::len).collect();
        assert_eq!(groups, [8, 4, 4, 4, 12]);
        for key in [one, other] {
            assert_eq!(&key.as_str()[14..15], "4");
            assert!("89ab".contains(&key.as_str()[19..20]), "{}", key.as_str());
        }
    }

    #[test]
    fn a_key_is_read_from_the_header_that_was_made_of_it() {
        for text in ["8e03978e", "a b", r#"a"b\c"#, "a,b", "ü"] {
            let Ok(key) = text.parse::<OutgoingKey>() else {
                assert_eq!(text, "ü");
                continue;
            };
            for is_quoted in [true, false] {
                let header = key.header(is_quoted).unwrap();
                assert!(header.is_sensitive());
                assert_eq!(OutgoingKey::read(&header, is_quoted).as_ref(), Ok(&key));
            }
        }
        let read = |text, is_quoted| {
            let key = OutgoingKey::read(&HeaderValue::from_static(text), is_quoted);
            key.map(|key| key.0)
        };
        assert_eq!(read(r#""abc";v=1"#, true).as_deref(), Ok("abc"));
        assert_eq!(read(r#""abc""#, false).as_deref(), Ok(r#""abc""#));
        assert_eq!(read(r#""abc"#, true), Err(InvalidKey));
        assert_eq!(read(r#""""#, true), Err(InvalidKey));
    }

    #[test]
    fn a_text_that_a_header_would_change_is_no_key() {
        let longest = "k".repeat(255);
        for (text, is_key) in [
            ("k", true),
            (&*longest, true),
            (&*format!("{longest}k"), false),
            ("", false),
            (" ", false),
            (" k", false),
            ("k ", false),
            ("k\n", false),
            ("\u{7f}", false),
        ] {
            assert_eq!(text.parse::<OutgoingKey>().is_ok(), is_key, "{text:?}");
            assert_eq!(OutgoingKey::try_from(text).is_ok(), is_key, "{text:?}");
            let owned = OutgoingKey::try_from(text.to_owned());
            assert_eq!(owned.is_ok(), is_key, "{text:?}");
        }
    }

    #[test]
    fn the_debug_form_of_a_key_does_not_show_it() {
        let key: OutgoingKey = "ada@example.com".parse().unwrap();
        assert_eq!(format!("{key:?}"), "OutgoingKey(15 characters)");
    }
}
