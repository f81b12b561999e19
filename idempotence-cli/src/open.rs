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
    let builder = Idempotency::builder_from_url(&existing(&url))
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

/// The URL, so that a mistake in the name of a file is an error, and not a new file.
pub(crate) fn existing(url: &str) -> String {
    let Some(file) = url.strip_prefix("sqlite:") else {
        return url.to_owned();
    };
    let parameters = file.split_once('?').map(|(_, parameters)| parameters);
    match parameters {
        None => format!("{url}?mode=rw"),
        Some(parameters) if parameters.contains("mode=") => url.to_owned(),
        Some(_) => format!("{url}&mode=rw"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_sqlite_must_exist() {
        for (url, expected) in [
            ("sqlite:a.db", "sqlite:a.db?mode=rw"),
            ("sqlite:a.db?batch=false", "sqlite:a.db?batch=false&mode=rw"),
            ("sqlite:a.db?mode=ro", "sqlite:a.db?mode=ro"),
            ("redis://h/", "redis://h/"),
        ] {
            assert_eq!(existing(url), expected);
        }
    }
}
