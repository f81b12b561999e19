//! The names of routes: as a person writes them, and as a part of a key.
//!
//! ```text
//! POST /orders/{id}/pay    POST./orders/(id)/pay
//! POST /v1/orders:cancel   POST./v1/orders%3acancel
//! PUT /files/{*path}       PUT./files/(*path)
//! ```
//!
//! Redis Cluster reads braces as a hash tag and would put all keys of the route into one slot. A `:` ends a part of a key, and a
//! `#` marks the keys of records that are not calls. Logs and tools of stores separate words by blanks. So a key contains other
//! characters in their place. Every route has its own form, because `(`, `)` and `%` are escaped, too.

use std::fmt::Write as _;

use crate::key::name::{InvalidName, shortened};

/// A method and a route, as `POST /orders/{id}/pay`.
#[derive(Debug)]
pub struct RouteName {
    /// As a person writes it.
    spelled: Box<str>,
    /// As a part of a key.
    in_key: Box<str>,
}

/// The longest method and route, in bytes.
const LONGEST_ROUTE: usize = 1000;

/// The longest text that can name a route: each byte of the route escaped.
const LONGEST_TEXT: usize = 3 * LONGEST_ROUTE;

impl RouteName {
    /// The name of a method and a route of the program.
    pub fn new(method: &str, path: &str) -> Result<Self, InvalidName> {
        let spelled = format!("{method} {path}");
        match why_invalid(method, path) {
            None => Ok(Self {
                spelled: spelled.into(),
                in_key: shortened(format!("{method}.{}", escape(path))).into(),
            }),
            Some(why) => Err(InvalidName::new(&spelled, why)),
        }
    }

    /// Reads a name that a person writes: the route's own spelling, or its form in keys. `None` if `text` has neither form.
    ///
    /// A long route has a digest in keys. So its form in keys is also its spelling.
    pub(crate) fn read(text: &str) -> Option<Result<Self, InvalidName>> {
        if text.len() > LONGEST_TEXT {
            return Some(Err(InvalidName::new(text, too_long())));
        }
        let parts = |separator| {
            let parts = text.split_once(separator)?;
            // The path of a method names its type between `<` and `>`, perhaps with blanks: `<shop.Cards as shop.Pay>.pay`.
            (parts.1.starts_with('/') && !parts.0.contains('<')).then_some(parts)
        };
        if let Some((method, path)) = parts(' ') {
            return Some(Self::new(method, path));
        }
        let (method, path) = parts('.')?;
        let why = "is not the form of a route in a key; write the route, as in `POST /orders/{id}`";
        let invalid = || InvalidName::new(text, why.to_owned());
        let path = unescape(path).ok_or_else(invalid);
        Some(path.and_then(|path| Self::new(method, &path)))
    }

    /// `POST /orders/{id}/pay`.
    pub(crate) fn spelled(&self) -> &str {
        &self.spelled
    }

    /// The method and the path.
    pub fn parts(&self) -> (&str, &str) {
        self.spelled.split_once(' ').unwrap_or_default()
    }

    /// Whether this is the name of the method and the path.
    pub fn is(&self, method: &str, path: &str) -> bool {
        self.parts() == (method, path)
    }

    /// `POST./orders/(id)/pay`: without braces, blanks, `:` and `#`.
    pub(crate) fn in_key(&self) -> &str {
        &self.in_key
    }
}

/// Why a method and a path are not the name of a route, as the predicate of a sentence about them.
fn why_invalid(method: &str, path: &str) -> Option<String> {
    if method.len() + path.len() + 1 > LONGEST_ROUTE {
        return Some(too_long());
    }
    let is_capital =
        |char: char| char.is_ascii_uppercase() || char.is_ascii_digit() || "-_".contains(char);
    if method.is_empty() || !method.chars().all(is_capital) {
        let method = method.escape_debug();
        return Some(format!(
            "has the method `{method}`; write the method in capitals, as in `POST /orders`"
        ));
    }
    if !path.starts_with('/') {
        return Some("has a path that does not begin with `/`".to_owned());
    }
    let char = path
        .chars()
        .find(|char| char.is_control() || char.is_whitespace())?;
    Some(format!(
        "has the character {char:?}; a route has neither blanks nor control characters"
    ))
}

fn too_long() -> String {
    format!("is longer than {LONGEST_ROUTE} bytes")
}

/// Whether a key contains the character as the path has it.
fn is_plain(char: char) -> bool {
    !char.is_ascii() || char.is_ascii_alphanumeric() || "/._-~*".contains(char)
}

// Input:  /v1/orders/{id}:cancel
// Output: /v1/orders/(id)%3acancel
fn escape(path: &str) -> String {
    let mut escaped = String::with_capacity(path.len());
    for char in path.chars() {
        match char {
            '{' => escaped.push('('),
            '}' => escaped.push(')'),
            _ if is_plain(char) => escaped.push(char),
            // Writing to a string does not fail. The character is ASCII.
            _ => drop(write!(escaped, "%{:02x}", u32::from(char))),
        }
    }
    escaped
}

/// The path of an escaped path. `None` if [`escape`] does not write it.
fn unescape(escaped: &str) -> Option<String> {
    let mut path = String::with_capacity(escaped.len());
    let mut rest = escaped.chars();
    while let Some(char) = rest.next() {
        let char = match char {
            '(' => '{',
            ')' => '}',
            '%' => {
                let digits = [rest.next()?, rest.next()?].map(|digit| digit.to_digit(16));
                char::from(u8::try_from(digits[0]? * 16 + digits[1]?).ok()?)
            }
            _ => char,
        };
        path.push(char);
    }
    (escape(&path) == escaped).then_some(path)
}

#[cfg(test)]
mod tests {
    use arbtest::arbitrary::{Result, Unstructured};

    use super::*;
    use crate::cases::cases;
    use crate::key::name::LONGEST;

    fn name(method: &str, path: &str) -> RouteName {
        RouteName::new(method, path).unwrap()
    }

    fn read(text: &str) -> RouteName {
        RouteName::read(text).expect(text).expect(text)
    }

    fn problem(text: &str) -> String {
        RouteName::read(text).expect(text).unwrap_err().to_string()
    }

    #[test]
    fn the_form_of_a_route_in_keys_is_frozen() {
        for (method, path, in_key) in [
            ("POST", "/orders/{id}/pay", "POST./orders/(id)/pay"),
            ("PUT", "/files/{*path}", "PUT./files/(*path)"),
            ("POST", "/", "POST./"),
            (
                "POST",
                "/v1/orders/{id}:cancel",
                "POST./v1/orders/(id)%3acancel",
            ),
            ("POST", "/a(b)%3a#/{{c}}", "POST./a%28b%29%253a%23/((c))"),
            ("PATCH", "/~me/v1.0/a_b-c", "PATCH./~me/v1.0/a_b-c"),
            ("POST", "/größe/支付", "POST./größe/支付"),
            ("M-SEARCH", "/a@b+c", "M-SEARCH./a%40b%2bc"),
        ] {
            let route = name(method, path);
            assert_eq!(route.in_key(), in_key);
            assert_eq!(route.spelled(), format!("{method} {path}"));
        }
    }

    #[test]
    fn a_person_writes_a_route_in_its_own_spelling_or_as_in_keys() {
        for text in [
            "POST /v1/orders/{id}:cancel",
            "POST./v1/orders/(id)%3acancel",
        ] {
            let route = read(text);
            assert_eq!(route.spelled(), "POST /v1/orders/{id}:cancel");
            assert_eq!(route.in_key(), "POST./v1/orders/(id)%3acancel");
        }
        for text in [
            "orders.pay",
            "",
            "POST",
            "/orders",
            "<shop.Cards as shop.Pay>.pay",
            "shop.Sheet<' /'>.save",
            "shop.Sheet<'./'>.save",
        ] {
            assert!(RouteName::read(text).is_none(), "{text}");
        }
    }

    #[test]
    fn a_text_that_is_almost_a_route_is_an_error_that_says_what_to_write() {
        for (text, why) in [
            (
                "post /orders",
                "has the method `post`; write the method in capitals, as in `POST /orders`",
            ),
            (
                " /orders",
                "has the method ``; write the method in capitals, as in `POST /orders`",
            ),
            (
                "POST /a b",
                "has the character ' '; a route has neither blanks nor control characters",
            ),
            (
                "POST /a\nb",
                "has the character '\\n'; a route has neither blanks nor control characters",
            ),
            (
                "POST /a\u{a0}",
                "has the character '\\u{a0}'; a route has neither blanks nor control characters",
            ),
            (
                "POST./{id}",
                "is not the form of a route in a key; write the route, as in `POST /orders/{id}`",
            ),
            (
                "POST./a%2",
                "is not the form of a route in a key; write the route, as in `POST /orders/{id}`",
            ),
            (
                "POST./a%3A",
                "is not the form of a route in a key; write the route, as in `POST /orders/{id}`",
            ),
        ] {
            let problem = problem(text);
            assert!(problem.ends_with(&format!("it {why}")), "{problem}");
        }
        let long = format!("POST /{}", "a".repeat(1000));
        assert!(problem(&long).ends_with("it is longer than 1000 bytes"));
        assert!(RouteName::read(&long[..1000]).is_some_and(|route| route.is_ok()));
    }

    #[test]
    fn a_long_route_is_cut_in_keys_and_stays_unique() {
        let long = |end: &str| name("POST", &format!("/{}{end}", "é{id}/".repeat(99)));
        let (a, b) = (long("a"), long("b"));
        assert!(a.in_key().len() <= LONGEST && b.in_key().len() <= LONGEST);
        assert_ne!(a.in_key(), b.in_key());
        assert_eq!(read(a.spelled()).in_key(), a.in_key());
        // What an operator copies from a key finds the record.
        assert_eq!(read(a.in_key()).in_key(), a.in_key());
    }

    fn path(u: &mut Unstructured<'_>) -> Result<String> {
        const PIECES: [&str; 14] = [
            "{", "}", "(", ")", "%", "%3a", ":", "#", "/", "*", "é", ".", "~", "id",
        ];
        let mut path = "/".to_owned();
        for _ in 0..u.int_in_range(0..=6)? {
            path.push_str(u.choose(&PIECES)?);
        }
        Ok(path)
    }

    #[test]
    fn two_routes_never_share_a_form_in_keys() {
        let mut known = std::collections::HashMap::new();
        cases(128, |u| {
            let path = path(u)?;
            let route = name("POST", &path);
            let in_key = route.in_key().to_owned();
            assert!(!in_key.contains(['{', '}', ':', '#', ' ']), "{in_key}");
            assert_eq!(read(&in_key).spelled(), route.spelled());
            let other = known.entry(in_key).or_insert_with(|| path.clone());
            assert_eq!(*other, path);
            Ok(())
        });
        assert!(known.len() > 50, "only {} different routes", known.len());
    }
}
