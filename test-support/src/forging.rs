//! A store whose writer forges responses.

use std::time::Duration;

use bytes::Bytes;
use idempotent_runtime::MemoryStore;
use idempotent_runtime::store::{Store, StoreError, Swap, Wrap, async_trait};

/// A store whose writer adds the header `content-length: 2` to each stored response.
#[derive(Debug, Default)]
pub struct Forging(MemoryStore);

impl Forging {
    pub fn new() -> Self {
        Self::default()
    }
}

#[async_trait]
impl Wrap for Forging {
    type Inner = MemoryStore;

    fn inner(&self) -> &MemoryStore {
        &self.0
    }

    async fn replace(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<Swap, StoreError> {
        let line = value.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        // After the time, the status and the flags: the number of the headers, and the headers.
        let count = line + 8 + 2 + 1;
        let mut forged = value.to_vec();
        forged[count + 3] += 1;
        let header = [b"\0\x0econtent-length".as_slice(), b"\0\0\0\x012"].concat();
        forged.splice(count + 4..count + 4, header);
        Store::replace(&self.0, key, expected, &forged.into(), ttl).await
    }
}
