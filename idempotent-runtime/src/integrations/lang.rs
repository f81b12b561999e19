//! The language of a request.

use ::http::{HeaderMap, header};

use crate::Lang;

/// Reads the header `Accept-Language` with [`Lang::from_accept_language`]. Without the header the language is English.
pub fn from_headers(headers: &HeaderMap) -> Lang {
    let lines = headers.get_all(header::ACCEPT_LANGUAGE).iter();
    let mut lines = lines.filter_map(|line| line.to_str().ok());
    match (lines.next(), lines.next()) {
        (None, _) => Lang::default(),
        (Some(line), None) => Lang::from_accept_language(line),
        (Some(first), Some(second)) => {
            let lines: Vec<&str> = [first, second].into_iter().chain(lines).collect();
            Lang::from_accept_language(&lines.join(","))
        }
    }
}

#[cfg(test)]
mod tests {
    use ::http::HeaderValue;

    use super::*;

    #[test]
    fn all_lines_of_the_header_count() {
        let lang = |lines: &[&'static [u8]]| {
            let mut headers = HeaderMap::new();
            for line in lines {
                let line = HeaderValue::from_bytes(line).unwrap();
                headers.append(header::ACCEPT_LANGUAGE, line);
            }
            from_headers(&headers)
        };
        assert_eq!(lang(&[]), Lang::En);
        assert_eq!(lang(&[b"zh-CN;Q=0.9"]), Lang::ZhHans);
        assert_eq!(lang(&[b"en;q=0.5", b"zh;q=0.8"]), Lang::ZhHans);
        assert_eq!(lang(&[b"\xff", b"zh"]), Lang::ZhHans);
    }
}
