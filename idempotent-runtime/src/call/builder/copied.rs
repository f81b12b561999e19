//! Copies of a call that has not begun.

use std::marker::PhantomData;
use std::sync::Arc;

use super::GuardedCall;
use crate::call::{Call, OpenCall};
use crate::protocol::context::CallContext;

impl<A: Clone, K, T> GuardedCall<A, K, T> {
    /// Another call with the same parts, options and token.
    pub(in crate::call) fn copied(&self) -> Self {
        Self {
            call: self.call.copied(),
            key_parts: self.key_parts,
            policy: self.policy,
            answers: self.answers.clone(),
            required: PhantomData,
        }
    }
}

impl Call {
    /// Another call with the same parts, options and token. It redeems the token for itself, so only one of the two gets it.
    fn copied(&self) -> Self {
        Self(match &self.0 {
            Ok(open) => Ok(open.copied()),
            Err(error) => Err(error.clone()),
        })
    }
}

impl OpenCall {
    fn copied(&self) -> Self {
        let context = &self.context;
        let endpoint = context.site.endpoint.clone();
        let token = context.token.as_deref();
        Self {
            context: CallContext {
                token: token.map(|token| Arc::new(token.of_another_call())),
                ..CallContext::new(Arc::clone(&context.shared), endpoint, context.policy)
            },
            key: self.key.clone(),
            hash: self.hash,
            more: self.more.clone(),
            has_token: self.has_token,
            keyed_by_token: self.keyed_by_token,
            when: self.when,
            answers_duplicates: self.answers_duplicates,
            invalid_key: self.invalid_key.clone(),
            invalid_token: self.invalid_token.clone(),
        }
    }
}
