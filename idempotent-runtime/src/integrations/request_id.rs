//! A [`RequestId`] in a header.

use ::http::HeaderMap;

use super::fault::{Carrier, HeaderFault, Id, IdFault};
use super::header::single_value;
use super::mistake::Mistake;
use super::rejection::{HeaderRejection, rejected};
use crate::RequestId;

const HEADER: &str = "X-Request-Id";

impl RequestId {
    /// Reads the header with this name, such as `X-Request-Id`. Returns `None` if it is missing.
    ///
    /// ```
    /// # use idempotent_runtime as idempotence;
    /// use http::HeaderMap;
    /// use idempotence::RequestId;
    ///
    /// let mut headers = HeaderMap::new();
    /// headers.insert("paypal-request-id", "0197c9f6".parse().unwrap());
    /// let id = RequestId::from_headers(&headers, "PayPal-Request-Id").unwrap();
    /// assert_eq!(id, Some(RequestId::new("0197c9f6").unwrap()));
    /// ```
    ///
    /// # Errors
    ///
    /// If the value is not 1 to 255 printable ASCII characters, or the header was sent more than once.
    pub fn from_headers(
        headers: &HeaderMap,
        name: &'static str,
    ) -> Result<Option<Self>, HeaderRejection> {
        let value = single_value(headers, name)
            .map_err(|_| rejection(name, HeaderFault::Repeated, None, headers))?;
        let Some(value) = value else {
            return Ok(None);
        };
        let request_id = value.to_str().ok().and_then(|text| text.parse().ok());
        request_id.map(Some).ok_or_else(|| {
            let mistake = Mistake::in_characters(value.as_bytes());
            let mistake = mistake.unwrap_or(Mistake::SpaceAtAnEnd);
            rejection(name, HeaderFault::Malformed, Some(mistake), headers)
        })
    }

    /// Reads the header `X-Request-Id`. It must not be missing.
    pub(super) fn required(headers: &HeaderMap) -> Result<Self, HeaderRejection> {
        Self::optional(headers)?
            .ok_or_else(|| rejection(HEADER, HeaderFault::Missing, None, headers))
    }

    /// Reads the header `X-Request-Id`. Returns `None` if it is missing.
    pub(super) fn optional(headers: &HeaderMap) -> Result<Option<Self>, HeaderRejection> {
        Self::from_headers(headers, HEADER)
    }
}

fn rejection(
    header: &'static str,
    fault: HeaderFault,
    mistake: Option<Mistake>,
    headers: &HeaderMap,
) -> HeaderRejection {
    let id = Id::RequestId;
    let fault = IdFault {
        id,
        carrier: Carrier::Header(header),
        fault,
        mistake,
    };
    rejected(fault, headers)
}
