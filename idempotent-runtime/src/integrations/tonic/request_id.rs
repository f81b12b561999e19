//! A [`RequestId`] in metadata.

use ::tonic::metadata::MetadataMap;

use crate::{InvalidRequestId, RequestId};

impl RequestId {
    /// Reads the metadata with this name, such as `x-request-id`. Returns `None` if it is missing.
    ///
    /// ```
    /// # use idempotent_runtime as idempotence;
    /// use idempotence::RequestId;
    /// use tonic::{Request, Status};
    ///
    /// fn id_of<T>(request: &Request<T>) -> Result<RequestId, Status> {
    ///     RequestId::from_metadata(request.metadata(), "x-request-id")
    ///         .map_err(|error| Status::invalid_argument(error.to_string()))?
    ///         .ok_or_else(|| Status::invalid_argument("x-request-id is missing"))
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// If the value is not a request id, or was sent more than once.
    pub fn from_metadata(
        metadata: &MetadataMap,
        name: &str,
    ) -> Result<Option<Self>, InvalidRequestId> {
        let mut values = metadata.get_all(name).iter();
        match (values.next(), values.next()) {
            (None, _) => Ok(None),
            (Some(value), None) => value
                .to_str()
                .map_err(|_| InvalidRequestId)?
                .parse()
                .map(Some),
            (Some(_), Some(_)) => Err(InvalidRequestId),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_with_one_id_or_none_is_read() {
        let read = |values: &[&'static str]| {
            let mut metadata = MetadataMap::new();
            for value in values {
                metadata.append("x-request-id", value.parse().unwrap());
            }
            RequestId::from_metadata(&metadata, "x-request-id")
        };
        assert_eq!(read(&[]), Ok(None));
        assert_eq!(read(&["a"]), Ok(RequestId::new("a").ok()));
        assert_eq!(read(&["a", "a"]), Err(InvalidRequestId));
        assert_eq!(read(&[""]), Err(InvalidRequestId));
    }
}
