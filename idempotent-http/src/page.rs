//! A refusal as a small page of HTML, for a person whose browser has sent a form.

use ::http::{HeaderMap, HeaderValue, Response, header};
use bytes::Bytes;
use idempotent_runtime::port::http::{Problem, weight};

/// Whether a client with these headers is a browser that opens a page or sends a form: it prefers HTML to JSON, and also accepts
/// XHTML. Scripts and SDKs accept `*/*` or JSON. `HttpURLConnection` of Java accepts HTML, but no XHTML.
pub(crate) fn is_preferred(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(header::ACCEPT).iter();
    let lines = lines.filter_map(|line| line.to_str().ok());
    let (mut html, mut json, mut others) = (0.0_f32, 0.0_f32, 0.0_f32);
    let mut xhtml = 0.0_f32;
    for range in lines.flat_map(|line| line.split(',')) {
        let (name, parameters) = range.split_once(';').unwrap_or((range, ""));
        let name = name.trim().to_ascii_lowercase();
        let of_range = match name.as_str() {
            "text/html" => &mut html,
            "application/xhtml+xml" => &mut xhtml,
            "*/*" => &mut others,
            "application/*" => &mut json,
            name if name.ends_with("json") => &mut json,
            _ => continue,
        };
        *of_range = of_range.max(weight(parameters));
    }
    xhtml > 0.0 && html > json && html >= others
}

/// Makes a page of the response with this problem.
pub(crate) fn set_page(problem: &Problem, response: &mut Response<Bytes>) {
    *response.body_mut() = page(problem).into();
    let html = HeaderValue::from_static("text/html; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, html);
}

fn page(problem: &Problem) -> String {
    // The title is for programmers.
    let (tag, detail) = (problem.lang.tag(), escaped(&problem.detail));
    format!(
        "<!DOCTYPE html>\n<html lang=\"{tag}\">\n<head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
             <title>{detail}</title></head>\n<body><p>{detail}</p></body>\n</html>\n"
    )
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_prefers_a_page_and_no_script_does() {
        let is_preferred = |accept: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for line in accept {
                headers.append(header::ACCEPT, HeaderValue::from_static(line));
            }
            is_preferred(&headers)
        };
        for accept in [
            // Chrome, Firefox, Safari.
            "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8",
            "Text/HTML, Application/XHTML+XML, */*",
            "application/json;q=0.5, text/html, application/xhtml+xml",
        ] {
            assert!(is_preferred(&[accept]), "{accept}");
        }
        for accept in [
            "",
            "*/*",
            "application/json",
            "text/html",
            // `HttpURLConnection` of Java.
            "text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2",
            "text/html, application/xhtml+xml, application/json",
            "text/html, application/xhtml+xml, application/problem+json",
            "text/html;q=0.1, application/xhtml+xml, */*",
            "text/html;q=0, application/xhtml+xml",
            "text/htmlx, application/xhtml+xml",
        ] {
            assert!(!is_preferred(&[accept]), "{accept}");
        }
        assert!(!is_preferred(&[]));
        assert!(is_preferred(&[
            "*/*;q=0.1, application/xhtml+xml",
            "text/html"
        ]));
    }

    #[test]
    fn a_text_is_no_markup() {
        assert_eq!(
            escaped("<a href=\"x\">&'"),
            "&lt;a href=&quot;x&quot;&gt;&amp;&#39;"
        );
    }
}
