//! A `Json`, and the status and the headers of a response beside its body, stored by `replay`.
//!
//! ```text
//! (StatusCode, Json<T>)               [201,{"id":7}]
//! (HeaderMap, Json<T>)                [[["location","/orders/7"]],{"id":7}]
//! (StatusCode, HeaderMap, Json<T>)    [201,[["location","/orders/7"]],{"id":7}]
//! (StatusCode, HeaderMap)             [204,[["etag","\"1\""]]]
//! StatusCode                          204
//! ```
//!
//! These forms are frozen, and so are the names of [`KeptStatus`] and [`KeptHeaders`]: the records of a program contain a tag of
//! the type names.

use std::marker::PhantomData;

use ::axum::Json;
use ::axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use idempotent_runtime::port::http::{ReplayValue, Storable};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::response::headers;

/// A [`ReplayValue`] in a `Json`.
#[derive(Debug)]
pub struct InJson;
/// A [`ReplayValue`] that is a status.
#[derive(Debug)]
pub struct InStatus;
/// A [`ReplayValue`] that is a map of headers.
#[derive(Debug)]
pub struct InHeaders;
/// A [`ReplayValue`] after a status, after headers, or after both.
#[derive(Debug)]
pub struct After<Parts, Via>(PhantomData<(Parts, Via)>);

/// A status, stored as its number.
#[derive(Debug)]
pub struct KeptStatus(StatusCode);

/// Headers, stored as pairs of a name and a value, without those that are [never kept](headers).
#[derive(Debug)]
pub struct KeptHeaders(HeaderMap);

/// Headers, as [`KeptHeaders`] are stored.
struct HeadersOf<'a>(&'a HeaderMap);

impl<T: Storable> ReplayValue<InJson> for Json<T> {
    type Kept = T;

    fn kept(&self) -> impl Serialize {
        &self.0
    }

    fn replayed(kept: T) -> Self {
        Self(kept)
    }
}

impl ReplayValue<InStatus> for StatusCode {
    type Kept = KeptStatus;

    fn kept(&self) -> impl Serialize {
        KeptStatus(*self)
    }

    fn replayed(kept: KeptStatus) -> Self {
        kept.0
    }
}

impl ReplayValue<InHeaders> for HeaderMap {
    type Kept = KeptHeaders;

    fn kept(&self) -> impl Serialize {
        HeadersOf(self)
    }

    fn replayed(kept: KeptHeaders) -> Self {
        kept.0
    }
}

impl<T: ReplayValue<Via>, Via> ReplayValue<After<InStatus, Via>> for (StatusCode, T) {
    type Kept = (KeptStatus, T::Kept);

    fn kept(&self) -> impl Serialize {
        (self.0.kept(), self.1.kept())
    }

    fn replayed((status, value): Self::Kept) -> Self {
        (status.0, T::replayed(value))
    }
}

impl<T: ReplayValue<Via>, Via> ReplayValue<After<InHeaders, Via>> for (HeaderMap, T) {
    type Kept = (KeptHeaders, T::Kept);

    fn kept(&self) -> impl Serialize {
        (HeadersOf(&self.0), self.1.kept())
    }

    fn replayed((headers, value): Self::Kept) -> Self {
        (headers.0, T::replayed(value))
    }
}

impl<T: ReplayValue<Via>, Via> ReplayValue<After<(InStatus, InHeaders), Via>>
    for (StatusCode, HeaderMap, T)
{
    type Kept = (KeptStatus, KeptHeaders, T::Kept);

    fn kept(&self) -> impl Serialize {
        (KeptStatus(self.0), HeadersOf(&self.1), self.2.kept())
    }

    fn replayed((status, headers, value): Self::Kept) -> Self {
        (status.0, headers.0, T::replayed(value))
    }
}

impl Serialize for KeptStatus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.as_u16().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for KeptStatus {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let status = StatusCode::from_u16(u16::deserialize(deserializer)?);
        status.map(Self).map_err(D::Error::custom)
    }
}

impl Serialize for KeptHeaders {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        HeadersOf(&self.0).serialize(serializer)
    }
}

impl Serialize for HeadersOf<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let lines = headers::kept(self.0).map(|(name, value)| (name.as_str(), text_of(value)));
        serializer.collect_seq(lines)
    }
}

impl<'de> Deserialize<'de> for KeptHeaders {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let lines = Vec::<(String, String)>::deserialize(deserializer)?;
        let mut headers = HeaderMap::with_capacity(lines.len());
        for (name, value) in lines {
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(D::Error::custom)?;
            let value = value_of(&value).ok_or_else(|| D::Error::custom("an invalid header"))?;
            headers.append(name, value);
        }
        Ok(Self(headers))
    }
}

/// A value as text, in ISO 8859-1: a header may have bytes that are no UTF-8, and every byte is one character there.
fn text_of(value: &HeaderValue) -> String {
    value.as_bytes().iter().copied().map(char::from).collect()
}

/// The value of a [text](text_of).
fn value_of(text: &str) -> Option<HeaderValue> {
    let bytes: Result<Vec<u8>, _> = text.chars().map(u8::try_from).collect();
    HeaderValue::from_maybe_shared(bytes::Bytes::from(bytes.ok()?)).ok()
}

#[cfg(test)]
mod tests {
    use ::axum::http::header;
    use idempotent_runtime::Replay;
    use idempotent_runtime::port::http::{Kept, ReplayMode, ReplayOk, ResultOptions, Stored};

    use super::*;

    type Outcome<T> = Result<T, ()>;

    fn stored<T, Via>(value: T) -> Stored
    where
        Outcome<T>: Replay<Via>,
    {
        let mode = ReplayOk::<Outcome<T>>::new();
        let kept = mode
            .body_outcome(&Ok(value), true, ResultOptions::default())
            .kept;
        let Kept::Result(stored) = kept else {
            panic!("{kept:?}");
        };
        stored
    }

    fn located() -> HeaderMap {
        HeaderMap::from_iter([(header::LOCATION, HeaderValue::from_static("/orders/7"))])
    }

    #[test]
    fn the_form_of_each_shape_is_frozen() {
        let created = StatusCode::CREATED;
        for (stored, form) in [
            (stored(Json(7)), "7"),
            (stored((created, Json(7))), "[201,7]"),
            (
                stored((located(), Json(7))),
                r#"[[["location","/orders/7"]],7]"#,
            ),
            (
                stored((created, located(), Json("paid".to_owned()))),
                r#"[201,[["location","/orders/7"]],"paid"]"#,
            ),
            (
                stored((created, located())),
                r#"[201,[["location","/orders/7"]]]"#,
            ),
            (stored(created), "201"),
            (stored(located()), r#"[["location","/orders/7"]]"#),
        ] {
            assert_eq!(stored.bytes, form);
        }
    }

    #[test]
    fn the_tag_of_each_shape_is_frozen() {
        let created = StatusCode::CREATED;
        assert_eq!(stored(Json(7_u64)).schema, 0x476b_f781);
        assert_eq!(stored((created, Json(7_u64))).schema, 0x386e_6de9);
        assert_eq!(stored((located(), Json(7_u64))).schema, 0x9fc6_6497);
        assert_eq!(
            stored((created, located(), Json(7_u64))).schema,
            0xf49a_24d3
        );
        assert_eq!(stored((created, located())).schema, 0xbc60_5e50);
    }

    #[test]
    fn a_record_with_an_impossible_status_or_header_is_not_replayed() {
        let mut record = stored((StatusCode::CREATED, located()));
        let mode = ReplayOk::<Outcome<(StatusCode, HeaderMap)>>::new();
        assert!(mode.replay(&record).is_some_and(|read| read.is_ok()));
        for broken in [
            r#"[99,[["location","/"]]]"#,
            r#"[1000,[["location","/"]]]"#,
            r#"[201,[["lo cation","/"]]]"#,
            r#"[201,[["location","a\nb"]]]"#,
            r#"[201,[["location","支付"]]]"#,
        ] {
            record.bytes = broken.into();
            assert!(
                mode.replay(&record).is_some_and(|read| read.is_err()),
                "{broken}"
            );
        }
    }
}
