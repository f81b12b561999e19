//! Calls with a one-time token, which is redeemed between the claim and the body.

mod builder;
mod dropped;
mod ends;
mod following;
mod order;
mod subject;
mod trouble;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use idempotence::testkit::{CountingStore, FaultyStore};
use idempotent_runtime::fingerprint::{Digest, Keying};
use idempotent_runtime::private::{Call, Endpoint};
use idempotent_runtime::store::Entry;
use idempotent_runtime::{MemoryStore, Policy, Store, Token};

use crate::protocol::guarded::{Failed, Guarded, run, secs};

/// The subject of the tokens.
const USER: u64 = 7;
/// The lifetime of a token.
const MINUTES: Duration = secs(600);

/// An endpoint whose calls redeem tokens.
#[derive(Clone)]
struct Form {
    guarded: Guarded,
}

impl Form {
    fn on(store: impl Store, policy: Policy) -> Self {
        let guarded = Guarded::on(store, policy);
        Self { guarded }
    }

    fn counted(policy: Policy) -> (CountingStore<MemoryStore>, Self) {
        let store = CountingStore::new(MemoryStore::new());
        (store.clone(), Self::on(store, policy))
    }

    fn faulty(policy: Policy) -> (FaultyStore<MemoryStore>, Self) {
        let store = FaultyStore::new(MemoryStore::new());
        (store.clone(), Self::on(store, policy))
    }

    /// The same endpoint in another process.
    fn elsewhere(&self) -> Self {
        let guarded = self.guarded.elsewhere();
        Self { guarded }
    }

    async fn issue(&self) -> Token {
        let (tokens, operation) = (self.guarded.idempotency.tokens(), self.guarded.endpoint);
        tokens.issue(&USER, operation, MINUTES).await.unwrap()
    }

    /// A call with the key 1 that redeems this token.
    fn call(&self, token: impl AsRef<str>) -> Call {
        let endpoint = self.guarded.endpoint;
        self.guarded
            .call_with_token(1, token.as_ref(), USER, endpoint)
    }

    /// A call whose key is the token.
    fn keyed(&self, token: &Token) -> Call {
        let endpoint = Endpoint::named(self.guarded.endpoint);
        let mut call = Call::new(
            endpoint,
            self.guarded.policy,
            Some(&self.guarded.idempotency),
        );
        call.token(token, &USER, self.guarded.endpoint);
        call.keyed();
        call
    }

    async fn run<R>(
        &self,
        token: impl AsRef<str>,
        body: impl Future<Output = Result<R, ()>>,
    ) -> Result<R, Failed> {
        run(self.call(token), body).await
    }

    /// Redeems the token now. Returns "good" or the code of the error.
    async fn redeemed(&self, token: &Token) -> &'static str {
        let (tokens, operation) = (
            self.elsewhere().guarded.idempotency.tokens(),
            self.guarded.endpoint,
        );
        match tokens.redeem(token.as_str(), &USER, operation).await {
            Ok(_) => "good",
            Err(error) => error.code(),
        }
    }

    /// The key of the call: 1, and the subject and operation of its token.
    fn key(&self) -> String {
        let mut bound = Keying::new(Digest::Sha256).hasher();
        bound.part(self.guarded.endpoint).unwrap();
        bound.part(&USER).unwrap();
        self.guarded.key_of(&(1, bound.finish().to_string()))
    }

    async fn entry(&self) -> Option<Entry> {
        self.guarded.store.get(&self.key()).await.unwrap()
    }

    /// Whether the key of the call is free.
    async fn is_free(&self) -> bool {
        self.entry().await.is_none()
    }
}

fn policy() -> Policy {
    Policy::new(secs(60)).lease(secs(10))
}

async fn nothing() -> Result<(), ()> {
    panic!("the body ran")
}

/// The form with a handle that has this deadline.
fn patient(form: &Form, deadline: Duration) -> Form {
    let idempotency = idempotent_runtime::Idempotency::builder(Arc::clone(&form.guarded.store))
        .deadline(deadline)
        .build()
        .unwrap();
    Form {
        guarded: Guarded {
            idempotency,
            ..form.guarded.clone()
        },
    }
}
