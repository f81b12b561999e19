//! Parameters of a structured field: RFC 9651, section 4.2.3.2.
//!
//! The keys of this library have no parameters, so this reader only decides whether the text is well formed.

/// Whether the whole text is parameters, such as `;v=1; final`.
pub(crate) fn are_parameters(mut rest: &[u8]) -> bool {
    while let [b';', after @ ..] = rest {
        let spaces = after.iter().take_while(|byte| **byte == b' ').count();
        let Some(after) = after_name(&after[spaces..]) else {
            return false;
        };
        rest = match after {
            [b'=', value @ ..] => match after_value(value) {
                Some(after) => after,
                None => return false,
            },
            after => after,
        };
    }
    rest.is_empty()
}

/// What follows the name of a parameter. Section 4.2.3.3.
fn after_name(text: &[u8]) -> Option<&[u8]> {
    match text {
        [b'a'..=b'z' | b'*', rest @ ..] => Some(after_all(
            rest,
            |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'.' | b'*'),
        )),
        _ => None,
    }
}

/// What follows a bare item. Section 4.2.3.1.
fn after_value(text: &[u8]) -> Option<&[u8]> {
    match text {
        [b'-' | b'0'..=b'9', ..] => after_number(text, true),
        [b'@', date @ ..] => after_number(date, false),
        [b'"', rest @ ..] => after_string(rest),
        [b'?', b'0' | b'1', rest @ ..] => Some(rest),
        [b':', rest @ ..] => after_bytes(rest),
        [b'%', b'"', rest @ ..] => after_display_string(rest),
        [b'*' | b'A'..=b'Z' | b'a'..=b'z', rest @ ..] => Some(after_all(rest, |byte| {
            byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&byte)
        })),
        _ => None,
    }
}

/// What follows an integer of up to 15 digits, or a decimal of up to 12 digits, a point, and 1 to 3 digits. Section 4.2.4.
fn after_number(text: &[u8], may_have_point: bool) -> Option<&[u8]> {
    let text = text.strip_prefix(b"-").unwrap_or(text);
    let is_digit = |byte: u8| byte.is_ascii_digit();
    let after = after_all(text, is_digit);
    let digits = text.len() - after.len();
    match after {
        [b'.', fraction @ ..] if may_have_point => {
            let rest = after_all(fraction, is_digit);
            let decimals = fraction.len() - rest.len();
            ((1..=12).contains(&digits) && (1..=3).contains(&decimals)).then_some(rest)
        }
        [b'.', ..] => None,
        _ => (1..=15).contains(&digits).then_some(after),
    }
}

/// What follows a String, from the byte after its opening quote. Section 4.2.5.
fn after_string(mut text: &[u8]) -> Option<&[u8]> {
    loop {
        text = match text {
            [b'"', rest @ ..] => return Some(rest),
            [b'\\', b'"' | b'\\', rest @ ..] => rest,
            [b'\\', ..] => return None,
            [b' '..=b'~', rest @ ..] => rest,
            _ => return None,
        };
    }
}

/// What follows a Byte Sequence, from the byte after its opening colon. Section 4.2.7.
fn after_bytes(text: &[u8]) -> Option<&[u8]> {
    let rest = after_all(text, |byte| {
        byte.is_ascii_alphanumeric() || b"+/=".contains(&byte)
    });
    rest.strip_prefix(b":")
}

/// What follows a Display String, from the byte after its opening quote. Section 4.2.10.
fn after_display_string(mut text: &[u8]) -> Option<&[u8]> {
    let mut decoded = Vec::new();
    loop {
        text = match text {
            [b'"', rest @ ..] => return std::str::from_utf8(&decoded).is_ok().then_some(rest),
            [b'%', high, low, rest @ ..] => {
                decoded.push((digit(*high)? << 4) | digit(*low)?);
                rest
            }
            [b'%', ..] => return None,
            [byte @ b' '..=b'~', rest @ ..] => {
                decoded.push(*byte);
                rest
            }
            _ => return None,
        };
    }
}

/// The value of a hexadecimal digit in lower case.
fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    }
}

/// The text after all first bytes that `is_part` accepts.
fn after_all(text: &[u8], is_part: impl Fn(u8) -> bool) -> &[u8] {
    let parts = text.iter().take_while(|byte| is_part(**byte)).count();
    &text[parts..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_of_value_is_read() {
        for text in [
            "",
            ";a",
            ";  a",
            ";a;b;*c.d_e-f*",
            ";a=1",
            ";a=-1",
            ";a=999999999999999",
            ";a=999999999999.999",
            ";a=\"\"",
            ";a=\"x;\\\"y\\\\\"",
            ";a=token/with:signs",
            ";a=*",
            ";a=::",
            ";a=:YWJj:",
            ";a=?0;b=?1",
            ";a=@1659578233",
            ";a=@-1",
            ";a=%\"f%c3%bcr\"",
        ] {
            assert!(are_parameters(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn malformed_parameters_are_found() {
        for text in [
            ";",
            " ;a",
            ";a ",
            ";A",
            ";1",
            ";a=",
            ";a= 1",
            ";a =1",
            ";a=-",
            ";a=1.",
            ";a=.5",
            ";a=1.2345",
            ";a=1000000000000000",
            ";a=1000000000000.0",
            ";a=\"",
            ";a=\"\\x\"",
            ";a=\"é\"",
            ";a=:YWJj",
            ";a=:*:",
            ";a=?2",
            ";a=@1.5",
            ";a=@",
            ";a=%\"%C3\"",
            ";a=%\"%c3\"",
            ";a=%\"%c",
            ";a=(1 2)",
            ";a,b",
            ";a;;b",
        ] {
            assert!(!are_parameters(text.as_bytes()), "{text}");
        }
    }
}
