//! Checks the URL of a database before the client gets it.
//!
//! The client ignores an unknown parameter, for example a misspelt request for TLS. It logs the parameter with its value, which
//! may be a password. Its errors repeat a value that it cannot read.

use std::borrow::Cow;

use idempotent_runtime::port::sql::unknown_parameter;
use idempotent_runtime::store::{StoreError, StoreErrorKind};
use url::{Url, form_urlencoded};

/// A parameter that the client knows, and its allowed values.
pub(crate) type UrlParameter = (&'static str, Takes);

/// The allowed values of a parameter.
#[derive(Debug, Clone, Copy)]
pub enum Takes {
    /// Anything.
    Text,
    /// A whole number from zero to this number.
    Number(u64),
    /// An IP address.
    Address,
    /// One of these words, in lower case.
    Word(&'static [&'static str]),
    /// One of these words, in lower or upper case.
    AnyCase(&'static [&'static str]),
}

/// The parameters of the store itself. The client does not know them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoreParameters {
    /// Whether changes go in batches.
    pub(crate) batch: bool,
    /// Whether expired records are purged.
    pub(crate) purge: bool,
    /// Whether missing tables are made.
    pub(crate) migrate: bool,
}

/// Checks the URL of a database whose client knows the parameters `known`. Returns the URL for the client, and the parameters of
/// the store.
///
/// # Errors
///
/// The error repeats no part of the URL except the name of a parameter: in an invalid URL any part may belong to the
/// password.
pub(crate) fn check<'a>(
    url: &'a str,
    known: &[UrlParameter],
) -> Result<(Cow<'a, str>, StoreParameters), StoreError> {
    let known = [known, &[BATCH, PURGE, MIGRATE]].concat();
    check_for_client(url, &known)?;
    Ok(without_own(url))
}

const BATCH: UrlParameter = ("batch", SWITCH);
const PURGE: UrlParameter = ("purge", SWITCH);
const MIGRATE: UrlParameter = ("migrate", SWITCH);
const SWITCH: Takes = Takes::Word(&["true", "false"]);

/// Takes the parameters of the store out of a valid URL.
fn without_own(url: &str) -> (Cow<'_, str>, StoreParameters) {
    let mut own = StoreParameters {
        batch: true,
        purge: true,
        migrate: true,
    };
    let Some((address, query)) = url.split_once('?') else {
        return (url.into(), own);
    };
    let is_of_client = |part: &&str| {
        let Some((name, value)) = form_urlencoded::parse(part.as_bytes()).next() else {
            return true;
        };
        let own = match name {
            name if name == BATCH.0 => &mut own.batch,
            name if name == PURGE.0 => &mut own.purge,
            name if name == MIGRATE.0 => &mut own.migrate,
            _ => return true,
        };
        *own = value == "true";
        false
    };
    let kept: Vec<_> = query.split('&').filter(is_of_client).collect();
    let url = match kept[..] {
        [] => address.to_owned(),
        _ => format!("{address}?{}", kept.join("&")),
    };
    (url.into(), own)
}

fn check_for_client(url: &str, known: &[UrlParameter]) -> Result<(), StoreError> {
    let (scheme, rest) = url.split_once(':').unwrap_or((url, ""));
    if scheme == "sqlite" {
        let (file, query) = rest.split_once('?').unwrap_or((rest, ""));
        // For an empty name SQLite makes a temporary database for each connection.
        if file.trim_start_matches('/').is_empty() && !query.contains("mode=memory") {
            return Err(invalid_url(
                "names no file: write `sqlite:file`, or `sqlite::memory:` in a test",
            ));
        }
        return check_parameters(query, known);
    }
    let rest = rest
        .strip_prefix("//")
        .ok_or_else(|| invalid_url("has no `//` and host after its scheme"))?;
    if url.contains('#') {
        return Err(invalid_url(
            "contains a `#`: in a password write `#` as `%23`",
        ));
    }
    let (_, after) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    if after.contains('@') {
        return Err(invalid_url(
            "has an `@` after its host: in a password write `@ : / ? # %` as `%40 %3A %2F %3F %23 %25`, and in the \
             name of a database or in a parameter write `@` as `%40`",
        ));
    }
    let parsed = Url::parse(url).map_err(|_| {
        invalid_url(
            "has no host, or a host or port that cannot be read: write `host`, `host:port` or `[address]:port`, and \
             in a password write `@ : / ? # %` as `%40 %3A %2F %3F %23 %25`",
        )
    })?;
    check_parameters(parsed.query().unwrap_or_default(), known)
}

fn check_parameters(query: &str, known: &[UrlParameter]) -> Result<(), StoreError> {
    let mut after_password = false;
    for (number, (name, value)) in form_urlencoded::parse(query.as_bytes()).enumerate() {
        let Some((_, takes)) = known.iter().find(|(known, _)| is_named(known, &name)) else {
            let names: Vec<_> = known.iter().map(|(name, _)| *name).collect();
            let parameter = (&*name, &*value);
            return Err(invalid_url(unknown_parameter(
                number + 1,
                parameter,
                after_password,
                &names,
            )));
        };
        if !takes.accepts(&value) {
            return Err(invalid_url(format!(
                "has a wrong parameter: `{name}` must be {}",
                takes.describe()
            )));
        }
        after_password |= name == "password";
    }
    Ok(())
}

/// Whether `name` is the parameter `known`. A known `options[]` allows any name in the brackets.
fn is_named(known: &str, name: &str) -> bool {
    match known.strip_suffix("[]") {
        Some(known) => name
            .strip_prefix(known)
            .is_some_and(|rest| rest.starts_with('[') && rest.ends_with(']')),
        None => name == known,
    }
}

impl Takes {
    fn accepts(self, value: &str) -> bool {
        match self {
            Self::Text => true,
            Self::Number(most) => value.parse::<u64>().is_ok_and(|number| number <= most),
            Self::Address => value.parse::<std::net::IpAddr>().is_ok(),
            Self::Word(words) => words.contains(&value),
            Self::AnyCase(words) => words.iter().any(|word| word.eq_ignore_ascii_case(value)),
        }
    }

    fn describe(self) -> String {
        match self {
            Self::Text => "text".to_owned(),
            Self::Number(most) => format!("a whole number up to {most}"),
            Self::Address => "an IP address".to_owned(),
            Self::Word(words) | Self::AnyCase(words) => {
                format!("one of `{}`", words.join("`, `"))
            }
        }
    }
}

/// The error of an invalid URL. `reason`: the rest of a sentence that begins with "the URL".
pub(crate) fn invalid_url(reason: impl Into<Cow<'static, str>>) -> StoreError {
    let advice = "the documentation of `SqlStore::connect` has the forms of a URL";
    StoreError::new(StoreErrorKind::Misconfigured, advice)
        .reason(reason)
        .place("the URL")
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[UrlParameter] = &[
        ("sslmode", Takes::AnyCase(&["disable", "verify-full"])),
        ("mode", Takes::Word(&["ro", "rw"])),
        ("port", Takes::Number(65535)),
        ("hostaddr", Takes::Address),
        ("user", Takes::Text),
        ("password", Takes::Text),
        ("options", Takes::Text),
        ("options[]", Takes::Text),
    ];

    #[test]
    fn known_parameters_pass() {
        for url in [
            "postgres://h",
            "postgres:///d?port=5433",
            "postgres://u@h:1/d",
            "postgres://u:p@h/d",
            "postgres://u:p%40%3A%2F%3F%23%25@h/d",
            "postgres://u:p@q@h/d",
            "postgres://u:p@[::1]:1/d?sslmode=VERIFY-full",
            "mysql://h/d?user=u%40h&password=a%26b&&",
            "postgres://h/d?hostaddr=::1&options[lock_timeout]=1s&options=-c%20a=b",
            "postgres://h/d?ssl%6dode=disable",
            "sqlite:a@b#c:d?mode=ro",
            "sqlite::memory:",
        ] {
            check(url, KNOWN).expect(url);
        }
    }

    #[test]
    fn the_client_does_not_get_the_parameters_of_the_store() {
        for (url, rest, batch, purge) in [
            ("postgres://h/d", "postgres://h/d", true, true),
            ("postgres://h/d?batch=false", "postgres://h/d", false, true),
            (
                "postgres://h/d?b%61tch=false",
                "postgres://h/d",
                false,
                true,
            ),
            ("postgres://h/d?purge=false", "postgres://h/d", true, false),
            (
                "sqlite:f?mode=ro&batch=false&batch=true&purge=false",
                "sqlite:f?mode=ro",
                true,
                false,
            ),
            (
                "mysql://h/d?batch=false&user=a%26batch=true",
                "mysql://h/d?user=a%26batch=true",
                false,
                true,
            ),
        ] {
            let checked = check(url, KNOWN).expect(url);
            let own = StoreParameters {
                batch,
                purge,
                migrate: true,
            };
            assert_eq!(checked, (rest.into(), own), "{url}");
        }
        let url = "postgres://h/d?migrate=false";
        let (rest, own) = check(url, KNOWN).expect(url);
        assert_eq!((&*rest, own.migrate), ("postgres://h/d", false));
        let text = refusal("postgres://h/d?batch=no");
        assert!(
            text.contains("`batch` must be one of `true`, `false`"),
            "{text}"
        );
    }

    #[test]
    fn a_parameter_is_named_without_its_value() {
        for (url, named) in [
            (
                "postgres://h/d?pasword=s3cret",
                "the URL has an unknown parameter `pasword`: did you mean `password`?",
            ),
            ("mysql://h/d?ssl_mode=s3cret", "did you mean `sslmode`?"),
            (
                "postgres://h/d?sslmode=s3cret",
                "the URL has a wrong parameter: `sslmode` must be one of `disable`, `verify-full`",
            ),
            (
                "postgres://h/d?port=s3cret",
                "`port` must be a whole number up to 65535",
            ),
            ("postgres://h/d?port=70000", "`port` must be"),
            (
                "postgres://h/d?hostaddr=s3cret",
                "`hostaddr` must be an IP address",
            ),
            (
                "postgres://h/d?connect_timeout=s3cret",
                "unknown parameter `connect_timeout`: the known parameters are `sslmode`",
            ),
            ("sqlite:f?mode=s3cret", "`mode` must be one of `ro`, `rw`"),
            ("sqlite:f?mode=RO", "`mode` must be"),
            ("sqlite:", "the URL names no file: write `sqlite:file`"),
            ("sqlite:///?mode=ro", "names no file"),
            (
                "sqlite:f?key=s3cret",
                "the URL has an unknown parameter `key`",
            ),
            ("postgres://h/d?options[a=s3cret", "parameter at position 1"),
        ] {
            let text = refusal(url);
            assert!(text.contains(named), "{url}: {text}");
        }
    }

    #[test]
    fn a_possible_password_is_not_repeated() {
        for url in [
            "postgres://u:s3cret",
            "postgres://:s3cret@",
            "postgres://u:s3cret@",
            "postgres:u:s3cret@h/d",
            "postgres:/u:s3cret@h/d",
            "postgres://u:s3c/s3cret@h/d",
            "postgres://u:1/s3cret@h/d",
            "postgres://u:1?s3cret@h/d",
            "postgres://u:1?s3cret=s3cret@h/d",
            "postgres://u:?sslmode=s3cret@h/d",
            "postgres://u:1#s3cret@h/d",
            "postgres://h/d#s3cret",
            "postgres://u:s3cret@h:port/d",
            "postgres://u:s3cret@[::1/d",
            "postgres://h/d?s3cret",
            "postgres://h/d?s3cret=",
            "postgres://h/d?s3cret=x",
            "postgres://h/d?password=a&secret=b",
            "postgres://h/d?password=a&secret",
            "postgres://h/d?password=a?b@s3cret",
            "mysql://h/d?S3CRET=x",
        ] {
            let text = refusal(url).to_ascii_lowercase();
            assert!(
                !text.contains("s3c") && !text.contains("secret"),
                "{url}: {text}"
            );
        }
    }

    fn refusal(url: &str) -> String {
        let error = check(url, KNOWN).expect_err(url);
        assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{url}");
        let text = format!("{error} {error:?}");
        assert!(!text.contains("s3cret"), "{url}: {text}");
        text
    }
}
