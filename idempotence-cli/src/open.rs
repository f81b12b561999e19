//! Opens the store.

use std::env;

use idempotence::Idempotency;
use idempotence::fingerprint::Digest;

use crate::args::{self, Access};
use crate::exit::{Failure, with_causes};

/// A handle on the store, with the prefix and the keys of the program.
pub(crate) async fn open(access: &Access) -> Result<Idempotency, Failure> {
    let url = url(access)?;
    let digest = match access.digest {
        args::Digest::Md5 => Digest::Md5,
        args::Digest::Sha256 => Digest::Sha256,
    };
    let builder = Idempotency::builder_from_url(&as_it_is(&url))
        .await
        .map_err(|error| Failure::runtime(with_causes(&error)))?;
    let builder = builder
        .prefix(&access.prefix)
        .digest(digest)
        .deadline(access.deadline);
    let builder = match env::var("IDEMPOTENCE_SECRET") {
        Ok(secret) => builder.secret(secret),
        Err(env::VarError::NotPresent) => builder,
        Err(error) => return Err(Failure::usage(format!("IDEMPOTENCE_SECRET: {error}"))),
    };
    builder
        .build()
        .map_err(|error| Failure::usage(with_causes(&error)))
}

/// The URL of the store.
pub(crate) fn url(access: &Access) -> Result<String, Failure> {
    let named = access.store.clone().filter(|url| !url.is_empty());
    let url = named.or_else(|| env::var("IDEMPOTENCE_URL").ok());
    let url = url.filter(|url| !url.is_empty());
    let url = url.ok_or_else(|| {
        Failure::usage("which store? Write `--store URL`, or set IDEMPOTENCE_STORE")
    })?;
    if url == "memory:" {
        let text = "a store in memory is inside of its program: this command cannot reach it";
        return Err(Failure::usage(text));
    }
    Ok(url)
}

/// The URL, so that only what exists is opened: no file and no table is made, and no purge begins.
pub(crate) fn as_it_is(url: &str) -> String {
    let parameters: &[&str] = match url.split_once(':').map_or("", |(scheme, _)| scheme) {
        "sqlite" if url.contains("mode=") => &UNCHANGED,
        "sqlite" => &["mode=rw", UNCHANGED[0], UNCHANGED[1]],
        "postgres" | "postgresql" | "mysql" | "mariadb" => &UNCHANGED,
        _ => return url.to_owned(),
    };
    let separator = if url.contains('?') { '&' } else { '?' };
    format!("{url}{separator}{}", parameters.join("&"))
}

/// Of two equal parameters a store uses the last.
const UNCHANGED: [&str; 2] = ["migrate=false", "purge=false"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_exists_is_opened() {
        for (url, expected) in [
            (
                "sqlite:a.db",
                "sqlite:a.db?mode=rw&migrate=false&purge=false",
            ),
            (
                "sqlite:a.db?purge=true",
                "sqlite:a.db?purge=true&mode=rw&migrate=false&purge=false",
            ),
            (
                "sqlite:a.db?mode=ro",
                "sqlite:a.db?mode=ro&migrate=false&purge=false",
            ),
            ("mysql://h/d", "mysql://h/d?migrate=false&purge=false"),
            ("redis://h/", "redis://h/"),
        ] {
            assert_eq!(as_it_is(url), expected);
        }
    }
}
