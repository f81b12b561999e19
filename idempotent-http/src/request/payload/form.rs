//! The fields of a form: `application/x-www-form-urlencoded`, as the URL Standard of WHATWG reads it (section 5.1). A query is read
//! in the same way.
//!
//! The text of a form in a payload is frozen: its digest is in stored records. It is a canonical JSON array (`canonical.rs`) with one
//! array for each field: its name and its value. The fields are sorted by their names; fields with the same name keep their order.
//!
//! Test vector: the body `b=2&a=x+y&b=%31`
//!
//! ```text
//! POST /pay?x=1
//! application/x-www-form-urlencoded
//! form
//! [["a","x y"],["b","2"],["b","1"]]
//! ```

use std::borrow::Cow;

use super::canonical::write_string;

/// The name and the value of a field, without their encoding. They need not be UTF-8.
pub(crate) type Field<'a> = (Cow<'a, [u8]>, Cow<'a, [u8]>);

/// The fields of a form, in their order.
pub(crate) fn fields(form: &[u8]) -> impl Iterator<Item = Field<'_>> {
    let pairs = form.split(|byte| *byte == b'&');
    pairs.filter(|pair| !pair.is_empty()).map(|pair| {
        let end = pair.iter().position(|byte| *byte == b'=');
        let end = end.unwrap_or(pair.len());
        let value = pair.get(end + 1..).unwrap_or_default();
        (decoded(&pair[..end]), decoded(value))
    })
}

/// The canonical text of a form. `None` if a name or a value is not UTF-8.
pub(super) fn canonical(form: &[u8]) -> Option<String> {
    let mut pairs = Vec::new();
    for (name, value) in fields(form) {
        let text = |bytes: Cow<'_, [u8]>| String::from_utf8(bytes.into_owned()).ok();
        pairs.push((text(name)?, text(value)?));
    }
    // Stable: the values of one name keep their order.
    pairs.sort_by(|(one, _), (other, _)| one.cmp(other));
    let mut text = String::from("[");
    for (at, (name, value)) in pairs.iter().enumerate() {
        text.push_str(if at > 0 { ",[" } else { "[" });
        write_string(name, &mut text);
        text.push(',');
        write_string(value, &mut text);
        text.push(']');
    }
    text.push(']');
    Some(text)
}

/// `+` is a space. A `%` without two hexadecimal digits is itself.
fn decoded(text: &[u8]) -> Cow<'_, [u8]> {
    let Some(plain) = text.iter().position(|byte| matches!(byte, b'+' | b'%')) else {
        return Cow::Borrowed(text);
    };
    let (plain, mut rest) = text.split_at(plain);
    let mut decoded = plain.to_vec();
    while let Some((byte, after)) = rest.split_first() {
        let (byte, after) = match (byte, after) {
            (b'+', _) => (b' ', after),
            (b'%', [high, low, after @ ..]) if let Some(byte) = from_hex(*high, *low) => {
                (byte, after)
            }
            _ => (*byte, after),
        };
        decoded.push(byte);
        rest = after;
    }
    Cow::Owned(decoded)
}

fn from_hex(high: u8, low: u8) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    u8::try_from((digit(high)? << 4) | digit(low)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_as_the_url_standard_says() {
        let read = |form: &str| {
            let text = |bytes: Cow<'_, [u8]>| String::from_utf8_lossy(&bytes).into_owned();
            let fields = fields(form.as_bytes()).map(|(name, value)| (text(name), text(value)));
            fields.collect::<Vec<_>>()
        };
        for (form, expected) in [
            ("", &[][..]),
            ("&&", &[]),
            ("a=1&b=2&a=3", &[("a", "1"), ("b", "2"), ("a", "3")]),
            ("a", &[("a", "")]),
            ("=1", &[("", "1")]),
            ("a==&b=c=d", &[("a", "="), ("b", "c=d")]),
            ("a+b=%C3%a9+%2B", &[("a b", "é +")]),
            (
                "a=%&b=%4&c=%zz&d=%4%41",
                &[("a", "%"), ("b", "%4"), ("c", "%zz"), ("d", "%4A")],
            ),
            ("items%5B0%5D=x", &[("items[0]", "x")]),
        ] {
            let expected: Vec<_> = expected
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect();
            assert_eq!(read(form), expected, "{form}");
        }
        assert_eq!(canonical(b"a=%FF"), None);
        let text = r#"[["a","x y"],["b","2"],["b","1"]]"#;
        assert_eq!(canonical(b"b=2&a=x+y&b=%31").as_deref(), Some(text));
        assert_eq!(canonical(b"").as_deref(), Some("[]"));
        assert_eq!(fields(b"a=%FF").next().unwrap().1, &b"\xff"[..]);
    }
}
