//! One-time tokens, on the memory store and on a private Redis.

mod dropped;
mod giving_back;
mod lost;
mod malformed;
mod outcomes;
mod races;
mod redis;
mod secrets;
mod stores;

use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use idempotent_runtime::{Builder, Error, Event, Idempotency, Redeemed, Store, Token, Tokens};

const OPERATION: &str = "orders.submit";
const USER: u64 = 42;
const TTL: Duration = Duration::from_mins(30);
/// Longer than any work in the background.
const LONG: Duration = Duration::from_mins(2);

/// Tokens on a new handle, as in another process on the same store.
fn on(store: impl Store) -> Tokens {
    Idempotency::new(store).tokens()
}

async fn issue(tokens: &Tokens) -> Token {
    tokens.issue(&USER, OPERATION, TTL).await.unwrap()
}

async fn redeem(tokens: &Tokens, token: &Token) -> Result<Redeemed, Error> {
    tokens.redeem(token.as_str(), &USER, OPERATION).await
}

async fn assert_accepted(tokens: &Tokens, token: &Token) {
    redeem(tokens, token).await.unwrap();
}

async fn assert_refused(tokens: &Tokens, token: &Token, code: &str) {
    assert_eq!(code_of(redeem(tokens, token).await), code);
}

fn code_of<T: Debug>(outcome: Result<T, Error>) -> &'static str {
    outcome.unwrap_err().code()
}

/// The names of the events since the last call.
#[derive(Clone, Default)]
struct Events(Arc<Mutex<Vec<String>>>);

impl Events {
    fn handle(&self, store: impl Store) -> Idempotency {
        self.builder(store).build().unwrap()
    }

    fn builder(&self, store: impl Store) -> Builder {
        let events = Arc::clone(&self.0);
        let observer = move |event: &Event<'_>| {
            assert_eq!(event.endpoint(), OPERATION);
            events.lock().unwrap().push(event.kind().to_string());
        };
        Idempotency::builder(store).observer(observer)
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}
