//! Each form of function that the attribute supports: the first call runs, an equal second call is refused.

use std::cell::Cell;
use std::fmt::Display;
use std::future::Future;
use std::num::ParseIntError;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use idempotence::{Duplicate, Error, Idempotency, MemoryStore, Outcome, idempotent};
use serde::Serialize;

/// The return type of the guarded functions here.
type Done<T> = Result<T, Error>;

async fn fresh<T>(test: impl Future<Output = T>) -> T {
    Idempotency::new(MemoryStore::new()).scope(test).await
}

/// Awaits two equal calls in one scope. The first runs, the second is refused.
macro_rules! runs_once {
    ($call:expr => $expected:expr) => {
        fresh(async {
            assert_eq!($call.await.unwrap(), $expected);
            assert!($call.await.unwrap_err().is_duplicate());
        })
        .await;
    };
}

mod free {
    use super::*;

    /// Documented.
    #[inline]
    #[idempotent(key = "user_id, file_md5", ttl = "36500d", release = true)]
    pub(crate) async fn upload(
        user_id: u64,
        file_md5: String,
        file: Vec<u8>,
    ) -> Result<usize, Error> {
        tokio::task::yield_now().await;
        Ok(file.len() + file_md5.len())
    }

    #[idempotent(key = (), ttl = "30s")]
    async fn nothing() -> Done<()> {
        Ok(())
    }

    #[idempotent(key = id, ttl = "30s")]
    async fn borrowing<'a>(id: &str, text: &'a str, sum: &mut u64) -> Done<&'a str> {
        *sum += 1;
        tokio::task::yield_now().await;
        Ok(&text[id.len()..])
    }

    #[idempotent(key = "order.id, order.part.0, lines.0.1", ttl = "30s")]
    async fn fields(order: Order, lines: ((u8, u8), u8)) -> Done<String> {
        let Order { id, note, .. } = order;
        Ok(format!("{id}{note}{}", lines.1))
    }

    struct Order {
        id: u64,
        part: (u64, u64),
        note: String,
    }

    #[idempotent(key = (id.trim(), &tags[0], LIMIT, 7, "x", id.len() + 1, width(&id)), ttl = "30s")]
    async fn expressions(id: String, tags: Vec<String>) -> Done<usize> {
        Ok(id.len() + tags.len())
    }

    const LIMIT: u8 = 3;

    fn width(text: &str) -> usize {
        text.len()
    }

    #[idempotent(key = "id, a, b, first", ttl = "30s")]
    async fn patterns(
        Path(id): Path<u64>,
        Point { x: a, y: b, .. }: Point,
        (mut c, _): (u64, u64),
        [first, ..]: [u64; 3],
        _: bool,
    ) -> Done<u64> {
        c += 1;
        Ok(id + a + b + c + first)
    }

    struct Path<T>(T);

    struct Point {
        x: u64,
        y: u64,
        #[allow(dead_code)]
        z: u64,
    }

    #[idempotent(key = "id, r#type", ttl = "30s")]
    async fn mutable(mut id: u64, r#type: &str) -> Done<u64> {
        id += r#type.len() as u64;
        Ok(id)
    }

    #[idempotent(
        key = "held, call, returns, body, outcome, context, here, error, time",
        ttl = "30s"
    )]
    #[allow(clippy::too_many_arguments)]
    async fn names(
        held: u8,
        call: u8,
        returns: u8,
        body: u8,
        outcome: u8,
        context: u8,
        here: u8,
        error: u8,
        time: u8,
    ) -> Done<u8> {
        Ok(held + call + returns + body + outcome + context + here + error + time)
    }

    #[allow(clippy::items_after_statements)]
    #[idempotent(key = "id", ttl = "30s")]
    async fn with_a_function_here(id: u64) -> Done<u64> {
        Ok(here(id))
    }

    fn here(id: u64) -> u64 {
        id + 1
    }

    #[idempotent(key = "id", ttl = "30s")]
    async fn inner_attribute(id: u64) -> Done<u64> {
        #![allow(unused_variables)]
        let unused = 1;
        Ok(id)
    }

    #[expect(dead_code)]
    #[idempotent(key = "id", ttl = "30s")]
    async fn never_called(id: u64) -> Done<u64> {
        Ok(id)
    }

    #[idempotent(key = "id", ttl = "30s")]
    async fn unfinished(id: u64) -> Done<u64> {
        let _ = id;
        unimplemented!()
    }

    #[tokio::test]
    async fn free_functions_run_once() {
        fresh(async {
            let upload = || upload(1, "ab".to_owned(), vec![0; 3]);
            let (first, second) = tokio::join!(upload(), upload());
            assert_eq!(first.unwrap(), 5);
            assert!(second.unwrap_err().is_duplicate());
        })
        .await;
        runs_once!(nothing() => ());
        runs_once!(borrowing("a", "bcd", &mut 0) => "cd");
        runs_once!(expressions("abc".to_owned(), vec![String::new()]) => 4);
        runs_once!(mutable(1, "abc") => 4);
        runs_once!(names(1, 1, 1, 1, 1, 1, 1, 1, 1) => 9);
        runs_once!(with_a_function_here(1) => 2);
        runs_once!(inner_attribute(1) => 1);
        let _ = unfinished;
    }

    #[tokio::test]
    async fn arguments_may_be_patterns() {
        let order = || Order {
            id: 7,
            part: (1, 2),
            note: "n".to_owned(),
        };
        runs_once!(fields(order(), ((1, 2), 3)) => "7n3");
        runs_once!(patterns(Path(1), Point { x: 1, y: 1, z: 0 }, (1, 0), [1, 2, 3], true) => 6);
    }

    #[tokio::test]
    async fn calls_with_another_key_run() {
        fresh(async {
            for id in 0..3 {
                assert_eq!(mutable(id, "").await.unwrap(), id);
            }
        })
        .await;
    }
}

mod methods {
    use super::*;

    #[derive(Default)]
    struct Service {
        tenant: String,
        calls: Vec<u64>,
    }

    impl Service {
        #[idempotent(key = "self.tenant, id", ttl = "30s")]
        async fn shared(&self, id: u64) -> Done<u64> {
            Ok(id + self.calls.len() as u64)
        }

        #[idempotent(key = (self.tenant(), id), ttl = "30s")]
        async fn exclusive(&mut self, id: u64) -> Done<&mut u64> {
            self.calls.push(id);
            tokio::task::yield_now().await;
            self.calls.last_mut().ok_or_else(|| unreachable!())
        }

        #[idempotent(key = "self.tenant", ttl = "30s")]
        async fn owned(mut self) -> Done<String> {
            self.tenant.push('!');
            Ok(self.tenant)
        }

        #[idempotent(key = "self.tenant", ttl = "30s")]
        async fn counted(self: Arc<Self>) -> Done<usize> {
            Ok(self.tenant.len())
        }

        #[idempotent(key = tenant, ttl = "30s")]
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

    struct Repo<T>(T);

    impl<T: Serialize + Clone> Repo<T> {
        #[idempotent(key = "self.0", ttl = "30s")]
        async fn save(&self) -> Done<T> {
            Ok(self.0.clone())
        }
    }

    #[tokio::test]
    async fn methods_run_once() {
        let mut service = Service::default();
        runs_once!(service.shared(1) => 1);
        runs_once!(service.exclusive(1) => &mut 1);
        runs_once!(Service::default().owned() => "!");
        runs_once!(Arc::new(Service::default()).counted() => 0);
        runs_once!(Repo(1u64).save() => 1);
        fresh(async {
            assert_eq!(Service::open("a").await.unwrap().tenant, "a");
            assert!(
                Service::open("a")
                    .await
                    .is_err_and(|error| error.is_duplicate())
            );
        })
        .await;
    }
}

mod generics {
    use super::*;

    #[idempotent(key = (id, N), ttl = "30s")]
    async fn generic<'a, T, const N: usize>(id: &'a T, names: [String; N]) -> Done<(&'a T, usize)>
    where
        T: Serialize + ?Sized,
    {
        Ok((id, names.len()))
    }

    #[idempotent(key = "id", ttl = "30s")]
    async fn any(id: impl Serialize + Display, note: &(dyn Display + Sync)) -> Done<String> {
        Ok(format!("{id}{note}"))
    }

    #[idempotent(key = "id", ttl = "30s")]
    async fn opaque(id: u64) -> Result<impl Display, Error> {
        Ok(id)
    }

    #[tokio::test]
    async fn generic_functions_run_once() {
        runs_once!(generic("a", [String::new(), String::new()]) => ("a", 2));
        runs_once!(any(1, &"b") => "1b");
        fresh(async {
            assert_eq!(opaque(1).await.map(|id| id.to_string()).unwrap(), "1");
            assert!(opaque(1).await.is_err_and(|error| error.is_duplicate()));
        })
        .await;
    }
}

mod bodies {
    use super::*;

    #[derive(Debug)]
    enum AppError {
        Guard(Error),
        Parse(ParseIntError),
    }

    impl From<Error> for AppError {
        fn from(error: Error) -> Self {
            Self::Guard(error)
        }
    }

    impl From<ParseIntError> for AppError {
        fn from(error: ParseIntError) -> Self {
            Self::Parse(error)
        }
    }

    impl AppError {
        fn is_duplicate(&self) -> bool {
            matches!(self, Self::Guard(error) if error.is_duplicate())
        }
    }

    #[idempotent(key = "text", ttl = "30s")]
    async fn sums(text: &str) -> Result<u64, AppError> {
        if text.is_empty() {
            return Ok(0);
        }
        let numbers: Vec<u64> = text.split('+').map(str::parse).collect::<Result<_, _>>()?;
        Ok(numbers.iter().sum())
    }

    #[idempotent(key = "id", ttl = "30s")]
    async fn coerced(id: u64) -> Done<(Box<dyn Display + Send>, &'static [u8])> {
        if id == 0 {
            return Ok((Box::new("none"), &[]));
        }
        Ok((Box::new(id), &[1, 2, 3]))
    }

    #[idempotent(key = "id", ttl = "30s")]
    async fn inferred(id: u64) -> Done<Vec<u64>> {
        (0..id).map(Ok).collect()
    }

    #[idempotent(key = "id", ttl = "30s")]
    async fn converted(id: u64) -> Done<String> {
        let id: u8 = id.try_into().unwrap_or_default();
        Ok(char::from(id).into())
    }

    #[idempotent(key = "id", ttl = "30s")]
    async fn looping(id: u64) -> Done<u64> {
        let mut tries = 0;
        loop {
            tries += 1;
            if tries > id {
                break Ok(tries);
            }
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn macros_attributes_and_early_returns_in_a_body_work() {
        runs_once!(sums("1+2") => 3);
        runs_once!(sums("") => 0);
        runs_once!(inferred(2) => [0, 1]);
        runs_once!(converted(65) => "A");
        runs_once!(looping(3) => 4);
        fresh(async {
            let (shown, bytes) = coerced(7).await.unwrap();
            assert_eq!((shown.to_string().as_str(), bytes), ("7", &[1u8, 2, 3][..]));
            assert!(coerced(7).await.is_err_and(|error| error.is_duplicate()));
            assert_eq!(coerced(0).await.unwrap().1.len(), 0);
        })
        .await;
    }

    #[tokio::test]
    async fn a_failure_frees_the_key() {
        fresh(async {
            assert!(matches!(sums("x").await, Err(AppError::Parse(error)) if !error.to_string().is_empty()));
            assert!(matches!(sums("x").await, Err(AppError::Parse(error)) if !error.to_string().is_empty()));
        })
        .await;
    }
}

mod outcomes {
    use super::*;

    #[derive(Debug, PartialEq)]
    struct Reply(u16);

    impl Outcome for Reply {
        fn refused(error: Error) -> Self {
            Self(if error.is_duplicate() { 409 } else { 503 })
        }

        fn is_success(&self) -> bool {
            self.0 < 400
        }
    }

    #[idempotent(key = "id", ttl = "30s")]
    async fn named(id: u64) -> Reply {
        Reply(u16::try_from(id).unwrap_or(500))
    }

    #[idempotent(key = "id", ttl = "30s")]
    async fn unnamed(id: u64) -> impl Outcome + PartialEq<Reply> {
        let _ = id;
        Reply(200)
    }

    impl From<Reply> for u16 {
        fn from(reply: Reply) -> Self {
            reply.0
        }
    }

    #[tokio::test]
    async fn a_refusal_becomes_a_return_type_with_its_own_outcome() {
        fresh(async {
            assert_eq!(named(200).await, Reply(200));
            assert_eq!(named(200).await, Reply(409));
            assert_eq!(named(404).await, Reply(404));
            assert_eq!(named(404).await, Reply(404));
            assert!(unnamed(1).await == Reply(200));
            assert!(unnamed(1).await == Reply(409));
        })
        .await;
    }
}

mod futures {
    use std::future::ready;

    use super::*;

    #[idempotent(key = "id", ttl = "30s")]
    fn boxed(id: u64) -> Pin<Box<dyn Future<Output = Done<u64>> + Send>> {
        if id == 0 {
            return Box::pin(ready(Ok(0)));
        }
        Box::pin(async move { Ok(id) })
    }

    #[idempotent(key = "name", ttl = "30s")]
    fn borrowing<'a>(name: &'a mut String) -> BoxFuture<'a, Done<&'a str>> {
        name.push('!');
        Box::pin(async move { Ok(name.as_str()) })
    }

    type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

    #[idempotent(key = "id", ttl = "30s")]
    fn opaque(id: u64, name: &str) -> impl Future<Output = Done<usize>> + Send + use<'_> {
        let sum = usize::try_from(id).unwrap_or_default() + name.len();
        async move { Ok(sum) }
    }

    #[tokio::test]
    async fn hand_made_futures_run_once() {
        runs_once!(boxed(0) => 0);
        runs_once!(boxed(1) => 1);
        runs_once!(borrowing(&mut "a".to_owned()) => "a!");
        runs_once!(opaque(1, "ab") => 3);
    }

    #[tokio::test]
    async fn a_refused_body_does_not_start() {
        fresh(async {
            let mut name = "a".to_owned();
            assert_eq!(borrowing(&mut name).await.unwrap(), "a!");
            let mut name = "a".to_owned();
            assert!(borrowing(&mut name).await.is_err());
            assert_eq!(name, "a");
        })
        .await;
    }

    #[tokio::test]
    async fn a_hand_made_future_uses_the_handle_of_its_first_poll() {
        let call = boxed(1);
        assert_eq!(fresh(call).await.unwrap(), 1);
    }
}

mod traits {
    use super::*;

    trait Native {
        fn id(&self) -> u64;

        fn implemented(&self, n: u64) -> impl Future<Output = Done<u64>> + Send;

        #[idempotent(key = (self.id(), n), ttl = "30s")]
        async fn by_default(&self, n: u64) -> Done<u64> {
            Ok(self.id() + n)
        }
    }

    struct One;
    struct Two;

    impl Native for Two {
        fn id(&self) -> u64 {
            2
        }

        #[idempotent(key = (self.id(), n), ttl = "30s")]
        async fn implemented(&self, n: u64) -> Done<u64> {
            Ok(self.id() + n)
        }
    }

    #[async_trait]
    trait Boxed: Sync {
        fn id(&self) -> u64;

        async fn implemented(&self, n: u64) -> Done<u64>;
        async fn generic<T: Serialize + Display + Send + Sync>(&self, n: T) -> Done<String>;
        async fn owned(self: Box<Self>, n: u64) -> Done<u64>;
        async fn exclusive(&mut self, text: &str) -> Done<usize>;
        async fn without_self(n: u64) -> Done<u64>;

        #[idempotent(key = (self.id(), n), ttl = "30s")]
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

        #[idempotent(key = (self.id(), n), ttl = "30s")]
        async fn implemented(&self, n: u64) -> Done<u64> {
            Ok(self.id() + n)
        }

        #[idempotent(key = "n", ttl = "30s")]
        async fn generic<T: Serialize + Display + Send + Sync>(&self, n: T) -> Done<String> {
            Ok(n.to_string())
        }

        #[idempotent(key = "n", ttl = "30s")]
        async fn owned(self: Box<Self>, n: u64) -> Done<u64> {
            Ok(self.id() + n)
        }

        #[idempotent(key = "text", ttl = "30s")]
        async fn exclusive(&mut self, text: &str) -> Done<usize> {
            tokio::task::yield_now().await;
            Ok(text.len())
        }

        #[idempotent(key = "n", ttl = "30s")]
        async fn without_self(n: u64) -> Done<u64> {
            Ok(n)
        }
    }

    #[tokio::test]
    async fn methods_of_native_traits_run_once() {
        runs_once!(Two.implemented(1) => 3);
        runs_once!(Two.by_default(1) => 3);
    }

    #[tokio::test]
    async fn methods_of_async_traits_run_once() {
        runs_once!(One.implemented(1) => 2);
        runs_once!(One.by_default(1) => 2);
        runs_once!(One.generic("a") => "a");
        runs_once!(Box::new(One).owned(1) => 2);
        runs_once!(One.exclusive("ab") => 2);
        runs_once!(One::without_self(1) => 1);
    }

    #[tokio::test]
    async fn an_async_trait_method_uses_the_scope_of_its_first_poll() {
        assert_eq!(fresh(One.implemented(1)).await.unwrap(), 2);
    }
}

mod options {
    use super::*;

    #[derive(Debug, PartialEq)]
    struct Status(u16);

    fn status(error: Error) -> Status {
        match error {
            Error::InProgress(_) | Error::AlreadyDone(_) | Error::Taken(_) => Status(409),
            error => Status(error.code().len().try_into().unwrap_or(503)),
        }
    }

    #[idempotent(key = "id", ttl = "30s", error = status)]
    async fn by_path(id: u64) -> Result<u64, Status> {
        Ok(id)
    }

    #[idempotent(key = "id", ttl = "30s", error = |error| Status(error.code().len().try_into().unwrap_or(0)))]
    async fn by_closure(id: u64) -> Result<u64, Status> {
        Ok(id)
    }

    #[idempotent(key = "id", ttl = "30s", on_duplicate = |_: Duplicate| Ok(format!("{note} again")))]
    async fn answered(id: u64, note: String) -> Done<String> {
        let _ = id;
        Ok(note)
    }

    #[idempotent(key = "id", ttl = "30s", success = |outcome| matches!(outcome, Ok(1..)))]
    async fn successful(id: u64, sum: u64) -> Done<u64> {
        Ok(sum)
    }

    struct Limits {
        ttl: Duration,
        handle: Idempotency,
    }

    #[idempotent(
        key = id,
        ttl = limits.ttl,
        lease = limits.ttl / 2,
        renew = limits.ttl.max(Duration::from_mins(1)),
        using = limits.handle,
        on_cancel = "keep",
        on_lease_lost = "stop",
        on_store_error = "refuse",
        release = "on_error",
        name = "orders.pay",
        crate = ::idempotence,
    )]
    async fn all(limits: &Limits, id: u64) -> Done<u64> {
        Ok(id)
    }

    #[idempotent(key = &*id, ttl = "30s", on_cancel = "finish", using = &handle)]
    async fn finishing(handle: Arc<Idempotency>, id: Arc<str>) -> Done<usize> {
        drop(handle);
        tokio::task::yield_now().await;
        Ok(id.len())
    }

    #[idempotent(key = id, ttl = "30s", on_cancel = "finish")]
    fn finishing_future(id: u64) -> impl Future<Output = Done<u64>> + Send {
        async move { Ok(id) }
    }

    #[tokio::test]
    async fn the_option_error_converts_a_refusal() {
        fresh(async {
            assert_eq!(by_path(1).await, Ok(1));
            assert_eq!(by_path(1).await, Err(Status(409)));
            assert_eq!(by_closure(1).await, Ok(1));
            assert_ne!(by_closure(1).await, Ok(1));
        })
        .await;
    }

    #[tokio::test]
    async fn on_duplicate_may_use_the_arguments() {
        fresh(async {
            assert_eq!(answered(1, "a".to_owned()).await.unwrap(), "a");
            assert_eq!(answered(1, "b".to_owned()).await.unwrap(), "b again");
        })
        .await;
    }

    #[tokio::test]
    async fn the_option_success_decides_whether_the_key_stays_taken() {
        fresh(async {
            assert_eq!(successful(1, 0).await.unwrap(), 0);
            assert_eq!(successful(1, 5).await.unwrap(), 5);
            assert!(successful(1, 5).await.is_err());
        })
        .await;
    }

    #[tokio::test]
    async fn all_options_together_compile_and_work() {
        let limits = Limits {
            ttl: Duration::from_secs(30),
            handle: Idempotency::new(MemoryStore::new()),
        };
        runs_once!(all(&limits, 1) => 1);
        assert_eq!(all(&limits, 1).await.unwrap_err().endpoint(), "orders.pay");
    }

    #[tokio::test]
    async fn a_body_that_outlives_its_caller_runs_once() {
        let handle = Arc::new(Idempotency::new(MemoryStore::new()));
        runs_once!(finishing(Arc::clone(&handle), "ab".into()) => 2);
        runs_once!(finishing_future(1) => 1);
    }
}

mod sendness {
    use super::*;

    fn is_send<T: Send>(future: T) -> T {
        future
    }

    #[idempotent(key = "id", ttl = "30s")]
    async fn sendable(id: u64, text: String) -> Done<usize> {
        tokio::task::yield_now().await;
        Ok(text.len() + usize::try_from(id).unwrap_or_default())
    }

    #[idempotent(key = (cell.get(), id), ttl = "30s")]
    async fn not_sync(cell: Cell<u64>, id: u64) -> Done<u64> {
        tokio::task::yield_now().await;
        Ok(cell.get() + id)
    }

    #[idempotent(key = (&*id), ttl = "30s")]
    async fn local(id: Rc<str>) -> Done<Rc<str>> {
        tokio::task::yield_now().await;
        Ok(id)
    }

    #[tokio::test]
    async fn a_guarded_future_is_send_if_the_plain_one_is() {
        runs_once!(is_send(sendable(1, "ab".to_owned())) => 3);
        runs_once!(is_send(not_sync(Cell::new(1), 1)) => 2);
        runs_once!(local(Rc::from("a")) => Rc::from("a"));
    }
}

mod macros {
    use super::*;

    macro_rules! guarded {
        ($vis:vis fn $name:ident($id:ident: $ty:ty) $key:expr, $ttl:literal, $release:literal $body:block) => {
            #[idempotent(key = $key, ttl = $ttl, release = $release)]
            $vis async fn $name($id: $ty, _: u64) -> Done<u64> $body
        };
    }

    guarded! {
        pub(super) fn tokens(id: u64) (id, id + 1), "30s", false { Ok(id) }
    }
    guarded! {
        fn whole(id: u64) id, "1h30m", "on_error" { Ok(id) }
    }

    macro_rules! bare {
        ($name:ident, $crate_path:path, $body:block) => {
            #[idempotent(key = (), ttl = "1m", crate = $crate_path)]
            async fn $name() -> Done<u64> $body
        };
    }

    bare!(body_is_a_fragment, ::idempotence, { Ok(1) });

    #[tokio::test]
    async fn functions_written_by_a_macro_run_once() {
        runs_once!(tokens(1, 2) => 1);
        runs_once!(whole(1, 2) => 1);
        runs_once!(body_is_a_fragment() => 1);
    }
}

#[no_implicit_prelude]
mod without_prelude {
    use ::idempotence::{Error, idempotent};
    use ::std::result::Result;

    #[idempotent(key = "id", ttl = "30s")]
    pub(super) async fn pay(id: u64) -> Result<u64, Error> {
        Result::Ok(id)
    }

    #[idempotent(key = "id", ttl = "30s")]
    pub(super) fn boxed(
        id: u64,
    ) -> ::std::pin::Pin<::std::boxed::Box<dyn ::std::future::Future<Output = Result<u64, Error>>>>
    {
        ::std::boxed::Box::pin(::std::future::ready(Result::Ok(id)))
    }
}

#[tokio::test]
async fn the_prelude_is_not_needed() {
    runs_once!(without_prelude::pay(1) => 1);
    runs_once!(without_prelude::boxed(1) => 1);
}

mod shadowed_prelude {
    #![allow(dead_code, non_snake_case)]

    use super::{Error, fresh, idempotent};

    type Result<T> = std::result::Result<T, Error>;

    struct Option;
    struct Some;
    struct None;
    struct Send;
    struct Box;
    enum Ok {}
    enum Err {}
    fn drop() {}

    #[idempotent(key = "id", ttl = "30s")]
    async fn pay(id: u64) -> Result<u64> {
        Result::Ok(id)
    }

    #[tokio::test]
    async fn names_of_the_prelude_may_be_redefined() {
        fresh(async {
            assert!(matches!(pay(1).await, Result::Ok(1)));
            assert!(pay(1).await.is_err_and(|error| error.is_duplicate()));
        })
        .await;
    }
}

mod renamed {
    pub(crate) mod guard {
        pub(crate) use idempotence::*;
    }

    #[guard::idempotent(key = "id", ttl = "30s", crate = crate::shapes::renamed::guard)]
    async fn pay(id: u64) -> Result<u64, guard::Error> {
        Ok(id)
    }

    #[tokio::test]
    async fn the_option_crate_names_another_path() {
        super::fresh(async {
            assert_eq!(pay(1).await.unwrap(), 1);
            assert!(pay(1).await.unwrap_err().is_duplicate());
        })
        .await;
    }
}

mod endpoints {
    use super::*;

    macro_rules! service {
        ($name:ident) => {
            #[derive(Debug, PartialEq)]
            struct $name;

            impl $name {
                #[idempotent(key = "id", ttl = "30s")]
                async fn pay(&self, id: u64) -> Done<u64> {
                    Ok(id)
                }

                #[idempotent(key = "id", ttl = "30s")]
                async fn open(id: u64) -> Done<u64> {
                    Ok(id)
                }

                #[idempotent(key = "id", ttl = "30s")]
                async fn make(id: u64) -> Done<Self> {
                    let _ = id;
                    Ok(Self)
                }
            }

            impl Shared for $name {}
        };
    }

    trait Shared {
        #[idempotent(key = "id", ttl = "30s")]
        async fn by_default(&self, id: u64) -> Done<u64> {
            Ok(id)
        }
    }

    service!(Cards);
    service!(Wires);

    struct Repo<T>(T);

    impl<T> Repo<T> {
        #[idempotent(key = "id", ttl = "30s")]
        async fn save(&self, id: u64) -> Done<&T> {
            let _ = id;
            Ok(&self.0)
        }
    }

    mod inner {
        use super::*;

        #[idempotent(key = "id", ttl = "30s")]
        pub(super) async fn pay(id: u64) -> Done<u64> {
            Ok(id)
        }
    }

    #[idempotent(key = "id", ttl = "30s")]
    async fn pay(id: u64) -> Done<u64> {
        Ok(id)
    }

    #[idempotent(key = "id", ttl = "30s", name = "joined")]
    async fn one(id: u64) -> Done<u64> {
        Ok(id)
    }

    #[idempotent(key = "id", ttl = "30s", name = "joined")]
    async fn other(id: u64) -> Done<u64> {
        Ok(id)
    }

    #[tokio::test]
    async fn methods_with_one_name_on_two_types_share_no_key() {
        fresh(async {
            assert_eq!(Cards.pay(1).await.unwrap(), 1);
            assert_eq!(Wires.pay(1).await.unwrap(), 1);
            assert_eq!(Cards::open(1).await.unwrap(), 1);
            assert_eq!(Wires::open(1).await.unwrap(), 1);
            assert_eq!(Cards::make(1).await.unwrap(), Cards);
            assert_eq!(Wires::make(1).await.unwrap(), Wires);
            assert!(Cards.pay(1).await.unwrap_err().is_duplicate());
            assert!(Wires::open(1).await.unwrap_err().is_duplicate());
        })
        .await;
    }

    #[tokio::test]
    async fn a_default_method_on_two_types_shares_no_key() {
        fresh(async {
            assert_eq!(Cards.by_default(1).await.unwrap(), 1);
            assert_eq!(Wires.by_default(1).await.unwrap(), 1);
            assert!(Cards.by_default(1).await.unwrap_err().is_duplicate());
        })
        .await;
    }

    #[tokio::test]
    async fn a_method_of_a_generic_type_shares_no_key_with_another_instance() {
        fresh(async {
            assert_eq!(Repo(1u8).save(1).await.unwrap(), &1);
            assert_eq!(Repo("a").save(1).await.unwrap(), &"a");
            assert!(Repo(2u8).save(1).await.unwrap_err().is_duplicate());
        })
        .await;
    }

    #[tokio::test]
    async fn functions_with_one_name_in_two_modules_share_no_key() {
        fresh(async {
            assert_eq!(pay(1).await.unwrap(), 1);
            assert_eq!(inner::pay(1).await.unwrap(), 1);
            assert!(pay(1).await.unwrap_err().is_duplicate());
        })
        .await;
    }

    #[tokio::test]
    async fn functions_with_one_option_name_share_their_keys() {
        fresh(async {
            assert_eq!(one(1).await.unwrap(), 1);
            assert!(other(1).await.unwrap_err().is_duplicate());
        })
        .await;
    }
}

mod other_attributes {
    use super::*;

    mod other {
        /// An attribute of another crate that has the same name.
        pub(super) use tokio::main as idempotent;
    }

    #[idempotent(key = "id", ttl = "30s")]
    #[other::idempotent(flavor = "current_thread")]
    async fn pay(id: u64) -> Done<u64> {
        Ok(id)
    }

    #[test]
    fn an_attribute_of_another_crate_may_have_the_same_name() {
        assert_eq!(pay(7).unwrap_err().code(), "not_installed");
    }
}
