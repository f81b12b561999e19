//! The option of a handle that seals results.

use std::sync::Arc;

use super::builder::Builder;
use crate::record::seal::SealKeys;

impl Builder {
    /// Seals stored results: nobody who reads the store sees a result, a stored error, or a stored response of HTTP with its headers, and
    /// nobody who writes to the store can forge one. Default: results are stored as they are.
    ///
    /// The first key seals, and every key opens. All processes that share keys need the same seal keys. A record whose result no key
    /// opens for its key and its times, and a result that is not sealed, is refused with
    /// [`Error::ForeignRecord`](crate::Error::ForeignRecord), and the body does not run. Names of endpoints, times, hosts, digests, the
    /// size of a result and whether it is an error are not sealed.
    ///
    /// ```
    /// # use idempotent_runtime as idempotence;
    /// use idempotence::{Idempotency, MemoryStore, SealKeys};
    ///
    /// # fn build(read: &str) -> Result<(), idempotence::SetupError> {
    /// let keys = SealKeys::from_env("IDEMPOTENCE_SEAL")?; // 64 hexadecimal digits for each key
    /// # let keys = SealKeys::from_hex(read)?;
    /// let idempotency = Idempotency::builder(MemoryStore::new()).seal(keys).build()?;
    /// # Ok(()) }
    /// ```
    #[cfg_attr(docsrs, doc(cfg(feature = "seal")))]
    pub fn seal(mut self, keys: impl Into<SealKeys>) -> Self {
        self.sealing = Arc::new(keys.into());
        self
    }
}
