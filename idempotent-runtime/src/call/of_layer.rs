//! What the layer for HTTP needs from a call.

use std::sync::Arc;

use super::Call;
use crate::error::{Error, Site};
use crate::key::fingerprint::Fingerprint;
use crate::protocol::shared::Shared;

impl Call {
    /// Whether this handle and the parts of the key until now make the key of `site`.
    pub fn has_key_of(&self, shared: &Arc<Shared>, site: &Site) -> bool {
        self.0.as_ref().is_ok_and(|open| {
            let context = &open.context;
            Arc::ptr_eq(&context.shared, shared)
                && (context.policy.shares_keys || context.site.endpoint == site.endpoint)
                && Some(open.key.clone().finish()) == site.fingerprint
        })
    }

    /// The fingerprint of the parts of the key until now.
    pub fn fingerprint(&self) -> Result<Fingerprint, Error> {
        let open = self.0.as_ref().map_err(Clone::clone)?;
        let fingerprint = open.key.clone().finish();
        open.invalid_key.clone().map_or(Ok(fingerprint), Err)
    }

    /// Adds a list of arrays of bytes to the key: does the same as [`part`](Self::part) of a slice of slices, in fewer steps.
    pub fn part_of_arrays<'a>(&mut self, arrays: impl Iterator<Item = &'a [u8]>) {
        if let Ok(open) = &mut self.0 {
            open.key.arrays_part(arrays);
        }
    }

    /// Ends the key, and makes the payload of the key and of this digest. The key and the payload take no more parts.
    pub fn whole_payload(&mut self, digest: &[u8; 32]) {
        if let Ok(open) = &mut self.0 {
            let key = open.key.end();
            // With the key, a reader of the store cannot see that two keys have equal payloads. Both are one part, because a digest reads
            // blocks, and two parts would need one block more.
            let (mut both, length) = ([0; 64], key.as_bytes().len());
            both[..length].copy_from_slice(key.as_bytes());
            both[length..length + 32].copy_from_slice(digest);
            let mut payload = open.context.shared.keying().hasher();
            payload.bytes_part(&both[..length + 32]);
            open.context.payload = Some(payload.end());
            open.context.site.fingerprint = Some(key);
        }
    }
}
