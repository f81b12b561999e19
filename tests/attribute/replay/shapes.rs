//! Each form of function: the first call runs, an equal second call gets its result.

use std::borrow::Cow;
use std::fmt::Debug;
use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;

use idempotence::{Error, Once, idempotent};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::replay::{Done, fresh, replays};

mod free {
    use super::*;

    /// Documented.
    #[inline]
    #[idempotent(key = "id", ttl = "1m", replay = true)]
    pub(crate) async fn plain(id: u64, text: String) -> Result<String, Error> {
        tokio::task::yield_now().await;
        Ok(format!("{id}{text}"))
    }

    #[idempotent(key = (), ttl = "1m", replay = true)]
    async fn nothing() -> Done<()> {
        Ok(())
    }

    #[idempotent(key = "id", ttl = "1m", replay = true, release = false)]
    async fn never_released(id: u64) -> Done<u64> {
        Ok(id)
    }

    #[idempotent(key = "id", ttl = "1m", replay = true, release = "on_error")]
    async fn released_on_error(id: u64) -> Done<u64> {
        Ok(id)
    }

    #[idempotent(key = id, ttl = "1m", replay = true)]
    async fn borrowing(id: &str, sum: &mut u64) -> Done<usize> {
        *sum += 1;
        tokio::task::yield_now().await;
        Ok(id.len())
    }

    #[idempotent(key = "text", ttl = "1m", replay = true)]
    async fn lent<'a>(text: &'a str) -> Done<Cow<'a, str>> {
        Ok(text.into())
    }

    #[idempotent(key = "x, first", ttl = "1m", replay = true)]
    async fn patterns(Point { x, y }: Point, [first, ..]: [u64; 3]) -> Done<Point> {
        Ok(Point { x: x + first, y })
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Point {
        x: u64,
        y: u64,
    }

    #[idempotent(key = "text", ttl = "1m", replay = true)]
    async fn leaves_early(text: &str) -> Result<u64, Box<dyn std::error::Error>> {
        if text.is_empty() {
            return Ok(0);
        }
        let number: u64 = text.parse()?;
        Ok(number)
    }

    #[idempotent(key = "id", ttl = "1m", replay = true)]
    async fn inferred(id: u64) -> Done<Vec<u64>> {
        (0..id).map(Ok).collect()
    }

    #[idempotent(key = "id", ttl = "1m", replay = true)]
    async fn coerced(id: u64) -> Done<Box<[u64]>> {
        Ok(Box::new([id]))
    }

    #[expect(dead_code)]
    #[idempotent(key = "id", ttl = "1m", replay = true, name = "shapes.never_called")]
    async fn never_called(id: u64) -> Done<u64> {
        Ok(id)
    }

    #[idempotent(key = "id", ttl = "1m", replay = true)]
    async fn unfinished(id: u64) -> Done<u64> {
        let _ = id;
        unimplemented!()
    }

    #[tokio::test]
    async fn free_functions_replay_their_result() {
        replays!(plain(1, "a".to_owned()) => "1a");
        replays!(nothing() => ());
        replays!(never_released(1) => 1);
        replays!(released_on_error(1) => 1);
        replays!(borrowing("ab", &mut 0) => 2);
        replays!(lent("ab") => "ab");
        replays!(patterns(Point { x: 1, y: 2 }, [3, 0, 0]) => Point { x: 4, y: 2 });
        replays!(leaves_early("") => 0);
        replays!(leaves_early("7") => 7);
        replays!(inferred(2) => [0, 1]);
        replays!(coerced(1) => Box::from([1]));
        let _ = unfinished;
    }

    #[tokio::test]
    async fn a_duplicate_does_not_change_its_arguments() {
        fresh(async {
            let mut sum = 0;
            for _ in 0..3 {
                borrowing("ab", &mut sum).await.unwrap();
            }
            assert_eq!(sum, 1);
        })
        .await;
    }

    #[tokio::test]
    async fn arguments_outside_the_key_do_not_matter() {
        fresh(async {
            assert_eq!(plain(1, "a".to_owned()).await.unwrap(), "1a");
            assert_eq!(plain(1, "b".to_owned()).await.unwrap(), "1a");
            assert_eq!(plain(2, "b".to_owned()).await.unwrap(), "2b");
        })
        .await;
    }

    #[tokio::test]
    async fn a_call_after_an_error_runs() {
        fresh(async {
            for _ in 0..2 {
                let error = leaves_early("x").await.unwrap_err();
                assert!(error.is::<std::num::ParseIntError>(), "{error}");
            }
        })
        .await;
    }
}

mod methods {
    use super::*;

    // clippy counts the `pin!` in a guarded method as `unsafe`.
    #[allow(clippy::unsafe_derive_deserialize)]
    #[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
    struct Service {
        tenant: String,
        calls: u64,
    }

    impl Service {
        #[idempotent(key = "self.tenant, id", ttl = "1m", replay = true)]
        async fn shared(&self, id: u64) -> Done<u64> {
            Ok(id + self.calls)
        }

        #[idempotent(key = (self.tenant(), id), ttl = "1m", replay = true)]
        async fn exclusive(&mut self, id: u64) -> Done<u64> {
            self.calls += id;
            tokio::task::yield_now().await;
            Ok(self.calls)
        }

        #[idempotent(key = "self.tenant", ttl = "1m", replay = true)]
        async fn owned(mut self) -> Done<Self> {
            self.tenant.push('!');
            Ok(self)
        }

        #[idempotent(key = "self.tenant", ttl = "1m", replay = true, on_cancel = "finish")]
        async fn counted(self: Arc<Self>) -> Done<usize> {
            Ok(self.tenant.len())
        }

        #[idempotent(key = tenant, ttl = "1m", replay = true)]
        async fn open(tenant: &str) -> Done<Self> {
            Ok(Self {
                tenant: tenant.to_owned(),
                ..Self::default()
            })
        }

        fn tenant(&self) -> &str {
            &self.tenant
        }
    }

    #[tokio::test]
    async fn methods_replay_their_result() {
        let mut service = Service::default();
        replays!(service.shared(1) => 1);
        replays!(service.exclusive(1) => 1);
        assert_eq!(service.calls, 1);
        replays!(Service::default().owned() => Service { tenant: "!".to_owned(), calls: 0 });
        replays!(Arc::new(Service::default()).counted() => 0);
        replays!(Service::open("a") => Service { tenant: "a".to_owned(), calls: 0 });
    }
}

mod generics {
    use super::*;

    #[idempotent(key = "id", ttl = "1m", replay = true)]
    async fn given<T: Serialize + DeserializeOwned>(id: u64, value: T) -> Done<T> {
        let _ = id;
        Ok(value)
    }

    #[idempotent(key = (id, N), ttl = "1m", replay = true)]
    async fn wrapped<T, const N: usize>(id: &T, names: [String; N]) -> Done<(T, usize)>
    where
        T: Serialize + DeserializeOwned + Clone,
    {
        Ok((id.clone(), names.len()))
    }

    #[idempotent(key = "id", ttl = "1m", replay = true)]
    async fn generic_error<E: From<Error>>(id: u64) -> Result<u64, E> {
        Ok(id)
    }

    #[idempotent(key = "id", ttl = "1m", replay = true)]
    async fn any(id: impl Serialize, value: impl ToString) -> Done<String> {
        let _ = id;
        Ok(value.to_string())
    }

    #[idempotent(key = "id", ttl = "1m", replay = true)]
    async fn opaque(
        id: u64,
    ) -> Result<impl Serialize + DeserializeOwned + Debug + PartialEq<u64>, Error> {
        Ok(id)
    }

    struct Repo<T>(T);

    impl<T: Serialize + DeserializeOwned + Clone> Repo<T> {
        #[idempotent(key = "self.0", ttl = "1m", replay = true)]
        async fn save(&self) -> Done<Vec<T>> {
            Ok(vec![self.0.clone()])
        }

        #[idempotent(key = "self.0", ttl = "1m", replay = true)]
        async fn once(&self) -> Done<Once<T>> {
            Ok(self.0.clone().into())
        }
    }

    #[tokio::test]
    async fn generic_functions_replay_their_result() {
        replays!(given(1, Some("a".to_owned())) => Some("a".to_owned()));
        replays!(wrapped(&1_u8, [String::new(), String::new()]) => (1, 2));
        replays!(generic_error::<Error>(1) => 1);
        replays!(any("a", 7) => "7");
        replays!(opaque(1) => 1);
        replays!(Repo(1_u64).save() => [1]);
        fresh(async {
            assert_eq!(Repo(1).once().await.unwrap(), Once::Executed(1));
            assert_eq!(Repo(1).once().await.unwrap(), Once::Replayed(1));
        })
        .await;
    }

    #[tokio::test]
    async fn a_call_with_another_return_type_does_not_get_the_result() {
        fresh(async {
            assert_eq!(given(1, 7_u8).await.unwrap(), 7);
            let refused = given(1, 7_u16).await.unwrap_err();
            assert_eq!(refused.code(), "result_unavailable");
        })
        .await;
    }
}

mod aliases {
    use super::*;

    /// The name of the alias does not show that it is a `Result`.
    type Paid = Result<u64, Error>;
    type OnceResult<T> = Result<Once<T>, Error>;
    type ManyOnce = OnceResult<Vec<u64>>;

    #[idempotent(key = "id", ttl = "1m", replay = true)]
    async fn hidden(id: u64) -> Paid {
        Ok(id)
    }

    #[idempotent(key = "id", ttl = "1m", replay = true)]
    async fn once(id: u64) -> OnceResult<u64> {
        Ok(Once::Executed(id))
    }

    #[idempotent(key = "id", ttl = "1m", replay = true)]
    async fn many_once(id: u64) -> ManyOnce {
        Ok(vec![id].into())
    }

    #[idempotent(key = "id", ttl = "1m", replay = true)]
    async fn once_twice(id: u64) -> Done<Once<Once<u64>>> {
        Ok(Once::Executed(Once::Executed(id)))
    }

    #[tokio::test]
    async fn an_alias_of_result_works_like_result() {
        replays!(hidden(1) => 1);
        fresh(async {
            assert_eq!(once(1).await.unwrap(), Once::Executed(1));
            assert_eq!(once(1).await.unwrap(), Once::Replayed(1));
            assert_eq!(many_once(1).await.unwrap(), Once::Executed(vec![1]));
            assert_eq!(many_once(1).await.unwrap(), Once::Replayed(vec![1]));
            assert!(!once_twice(1).await.unwrap().is_replayed());
            let twice = once_twice(1).await.unwrap();
            assert_eq!(twice, Once::Replayed(Once::Replayed(1)));
        })
        .await;
    }
}

mod futures {
    use super::*;

    #[idempotent(key = "id", ttl = "1m", replay = true)]
    fn boxed(id: u64) -> Pin<Box<dyn Future<Output = Done<u64>> + Send>> {
        if id == 0 {
            return Box::pin(ready(Ok(0)));
        }
        Box::pin(async move { Ok(id) })
    }

    #[idempotent(key = "name", ttl = "1m", replay = true)]
    fn borrowing<'a>(name: &'a mut String) -> BoxFuture<'a, Done<usize>> {
        name.push('!');
        Box::pin(async move { Ok(name.len()) })
    }

    type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

    #[idempotent(key = "id", ttl = "1m", replay = true)]
    fn opaque(id: u64, name: &str) -> impl Future<Output = Done<usize>> + Send + use<'_> {
        let sum = usize::try_from(id).unwrap_or_default() + name.len();
        async move { Ok(sum) }
    }

    #[idempotent(key = "id", ttl = "1m", replay = true)]
    fn opaque_twice(
        id: u64,
    ) -> impl Future<Output = Result<impl Serialize + DeserializeOwned + PartialEq<u64> + Debug, Error>>
    {
        async move { Ok(id) }
    }

    #[idempotent(key = "id", ttl = "1m", replay = true, on_cancel = "finish")]
    fn finishing(id: u64) -> impl Future<Output = Done<u64>> + Send {
        async move { Ok(id) }
    }

    #[tokio::test]
    async fn hand_made_futures_replay_their_result() {
        replays!(boxed(0) => 0);
        replays!(boxed(1) => 1);
        replays!(borrowing(&mut "a".to_owned()) => 2);
        replays!(opaque(1, "ab") => 3);
        replays!(opaque_twice(1) => 1);
        replays!(finishing(1) => 1);
    }
}
