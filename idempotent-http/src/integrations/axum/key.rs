//! The request header `Idempotency-Key`, as an extractor of axum.

use ::axum::extract::{FromRequestParts, OptionalFromRequestParts};
use ::axum::http::request::Parts;
use idempotent_runtime::port::http::HeaderRejection;

use crate::integrations::key::IdempotencyKey;

/// ```
/// use axum::Router;
/// use axum::routing::post;
/// use idempotence::integrations::axum::IdempotencyKey;
///
/// async fn pay(IdempotencyKey(key): IdempotencyKey) -> String {
///     format!("you sent {key}")
/// }
///
/// let app: Router = Router::new().route("/payments", post(pay));
/// ```
impl<S: Sync> FromRequestParts<S> for IdempotencyKey {
    type Rejection = HeaderRejection;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, HeaderRejection> {
        Self::required(&parts.headers)
    }
}

impl<S: Sync> OptionalFromRequestParts<S> for IdempotencyKey {
    type Rejection = HeaderRejection;

    async fn from_request_parts(
        parts: &mut Parts,
        _state: &S,
    ) -> Result<Option<Self>, HeaderRejection> {
        Self::optional(&parts.headers)
    }
}

#[cfg(test)]
mod tests {
    use ::axum::http::{HeaderValue, Request};
    use idempotent_runtime::port::http::{Fingerprint, HeaderFault, Mistake};

    use super::*;
    use crate::request::key::text::{KeySyntax, read};

    fn parts(values: &[&[u8]]) -> Parts {
        let mut parts = Request::new(()).into_parts().0;
        for value in values {
            let value = HeaderValue::from_bytes(value).unwrap();
            parts.headers.append("idempotency-key", value);
        }
        parts
    }

    async fn key(values: &[&[u8]]) -> Result<String, HeaderFault> {
        let key = <IdempotencyKey as FromRequestParts<()>>::from_request_parts;
        let key = key(&mut parts(values), &()).await;
        key.map(|key| key.0).map_err(HeaderRejection::fault)
    }

    #[tokio::test]
    async fn a_key_is_the_same_with_and_without_quotes() {
        assert_eq!(key(&[b"8e03978e-40d5"]).await.unwrap(), "8e03978e-40d5");
        assert_eq!(key(&[b"\"8e03978e-40d5\""]).await.unwrap(), "8e03978e-40d5");
        assert_eq!(key(&[b" a "]).await.unwrap(), "a");
        assert_eq!(key(&[b"\"a b\""]).await.unwrap(), "a b");
        assert_eq!(key(&[b"\"abc\";v=1"]).await.unwrap(), "abc");
        assert_eq!(key(&[br#""a, \"b\" \\""#]).await.unwrap(), r#"a, "b" \"#);
    }

    #[tokio::test]
    async fn a_key_that_cannot_be_read_is_refused() {
        // `http/key/text.rs` tests every mistake.
        let values: [(&[u8], Mistake); 4] = [
            (b" ", Mistake::Empty),
            (b"\"a", Mistake::Unclosed),
            (b"a, b", Mistake::UnquotedComma),
            (b"\"\xff\"", Mistake::Unprintable),
        ];
        for (value, mistake) in values {
            let shown = value.escape_ascii();
            assert_eq!(key(&[value]).await, Err(HeaderFault::Malformed), "{shown}");
            assert_eq!(read(value, KeySyntax::Lenient), Err(mistake), "{shown}");
        }
    }

    #[tokio::test]
    async fn a_key_has_255_characters_at_most() {
        let long = "a".repeat(255);
        let quoted = format!("\"{long}\"");
        assert_eq!(key(&[long.as_bytes()]).await.as_ref(), Ok(&long));
        assert_eq!(key(&[quoted.as_bytes()]).await.as_ref(), Ok(&long));
        let longer = long + "a";
        assert_eq!(key(&[longer.as_bytes()]).await, Err(HeaderFault::Malformed));
        assert_eq!(
            read(longer.as_bytes(), KeySyntax::Lenient),
            Err(Mistake::TooLong)
        );
    }

    #[tokio::test]
    async fn a_missing_and_a_repeated_key_are_different_faults() {
        assert_eq!(key(&[]).await, Err(HeaderFault::Missing));
        let twice = key(&[b"a", b"a"]).await;
        assert_eq!(twice, Err(HeaderFault::Repeated));
    }

    #[tokio::test]
    async fn an_optional_key_may_be_missing_but_not_malformed() {
        let optional = async |values: &[&[u8]]| {
            let key = <Option<IdempotencyKey> as FromRequestParts<()>>::from_request_parts;
            let key = key(&mut parts(values), &()).await;
            key.map_err(HeaderRejection::fault)
        };
        assert_eq!(optional(&[]).await, Ok(None));
        let found = Some(IdempotencyKey("a".to_owned()));
        assert_eq!(optional(&[b"a"]).await, Ok(found));
        let empty = optional(&[b""]).await;
        assert_eq!(empty, Err(HeaderFault::Malformed));
    }

    #[test]
    fn as_a_key_part_it_is_its_text() {
        let key = IdempotencyKey("a".to_owned());
        assert_eq!(Fingerprint::of(&(7, key)), Fingerprint::of(&(7, "a")));
    }
}
