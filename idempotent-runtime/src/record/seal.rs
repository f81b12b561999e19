//! The keys that seal results, so that only programs with the keys can read or write them.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use chacha20poly1305::aead::{AeadInOut as _, KeyInit as _};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use sha2::{Digest as _, Sha256};

use crate::error::SetupError;
use crate::key::hex;
use crate::record::call::sealed::{self, SealedRecord};
use crate::record::call::{self, Head, Record};
use crate::record::kept::{Kept, Stored};
use crate::record::sealing::Sealing;
use crate::world;

/// A key of 256 bits that seals results. Its `Debug` shows only its id, and its bytes are overwritten when it is dropped.
///
/// The bytes must be random, and used for nothing else, as from `openssl rand -hex 32`. Keep them outside of the store.
#[derive(Clone)]
pub struct SealKey {
    id: [u8; 8],
    cipher: XChaCha20Poly1305,
}

/// The keys of a handle that seals results: the first key seals, and every key opens. See
/// [`Builder::seal`](crate::Builder::seal).
///
/// ```
/// # use idempotent_runtime as idempotence;
/// use idempotence::{SealKey, SealKeys};
///
/// let (new, old) = (SealKey::new([7; 32]), SealKey::new([8; 32])); // random bytes in a program
/// let keys = SealKeys::from([new, old]);
/// ```
#[derive(Clone)]
pub struct SealKeys {
    first: SealKey,
    others: Vec<SealKey>,
    allows_unsealed: bool,
}

impl SealKey {
    /// The key with these bytes.
    pub fn new(bytes: [u8; 32]) -> Self {
        let digest = Sha256::new()
            .chain_update(b"idempotence: id of a seal key")
            .chain_update(bytes)
            .finalize();
        Self {
            id: hex::eight([digest[0], digest[1], digest[2], digest[3]]),
            cipher: XChaCha20Poly1305::new(&bytes.into()),
        }
    }

    fn from_hex(digits: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        let read = base16ct::mixed::decode(digits, &mut bytes).ok()?;
        (read.len() == 32).then(|| Self::new(bytes))
    }
}

impl SealKeys {
    /// Reads keys of 64 hexadecimal digits, separated by white space or commas. The first key seals. `#` and the rest of its line are a
    /// comment.
    ///
    /// # Errors
    ///
    /// If there is no key, or one is not 64 hexadecimal digits. The text never contains a key.
    pub fn from_hex(text: &str) -> Result<Self, SetupError> {
        Self::read(text, "the text")
    }

    /// Reads keys from an environment variable, for example `IDEMPOTENCE_SEAL`, as [`from_hex`](Self::from_hex) does.
    ///
    /// # Errors
    ///
    /// As [`from_hex`](Self::from_hex), and if the variable is not set or not UTF-8.
    pub fn from_env(variable: &str) -> Result<Self, SetupError> {
        let text = std::env::var(variable).map_err(|error| {
            // The error of a variable that is not UTF-8 contains its value.
            let why = match error {
                std::env::VarError::NotPresent => "it is not set",
                std::env::VarError::NotUnicode(_) => "it is not UTF-8",
            };
            SetupError::new(format!("no seal keys in the variable `{variable}`: {why}"))
        })?;
        Self::read(&text, &format!("the variable `{variable}`"))
    }

    /// Reads keys from a file, as [`from_hex`](Self::from_hex) does. Only the program should be able to read the file.
    ///
    /// # Errors
    ///
    /// As [`from_hex`](Self::from_hex), and if the file cannot be read.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, SetupError> {
        let (path, name) = (path.as_ref(), path.as_ref().display());
        let text = std::fs::read_to_string(path).map_err(|error| {
            SetupError::new(format!("cannot read the seal keys in {name}: {error}"))
        })?;
        Self::read(&text, &name.to_string())
    }

    /// Also replays results that are not sealed, while programs change to sealed results. Until then such a result is refused with
    /// [`Error::ForeignRecord`](crate::Error::ForeignRecord).
    ///
    /// With this, everybody who can write to the store can forge results. So remove it when the `ttl` of the last unsealed result is
    /// over.
    #[must_use]
    pub fn allow_unsealed(mut self) -> Self {
        self.allows_unsealed = true;
        self
    }

    fn read(text: &str, from: &str) -> Result<Self, SetupError> {
        let lines = text
            .lines()
            .map(|line| line.split('#').next().unwrap_or_default());
        let words = lines.flat_map(|line| line.split([' ', '\t', ',']));
        let mut keys = Vec::new();
        for word in words.filter(|word| !word.is_empty()) {
            let key = SealKey::from_hex(word).ok_or_else(|| {
                let at = keys.len() + 1;
                SetupError::new(format!(
                    "seal key {at} of {from} is not 64 hexadecimal digits; make one with `openssl rand -hex 32`"
                ))
            })?;
            keys.push(key);
        }
        let mut keys = keys.into_iter();
        let first = keys.next().ok_or_else(|| {
            SetupError::new(format!(
                "no seal key in {from}; make one with `openssl rand -hex 32`"
            ))
        })?;
        Ok(Self::from_keys(first, keys.collect()))
    }

    fn from_keys(first: SealKey, others: Vec<SealKey>) -> Self {
        Self {
            first,
            others,
            allows_unsealed: false,
        }
    }

    fn all(&self) -> impl Iterator<Item = &SealKey> {
        std::iter::once(&self.first).chain(&self.others)
    }

    fn open(&self, key: &str, sealed: &SealedRecord<'_>) -> Option<Stored> {
        let aad = associated_data(key, sealed.line);
        let (nonce, rest) = sealed.bytes.split_first_chunk::<NONCE>()?;
        let (text, tag) = rest.split_last_chunk::<TAG>()?;
        let opened = |by: &SealKey| {
            let mut text = text.to_vec();
            let (nonce, buffer) = (XNonce::from(*nonce), text.as_mut_slice().into());
            let tag = (*tag).into();
            let opened = by.cipher.decrypt_inout_detached(&nonce, &aad, buffer, &tag);
            opened.is_ok().then_some(text)
        };
        let mut keys = self.all().filter(|by| by.id == sealed.key_id);
        sealed::result(&Bytes::from(keys.find_map(opened)?))
    }
}

impl Sealing for SealKeys {
    fn write(&self, key: &str, head: &Head<'_>, kept: &Kept) -> Bytes {
        let Kept::Result(stored) = kept else {
            return call::done(head, kept);
        };
        let seal = |line: &[u8], bytes: &mut [u8]| {
            let aad = associated_data(key, line);
            let (nonce, rest) = bytes.split_first_chunk_mut::<NONCE>()?;
            let (text, tag) = rest.split_last_chunk_mut::<TAG>()?;
            *nonce = random_nonce();
            let cipher = &self.first.cipher;
            let sealed = cipher.encrypt_inout_detached(&XNonce::from(*nonce), &aad, text.into());
            *tag = sealed.ok()?.into();
            Some(())
        };
        // Only a text of more than 256 GiB cannot be sealed.
        sealed::done(head, stored, self.first.id, (NONCE, TAG), seal)
            .unwrap_or_else(|| call::done(head, &Kept::TooLarge))
    }

    fn read(&self, key: &str, record: &Record<'_>) -> Result<Kept, &'static str> {
        let Some(sealed) = record.sealed() else {
            return match record.kept() {
                Kept::Result(_) if !self.allows_unsealed => Err(NOT_SEALED),
                kept => Ok(kept),
            };
        };
        let stored = self.open(key, &sealed).ok_or(NOT_OPENED)?;
        if record.age(world::time_of_day()) > record.ttl().saturating_add(LATE) {
            return Err(TOO_OLD);
        }
        Ok(Kept::Result(stored))
    }
}

/// The place of the record: its key, and its whole line. So a result opens only under its key, with its payload, owner and times.
fn associated_data(key: &str, line: &[u8]) -> Vec<u8> {
    // No key contains a zero byte.
    [key.as_bytes(), b"\0", line].concat()
}

/// Nonces of 192 bits are random: processes that share a key need no counter, and a nonce would repeat by chance only after some 2^80
/// results. With the 96 bits of AES-GCM a key should seal at most 2^32 results.
fn random_nonce() -> [u8; NONCE] {
    let mut nonce = [0; NONCE];
    nonce[..16].copy_from_slice(&world::random_bits().to_ne_bytes());
    nonce[16..].copy_from_slice(&world::random_bits().to_ne_bytes()[..8]);
    nonce
}

impl From<SealKey> for SealKeys {
    fn from(key: SealKey) -> Self {
        Self::from_keys(key, Vec::new())
    }
}

impl<const N: usize> From<[SealKey; N]> for SealKeys {
    /// The first key seals. An empty array does not compile.
    fn from(keys: [SealKey; N]) -> Self {
        const { assert!(N > 0, "results are sealed with at least one key") };
        Self::from_keys(keys[0].clone(), keys[1..].to_vec())
    }
}

impl fmt::Debug for SealKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = String::from_utf8_lossy(&self.id);
        f.debug_tuple("SealKey").field(&id).finish()
    }
}

impl fmt::Debug for SealKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.all()).finish()
    }
}

const NONCE: usize = 24;
const TAG: usize = 16;
/// The end of a call may be stored an hour after it was written, and clocks differ. After its time to live and this time, a record
/// was stored again.
const LATE: Duration = Duration::from_hours(2);

const NOT_SEALED: &str = "a result that is not sealed, so anybody who can write to the store may have made it; remove the key, or read \
                          such results during a change-over with `SealKeys::allow_unsealed`";
const NOT_OPENED: &str = "a sealed result that no seal key of the handle opens: it is damaged, it was copied from another key, or its seal key \
                          is missing; remove the key, or add the seal key";
const TOO_OLD: &str = "a sealed result that was stored again after its time to live, or the clock is wrong by hours; remove the key";

#[cfg(test)]
mod properties;
