//! The token of a call.

use std::sync::Arc;

use super::Call;
use crate::error::Error;
use crate::key::endpoint::Endpoint;
use crate::key::fingerprint::{Hasher, KeyPart};
use crate::protocol::token::of_call::CallToken;

impl Call {
    /// Makes the token the key: a digest of the token, its operation and its subject.
    pub fn keyed(&mut self) {
        if let Ok(open) = &mut self.0 {
            open.keyed_by_token = true;
        }
    }

    /// Redeems a token after the call has its key. Its operation and its subject become part of the key.
    pub(crate) fn redeem<S: KeyPart + ?Sized>(
        &mut self,
        operation: Result<Endpoint, Error>,
        token: &str,
        subject: &S,
    ) {
        if let Ok(open) = &mut self.0 {
            if std::mem::replace(&mut open.has_token, true) {
                open.set_invalid_key("it has two tokens, so the body did not run; name one token");
                return;
            }
            let subject = |hasher: &mut Hasher| hasher.part(subject);
            let token = operation.and_then(|operation| {
                CallToken::new(&open.context.shared, &operation, token, subject)
            });
            match token {
                Ok(token) => open.context.token = Some(Arc::new(token)),
                Err(error) if open.invalid_key.is_none() => open.invalid_token = Some(error),
                Err(_) => {}
            }
        }
    }
}
