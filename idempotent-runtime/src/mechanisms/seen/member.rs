//! A member of a seen-set, and its place in the store.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::error::{Error, Failure, Site, Subject};
use crate::key::endpoint::Endpoint;
use crate::key::fingerprint::{Fingerprint, KeyPart};
use crate::key::kind::RecordKind;
use crate::protocol::retry::StoreFuture;
use crate::protocol::shared::Shared;
use crate::store::{Claim, Swap};
use crate::world;

#[derive(Clone)]
pub(super) struct Set {
    pub(super) shared: Arc<Shared>,
    pub(super) endpoint: Endpoint,
    pub(super) retention: Duration,
    /// The kind of its keys.
    pub(super) kind: RecordKind,
}

#[derive(Clone)]
pub(super) struct Member {
    pub(super) set: Arc<Set>,
    pub(super) fingerprint: Fingerprint,
    owner: Bytes,
}

impl Member {
    pub(super) fn new<M: KeyPart + ?Sized>(set: &Arc<Set>, member: &M) -> Result<Self, Error> {
        let mut hasher = set.shared.keying().hasher();
        if let Err(unencodable) = hasher.part(member) {
            let site = site_of(set);
            let what = "the member of the set could not be serialized";
            let error = Error::InvalidKey(Failure::new(site, what, Some(unencodable.into())));
            set.shared.observers().emit_refused(&error);
            return Err(error);
        }
        Ok(Self {
            set: Arc::clone(set),
            fingerprint: hasher.finish(),
            owner: owner(),
        })
    }

    /// The beginning of the keys of all members.
    pub(super) fn key(&self) -> String {
        let set = &*self.set;
        set.shared.key_of(set.kind, &set.endpoint)
    }

    pub(super) fn insert<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Claim> {
        let (set, bytes) = (&*self.set, self.fingerprint.as_bytes());
        let store = set.shared.store();
        store.set_insert(key, bytes, &self.owner, set.retention)
    }

    pub(super) fn remove<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Swap> {
        let (set, bytes) = (&*self.set, self.fingerprint.as_bytes());
        let store = set.shared.store();
        store.set_remove(key, bytes, &self.owner, set.retention)
    }

    pub(super) fn site(&self) -> Site {
        site_of(&self.set).with_key(self.fingerprint)
    }
}

fn site_of(set: &Set) -> Site {
    let subject = match set.kind {
        #[cfg(feature = "order-numbers")]
        RecordKind::Number => Subject::OrderNumbers,
        _ => Subject::SeenSet,
    };
    Site::of(subject, set.endpoint.clone())
}

/// 64 random bits that are stored with the member. They distinguish the adds of different callers.
fn owner() -> Bytes {
    let [owner @ .., _, _, _, _, _, _, _, _] = world::random_bits().to_be_bytes();
    Bytes::copy_from_slice(&owner)
}
