//! The rules of names: which texts are names, and how long a name in a key is.

use std::fmt;

use crate::key::fingerprint::{Digest, Keying};

/// The longest name that the option `name` of the attribute allows, in bytes.
pub(super) const LONGEST_NAME: usize = 128;

/// The longest name in a key, in bytes. It leaves room for the prefix and the digest in a key of 512 bytes.
pub(super) const LONGEST: usize = 200;

/// The error for a text that cannot name an endpoint: why, and which names are valid.
#[derive(Debug)]
pub struct InvalidName {
    name: String,
    why: String,
}

impl InvalidName {
    pub(super) fn new(name: &str, why: String) -> Self {
        let name = shown(name);
        Self { name, why }
    }

    /// The reason, as the predicate of a sentence about the name, and what to use instead.
    pub(crate) fn why(&self) -> &str {
        &self.why
    }
}

impl fmt::Display for InvalidName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, why } = self;
        write!(f, "`{name}` cannot name an endpoint: it {why}")
    }
}

/// The beginning of an invalid name, for an error: its control characters are escaped.
pub(crate) fn shown(name: &str) -> String {
    let name: String = name.chars().take(LONGEST_NAME).collect();
    name.escape_debug().to_string()
}

/// Why a name is invalid, as the predicate of a sentence about the name.
pub(super) fn why_invalid(
    name: &str,
    longest: usize,
    allowed: impl Fn(char) -> bool,
) -> Option<String> {
    if name.is_empty() {
        return Some("is empty".to_owned());
    }
    // First, so that a long text is not read.
    if name.len() > longest {
        return Some(format!("is longer than {longest} bytes"));
    }
    let char = name.chars().find(|char| !allowed(*char))?;
    Some(format!("has the character {char:?}"))
}

/// The name, or the beginning of a long name and a digest of the whole name.
pub(super) fn shortened(name: String) -> String {
    if name.len() <= LONGEST {
        return name;
    }
    let mut hasher = Keying::new(Digest::Md5).hasher();
    // A string can always be encoded.
    let _ = hasher.part(&name);
    let digest = hasher.finish().to_string();
    let mut end = LONGEST - digest.len() - 1;
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}~{digest}", &name[..end])
}
