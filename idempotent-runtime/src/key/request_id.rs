//! The id that a client gives to its request.

use std::error::Error as StdError;
use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// The id of a request: 1 to 255 printable ASCII characters. The client makes the id and sends it with every attempt.
///
/// As a key part the id equals the string of its characters. Clients choose the id, so also put the user into the key. For an
/// `Option<RequestId>` use the option `when`: otherwise all calls without an id are equal to each other.
///
/// ```
/// # use idempotent_runtime as idempotence;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// use idempotence::{Error, Idempotency, MemoryStore, RequestId};
///
/// let idempotency = Idempotency::new(MemoryStore::new());
/// let user = 7;
/// let request_id: RequestId = "0197c9f6-6f1c-7d3e-9a55-1d2f8e0b4c11".parse()?;
/// for attempt in 1..=2 {
///     let paid_by = idempotency
///         .call("orders.pay")
///         .key(&user)
///         .key(&request_id)
///         .ttl(Duration::from_hours(24))
///         .replay()
///         .run(async { Ok::<_, Error>(attempt) })
///         .await?;
///     assert_eq!(paid_by, 1);
/// }
/// # Ok(()) }
/// ```
///
/// # Who makes it
///
/// The page or the app makes the id, because it knows the intent of the person. It makes one id for each intent (a random UUID,
/// version 4 or 7) before the first attempt. It sends the same id with every retry, above all after a network timeout. It makes
/// a new id when the request has succeeded or its content has changed. A new id for each attempt deduplicates nothing.
///
/// The id that a proxy makes is not suitable. nginx makes a new `$request_id` for each HTTP request, and Envoy makes a new
/// `x-request-id` for each request without this header: a double click is two requests with two ids. Such ids are for
/// tracing.
///
/// Services behind the gateway may use `X-Request-Id` if the first service makes it, every retry of the request carries the
/// same id, and nothing on the way replaces it. With the feature `axum` this type is the extractor of that header. Clients
/// of an API send the header `Idempotency-Key`: see `integrations::axum::IdempotencyKey`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(String);

impl RequestId {
    /// Checks an id that a client sent.
    ///
    /// # Errors
    ///
    /// If `text` is not 1 to 255 printable ASCII characters, or if it begins or ends with a space.
    pub fn new(text: impl Into<String>) -> Result<Self, InvalidRequestId> {
        let text = text.into();
        let bare = !text.starts_with(' ') && !text.ends_with(' ');
        if bare && is_id(text.as_bytes()) {
            Ok(Self(text))
        } else {
            Err(InvalidRequestId)
        }
    }
}

/// Whether `text` is 1 to 255 printable ASCII characters.
pub(crate) fn is_id(text: &[u8]) -> bool {
    (1..=255).contains(&text.len()) && text.iter().all(|byte| matches!(byte, b' '..=b'~'))
}

impl AsRef<str> for RequestId {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for RequestId {
    type Err = InvalidRequestId;

    fn from_str(text: &str) -> Result<Self, InvalidRequestId> {
        Self::new(text)
    }
}

impl TryFrom<String> for RequestId {
    type Error = InvalidRequestId;

    fn try_from(text: String) -> Result<Self, InvalidRequestId> {
        Self::new(text)
    }
}

impl TryFrom<&str> for RequestId {
    type Error = InvalidRequestId;

    fn try_from(text: &str) -> Result<Self, InvalidRequestId> {
        Self::new(text)
    }
}

impl Serialize for RequestId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// The error for a text that is not a [`RequestId`]. It does not repeat the text, because a client chose it.
///
/// ```
/// # use idempotent_runtime as idempotence;
/// use idempotence::RequestId;
///
/// let error = RequestId::new("two\nlines").unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "a request id is 1 to 255 printable ASCII characters, without spaces at its ends"
/// );
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidRequestId;

impl fmt::Display for InvalidRequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "a request id is 1 to 255 printable ASCII characters, without spaces at its ends",
        )
    }
}

impl StdError for InvalidRequestId {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::cases;
    use crate::key::fingerprint::Fingerprint;

    #[test]
    fn an_id_is_printable_and_not_too_long() {
        let longest = "~".repeat(255);
        for good in [
            "a",
            "!",
            "a b",
            "0197c9f6-6f1c-7d3e-9a55-1d2f8e0b4c11",
            &longest,
        ] {
            assert_eq!(RequestId::new(good).expect(good).as_ref(), good);
        }
        let longer = "a".repeat(256);
        for bad in [
            "", " ", " a", "a ", "a\n", "a\tb", "\0", "\x7f", "é", "请求", &longer,
        ] {
            assert_eq!(RequestId::new(bad), Err(InvalidRequestId), "{bad:?}");
        }
    }

    #[test]
    fn as_a_key_part_an_id_equals_its_text() {
        let id = RequestId::new("a b").unwrap();
        assert_eq!(Fingerprint::of(&(7, id)), Fingerprint::of(&(7, "a b")));
    }

    #[test]
    fn all_constructors_have_the_same_rules() {
        let (mut ids, mut others) = (0, 0);
        cases(300, |u| {
            let text: String = match u.int_in_range(0..=3)? {
                0 => u.arbitrary()?,
                _ => (0..u.int_in_range(0..=20)?)
                    .map(|_| u.int_in_range(31..=127_u8).map(char::from))
                    .collect::<Result<_, _>>()?,
            };
            let id = RequestId::new(text.as_str());
            assert_eq!(text.parse(), id);
            assert_eq!(RequestId::try_from(text.as_str()), id);
            assert_eq!(RequestId::try_from(text.clone()), id);
            match id {
                Ok(id) => {
                    ids += 1;
                    assert_eq!(id.to_string(), text);
                    assert_eq!(text.trim(), text);
                }
                Err(_) => others += 1,
            }
            Ok(())
        });
        assert!(ids > 1000 && others > 1000, "{ids} ids, {others} others");
    }
}
