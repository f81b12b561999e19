//! The text of an order number that a client gets, with the proof that it was issued to its subject.

use std::fmt;

use serde::{Serialize, Serializer};

/// An order number, and the proof that it was issued to its subject.
///
/// As text it is `<number>-<proof>`, such as `239870541238272000-5c0f4b9e2d7a81c36f04`. The client gets this text, and sends it
/// back. `Debug` does not show the proof.
///
/// ```
/// # use idempotent_runtime as idempotence;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use idempotence::{Idempotency, MemoryStore, OrderNumbers};
///
/// let idempotency = Idempotency::new(MemoryStore::new());
/// let numbers = OrderNumbers::new(&idempotency, "orders", "a secret of 16 bytes at least").await?;
/// let number = numbers.issue(&42)?;
/// assert_eq!(number.to_string(), number.as_str());
/// assert!(number.as_str().starts_with(&format!("{}-", number.value())));
/// # Ok(()) }
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct OrderNumber {
    value: i64,
    text: String,
}

impl OrderNumber {
    /// The number: positive, for a column of type `BIGINT`.
    pub fn value(&self) -> i64 {
        self.value
    }

    /// The text for the client.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub(super) fn new(number: u64, proof: Proof) -> Self {
        let mut text = String::with_capacity(LONGEST_NUMBER + 1 + DIGITS);
        text.push_str(itoa::Buffer::new().format(number));
        text.push('-');
        let mut digits = [0; DIGITS];
        let proof = &proof.0.to_be_bytes()[16 - PROOF..];
        text.push_str(base16ct::lower::encode_str(proof, &mut digits).unwrap_or_default());
        Self {
            value: number.cast_signed(),
            text,
        }
    }
}

impl fmt::Display for OrderNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl fmt::Debug for OrderNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OrderNumber({}-…)", self.value)
    }
}

impl Serialize for OrderNumber {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

/// The first 80 bits of an HMAC.
///
/// Proofs are compared as integers, so that the time of a comparison does not reveal how many digits of a guess are right.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Proof(u128);

impl Proof {
    pub(super) fn from_mac(mac: &[u8]) -> Self {
        let first = mac.iter().take(PROOF);
        Self(first.fold(0, |proof, byte| proof << 8 | u128::from(*byte)))
    }
}

/// The number and the proof in the text of a client. `None` if the text cannot be an [`OrderNumber`].
pub(super) fn parse(text: &str) -> Option<(u64, Proof)> {
    let (number, proof) = text.split_once('-')?;
    let plain = (1..=LONGEST_NUMBER).contains(&number.len())
        && number.bytes().all(|byte| byte.is_ascii_digit())
        && (number == "0" || !number.starts_with('0'));
    let number = number.parse().ok().filter(|number| *number <= LARGEST);
    let mut bytes = [0; PROOF];
    let whole = base16ct::lower::decode(proof, &mut bytes).ok()?.len() == PROOF;
    let number = number.filter(|_| plain && whole)?;
    Some((number, Proof::from_mac(&bytes)))
}

/// The length of a proof in bytes: 80 bits are too many to guess by requests to a server.
const PROOF: usize = 10;
const DIGITS: usize = 2 * PROOF;

const LARGEST: u64 = i64::MAX.cast_unsigned();
const LONGEST_NUMBER: usize = 19;
