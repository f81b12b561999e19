//! Describes bytes under a key that are not a record, without their content.

/// Describes bytes that could not be read as the expected record, such as `12 bytes of JSON`.
pub(crate) fn describe(bytes: &[u8]) -> String {
    let length = match bytes.len() {
        0 => return "an empty value".to_owned(),
        1 => "1 byte".to_owned(),
        length => format!("{length} bytes"),
    };
    if let [b'i', b'd', b'e', b'm', b'1' | b'2', ..] = bytes {
        return format!(
            "{length} of a record that is damaged, has another purpose, or is larger than the handle allows"
        );
    }
    if bytes.starts_with(b"idem") {
        return format!("{length} of a record of another version");
    }
    let text = first_text(bytes);
    let text =
        text.filter(|text| !text.contains(|char: char| char.is_control() && !char.is_whitespace()));
    let last = bytes[bytes.len().saturating_sub(READ)..].trim_ascii_end();
    let kind = match text.map(str::trim) {
        None => "binary data",
        Some(text) if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) => {
            "digits"
        }
        Some(text) if text.starts_with(['{', '[']) && matches!(last, [.., b'}' | b']']) => "JSON",
        Some(_) => "text",
    };
    format!("{length} of {kind}")
}

/// The text at the beginning of these bytes; `None` if it is not UTF-8. The rest is not read, because it may be long.
fn first_text(bytes: &[u8]) -> Option<&str> {
    let first = &bytes[..bytes.len().min(READ)];
    match str::from_utf8(first) {
        Ok(text) => Some(text),
        // The first bytes end within a character.
        Err(error) if error.error_len().is_none() && first.len() < bytes.len() => {
            str::from_utf8(&first[..error.valid_up_to()]).ok()
        }
        Err(_) => None,
    }
}

/// So many bytes are read at the beginning and at the end.
const READ: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_bytes_are_described_by_their_first_bytes() {
        let long = |part: &[u8], end: &[u8]| describe(&[&part.repeat(1000), end].concat());
        // Nothing after the first bytes makes a text binary.
        assert_eq!(long("größe ".as_bytes(), b"\0\xff"), "8002 bytes of text");
        assert_eq!(long(b"7", b"x"), "1001 bytes of digits");
        assert_eq!(long(b"[", b"]\n"), "1002 bytes of JSON");
        assert_eq!(long(b"\xff", b"text"), "1004 bytes of binary data");
    }

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
            (b"idem3 R owner=", "14 bytes of a record of another version"),
        ] {
            assert_eq!(describe(bytes), description);
        }
    }
}
