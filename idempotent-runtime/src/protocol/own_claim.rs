//! What a claim writes into the store, and the fence that the store gives it.

use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;

use bytes::Bytes;

use crate::protocol::context::CallContext;
use crate::record::owner::Owner;
use crate::store::{Fence, Key};

/// The key and the value that a claim writes into the store, and the fence that the store gives it.
pub(crate) struct OwnClaim {
    pub(crate) key: Key,
    pub(crate) record: Bytes,
    pub(crate) owner: Owner,
    /// The number of this process, for the done record: a call asks the system for it only once.
    pub(crate) process: u32,
    pub(crate) fence: OnceLock<Fence>,
    /// Whether the end of the fence was sent before the key was freed.
    pub(crate) has_sent_fence_end: AtomicBool,
}

impl OwnClaim {
    /// A claim of this call under `key`, with a new owner.
    pub(crate) fn new(call: &CallContext, key: Key) -> Self {
        let now = call.shared.moment();
        let owner = Owner::at(now);
        Self {
            record: call.claim_record(&key, owner, now),
            key,
            owner,
            process: now.process,
            fence: OnceLock::new(),
            has_sent_fence_end: AtomicBool::new(false),
        }
    }
}
