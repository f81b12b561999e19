//! The key of a record, with its hash.

use std::cell::RefCell;
use std::fmt;
use std::fmt::Write as _;
use std::hash::{BuildHasher as _, Hasher as _};
use std::ops::Deref;
use std::sync::{Arc, LazyLock};

use foldhash::fast::RandomState;

use crate::record::key_tag::KeyTag;

/// The key of a record, with its hash, so that a call hashes its key once. A clone shares the text.
#[derive(Clone)]
pub struct Key {
    text: Arc<str>,
    hash: u64,
    /// The digits of the text, if the records of its store have them.
    tag: Option<KeyTag>,
}

impl Key {
    /// Makes the key of this text.
    pub fn new(text: &str) -> Self {
        let mut hasher = SEED.build_hasher();
        hasher.write(text.as_bytes());
        Self {
            text: text.into(),
            hash: hasher.finish(),
            tag: None,
        }
    }

    /// Makes the key of the text that `write` appends to an empty buffer. Allocates only the text itself.
    pub(crate) fn written(write: impl FnOnce(&mut String)) -> Self {
        thread_local!(static BUFFER: RefCell<String> = const { RefCell::new(String::new()) });
        BUFFER.with_borrow_mut(|text| {
            text.clear();
            write(text);
            Self::new(text)
        })
    }

    /// The same key, with its digits, which are then made once for all its records.
    pub(crate) fn with_tag(self) -> Self {
        let tag = Some(self.tag());
        Self { tag, ..self }
    }

    /// The digits of the text, which are in its records.
    pub(crate) fn tag(&self) -> KeyTag {
        self.tag.unwrap_or_else(|| KeyTag::for_key(&self.text))
    }

    /// The text of the key.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The hash of the text. It is the same for equal texts within this process, and differs between processes.
    pub fn hash(&self) -> u64 {
        self.hash
    }
}

impl Deref for Key {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && self.text == other.text
    }
}

impl Eq for Key {}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.as_str(), f)
    }
}

/// The key of the record of a member of a set, in a store without sets.
pub fn member_key(set: &str, member: &[u8]) -> String {
    let mut key = String::with_capacity(set.len() + 1 + 2 * member.len());
    key.push_str(set);
    key.push(':');
    for byte in member {
        // Writing to a string never fails.
        let _ = write!(key, "{byte:02x}");
    }
    key
}

static SEED: LazyLock<RandomState> = LazyLock::new(RandomState::default);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_have_equal_hashes() {
        let key = Key::new("idem:orders.pay:9e10");
        for other in ["idem:orders.pay:9e11", "idem:orders.pay:9e1", ""] {
            assert_ne!(key, Key::new(other));
            assert_ne!(key.hash(), Key::new(other).hash());
        }
        // The buffer is empty each time.
        for _ in 0..2 {
            let written = Key::written(|text| text.push_str(&key));
            assert_eq!((&written, written.hash()), (&key, key.hash()));
        }
    }
}
