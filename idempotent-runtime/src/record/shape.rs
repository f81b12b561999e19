//! Describes bytes under a key that are not a record, without their content.

use crate::record::call::VERSION;

/// Describes bytes that could not be read as the expected record, such as `12 bytes of JSON`.
pub(crate) fn describe(bytes: &[u8]) -> String {
    let length = match bytes.len() {
        0 => return "an empty value".to_owned(),
        1 => "1 byte".to_owned(),
        length => format!("{length} bytes"),
    };
    if bytes.starts_with(VERSION.as_bytes()) {
        return format!(
            "{length} of a record that is damaged, has another purpose, or is larger than the handle allows"
        );
    }
    if bytes.starts_with(
        VERSION
            .trim_end_matches(|char: char| char.is_ascii_digit())
            .as_bytes(),
    ) {
        return format!("{length} of a record of another version");
    }
    let text = str::from_utf8(bytes).ok();
    let text =
        text.filter(|text| !text.contains(|char: char| char.is_control() && !char.is_whitespace()));
    let kind = match text.map(str::trim) {
        None => "binary data",
        Some(text) if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) => {
            "digits"
        }
        Some(text) if text.starts_with(['{', '[']) && text.ends_with(['}', ']']) => "JSON",
        Some(_) => "text",
    };
    format!("{length} of {kind}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_described_without_their_content() {
        for (bytes, description) in [
            (&b""[..], "an empty value"),
            (b"7", "1 byte of digits"),
            (b"4111111111111111", "16 bytes of digits"),
            (b"{\"a\": 1}", "8 bytes of JSON"),
            (b" [1]\n", "5 bytes of JSON"),
            (b"s3cret", "6 bytes of text"),
            ("größe".as_bytes(), "7 bytes of text"),
            (b"\x00\x01", "2 bytes of binary data"),
            (b"\xff", "1 byte of binary data"),
            (
                b"idem1 T fresh",
                "13 bytes of a record that is damaged, has another purpose, or is larger than the handle allows",
            ),
            (b"idem2 R owner=", "14 bytes of a record of another version"),
        ] {
            assert_eq!(describe(bytes), description);
        }
    }
}
