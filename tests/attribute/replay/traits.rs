//! Methods of native traits and of `#[async_trait]`.

use std::fmt::Display;
use std::future::Future;

use async_trait::async_trait;
use idempotence::{Once, idempotent};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::replay::{Done, fresh, replays};

trait Native {
    type Receipt;

    fn id(&self) -> u64;

    fn implemented(&self, n: u64) -> impl Future<Output = Done<u64>> + Send;

    async fn associated(&self) -> Done<Self::Receipt>;

    #[idempotent(key = (self.id(), n), ttl = "1m", replay = true)]
    async fn by_default(&self, n: u64) -> Done<u64> {
        Ok(self.id() + n)
    }

    #[idempotent(key = "n", ttl = "1m", replay = true, name = "traits.named")]
    async fn without_self(n: u64) -> Done<u64> {
        Ok(n)
    }
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct One;
struct Two;

impl Native for Two {
    type Receipt = String;

    fn id(&self) -> u64 {
        2
    }

    #[idempotent(key = (self.id(), n), ttl = "1m", replay = true)]
    async fn implemented(&self, n: u64) -> Done<u64> {
        Ok(self.id() + n)
    }

    #[idempotent(key = (self.id()), ttl = "1m", replay = true)]
    async fn associated(&self) -> Done<Self::Receipt> {
        Ok("receipt".to_owned())
    }
}

#[async_trait]
trait Boxed: Sync {
    fn id(&self) -> u64;

    async fn implemented(&self, n: u64) -> Done<u64>;
    async fn generic<T>(&self, n: T) -> Done<T>
    where
        T: Serialize + DeserializeOwned + Display + Send + Sync;
    async fn owned(self: Box<Self>, n: u64) -> Done<Self>
    where
        Self: Sized;
    async fn exclusive(&mut self, text: &str) -> Done<Once<usize>>;
    async fn without_self(n: u64) -> Done<u64>;

    #[idempotent(key = (self.id(), n), ttl = "1m", replay = true, name = "traits.by_default")]
    async fn by_default(&self, n: u64) -> Done<u64> {
        if n == 0 {
            return Ok(0);
        }
        Ok(self.id() + n)
    }
}

#[async_trait]
impl Boxed for One {
    fn id(&self) -> u64 {
        1
    }

    #[idempotent(key = (self.id(), n), ttl = "1m", replay = true, payload = "n", wait = "1s")]
    async fn implemented(&self, n: u64) -> Done<u64> {
        Ok(self.id() + n)
    }

    #[idempotent(key = "n", ttl = "1m", replay = true)]
    async fn generic<T>(&self, n: T) -> Done<T>
    where
        T: Serialize + DeserializeOwned + Display + Send + Sync,
    {
        Ok(n)
    }

    #[idempotent(key = "n", ttl = "1m", replay = true)]
    async fn owned(self: Box<Self>, n: u64) -> Done<Self> {
        let _ = n;
        Ok(*self)
    }

    #[idempotent(key = "text", ttl = "1m", replay = true)]
    async fn exclusive(&mut self, text: &str) -> Done<Once<usize>> {
        tokio::task::yield_now().await;
        Ok(text.len().into())
    }

    #[idempotent(key = "n", ttl = "1m", replay = true)]
    async fn without_self(n: u64) -> Done<u64> {
        Ok(n)
    }
}

#[tokio::test]
async fn methods_of_native_traits_replay_their_result() {
    replays!(Two.implemented(1) => 3);
    replays!(Two.associated() => "receipt");
    replays!(Two.by_default(1) => 3);
    replays!(<Two as Native>::without_self(1) => 1);
}

#[tokio::test]
async fn methods_of_async_traits_replay_their_result() {
    replays!(One.implemented(1) => 2);
    replays!(One.by_default(0) => 0);
    replays!(One.by_default(1) => 2);
    replays!(One.generic("a".to_owned()) => "a");
    replays!(Box::new(One).owned(1) => One);
    replays!(One::without_self(1) => 1);
    fresh(async {
        assert_eq!(One.exclusive("ab").await.unwrap(), Once::Executed(2));
        assert_eq!(One.exclusive("ab").await.unwrap(), Once::Replayed(2));
    })
    .await;
}
