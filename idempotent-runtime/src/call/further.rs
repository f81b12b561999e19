//! What few calls have: a payload, and further keys.

use crate::key::fingerprint::{Fingerprint, Hasher, Keying};
use crate::protocol::context::CallContext;
use crate::protocol::several::Several;

/// What few calls have.
#[derive(Default, Clone)]
pub(super) struct RareParts {
    payload: Option<Hasher>,
    keys: Vec<Hasher>,
}

impl RareParts {
    pub(super) fn payload(&mut self, keying: &Keying) -> &mut Hasher {
        self.payload.get_or_insert_with(|| keying.hasher())
    }

    /// The digest of the payload of the call with this key, if it has a payload.
    pub(super) fn end_payload(
        &mut self,
        keying: &Keying,
        key: &Fingerprint,
    ) -> Option<Fingerprint> {
        let payload = self.payload.as_mut()?.end();
        // The key is hashed in, so a reader of the store cannot see that two keys have equal payloads. Strings can always be encoded.
        let mut hasher = keying.hasher();
        let _ = hasher.part(key.hex(&mut [0; 64]));
        let _ = hasher.part(payload.hex(&mut [0; 64]));
        Some(hasher.finish())
    }

    /// Begins a further key.
    pub(super) fn begin_key(&mut self, keying: &Keying) {
        self.keys.push(keying.hasher());
    }

    /// The further key that was begun last.
    pub(super) fn last_key(&mut self) -> Option<&mut Hasher> {
        self.keys.last_mut()
    }

    pub(super) fn has_keys(&self) -> bool {
        !self.keys.is_empty()
    }

    /// This call with its further keys.
    pub(super) fn several(self, call: CallContext) -> Several {
        let keys = self.keys.into_iter().map(Hasher::finish);
        Several::new(call, keys)
    }
}
