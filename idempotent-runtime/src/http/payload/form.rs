//! The fields of a form: `application/x-www-form-urlencoded`, as the URL Standard of WHATWG reads it (section 5.1). A query is read
//! in the same way.

use std::borrow::Cow;

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
        assert_eq!(fields(b"a=%FF").next().unwrap().1, &b"\xff"[..]);
    }
}
