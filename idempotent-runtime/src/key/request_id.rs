//! The id of a request, made by its client.

use std::error::Error as StdError;
use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// The id of a request that its client made, and sends with every try of it: 1 to 255 printable ASCII characters.
///
/// It is a key part, equal to the string of its characters. Clients choose it, so name the user beside it. Of an
/// `Option<RequestId>` say `when` it is there: calls without an id would be equal to each other.
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
/// Whoever knows what the person meant: the page, or the app. It makes one for each intent (a random UUID, version 4 or 7)
/// before the first try; keeps it for every retry, after a network timeout above all; and makes a new one when the request
/// has succeeded, or its content has changed. A new id for each try would deduplicate nothing.
///
/// So the id that a proxy makes is none. `$request_id` of nginx is another one for each HTTP request, and so is the
/// `x-request-id` that Envoy makes where it finds none: a double click is two requests with two ids. Such ids are for
/// tracing.
///
/// `X-Request-Id` is right between services below the gateway, if the first service makes it, every retry of the request
/// carries the same, and nothing on the way replaces it. With the feature `axum` this type is its extractor. For the clients of an API the
/// header is `Idempotency-Key`: see `integrations::axum::IdempotencyKey`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(String);

impl RequestId {
    /// Takes what a client sent.
    ///
    /// # Errors
    ///
    /// If it is not 1 to 255 printable ASCII characters, or begins or ends with a space.
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

/// Whether this could be an id: 1 to 255 printable ASCII characters.
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

/// The error of a text that is no [`RequestId`]. It does not repeat the text, which a client chose.
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
    fn as_a_key_part_it_is_its_text() {
        let id = RequestId::new("a b").unwrap();
        assert_eq!(Fingerprint::of(&(7, id)), Fingerprint::of(&(7, "a b")));
    }

    #[test]
    fn every_way_to_make_one_has_the_same_rules() {
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
        assert!(ids > 1000 && others > 1000, "{ids} {others}");
    }
}
