//! Names in the user's code that are also names in the generated code.

use std::time::Duration;

use idempotence::{Error, Idempotency, MemoryStore, idempotent};

use crate::replay::{Done, replays};

/// Items with the name of the constant that the attribute writes.
const POLICY: u64 = 7;

#[idempotent(
    key = "POLICY, id",
    ttl = "1m",
    replay = true,
    payload = (POLICY),
    name = "hygiene.constant"
)]
async fn constant(id: u64) -> Done<u64> {
    Ok(id + POLICY)
}

struct Policy;

impl Policy {
    const POLICY: Duration = Duration::from_mins(1);
}

#[idempotent(key = "id", ttl = Policy::POLICY, wait = Policy::POLICY, replay = true, name = "hygiene.expression")]
async fn expression(id: u64) -> Done<u64> {
    const POLICY: u64 = 1;
    Ok(id + POLICY)
}

#[idempotent(
    key = "returns",
    ttl = "1m",
    replay = true,
    on_duplicate = |error| Ok(format!("{returns} {held} {call} {:?}", error.state())),
)]
async fn on_duplicate(returns: u8, held: u8, call: u8) -> Done<String> {
    Ok(format!("{returns} {held} {call}"))
}

/// No constant here is called `POLICY`, so an argument may have this name.
mod arguments {
    use super::idempotent;

    #[idempotent(
        key = "returns, held, call, POLICY, replaying, keep, stored, success",
        ttl = "1m",
        payload = "policy, register, outcome, body, error, context",
        replay = true,
        replay_err = |returns: &String| returns.is_empty(),
        success = |held| matches!(held, Ok(1..)),
        error = |call| call.code().to_owned(),
        wait = "1s",
        name = "hygiene.names",
    )]
    #[allow(clippy::too_many_arguments, non_snake_case)]
    pub(super) async fn names(
        returns: u8,
        held: u8,
        call: u8,
        POLICY: u8,
        replaying: u8,
        keep: u8,
        stored: u8,
        success: u8,
        policy: u8,
        register: u8,
        outcome: u8,
        body: u8,
        error: u8,
        context: u8,
    ) -> Result<u8, String> {
        let first = returns + held + call + POLICY + replaying + keep + stored + success;
        Ok(first + policy + register + outcome + body + error + context)
    }
}

/// A body with functions, constants and macros of these names.
#[idempotent(key = "id", ttl = "1m", replay = true, name = "hygiene.items")]
#[allow(clippy::items_after_statements)]
async fn items(id: u64) -> Done<u64> {
    const POLICY: u64 = 1;
    macro_rules! register {
        () => {
            returns() + POLICY
        };
    }
    fn returns() -> u64 {
        super::hygiene::POLICY
    }
    struct Endpoint(u64);
    Ok(id + Endpoint(register!()).0)
}

macro_rules! guarded {
    ($name:ident($id:ident), $endpoint:literal, $replay:literal, $wait:expr, $payload:expr, $chosen:expr) => {
        #[idempotent(
                                                            key = $id,
                                                            ttl = "1m",
                                                            name = $endpoint,
                                                            replay = $replay,
                                                            wait = $wait,
                                                            payload = $payload,
                                                            replay_err = $chosen,
                                                            error = |error| error.code().to_owned(),
                                                        )]
        async fn $name($id: u64) -> Result<u64, String> {
            Ok($id)
        }
    };
}

guarded!(
    by_macro(id),
    "hygiene.by_macro",
    true,
    "1s",
    (id, id + 1),
    |error| error.starts_with("no")
);
guarded!(
    by_macro_too(id),
    "hygiene.by_macro_too",
    true,
    Policy::POLICY,
    "id",
    String::is_empty
);

#[tokio::test]
async fn names_of_the_user_do_not_collide_with_generated_names() {
    replays!(constant(1) => 8);
    replays!(expression(1) => 2);
    replays!(arguments::names(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1) => 14);
    replays!(on_duplicate(1, 2, 3) => "1 2 3");
    replays!(items(1) => 9);
    replays!(by_macro(1) => 1);
    replays!(by_macro_too(1) => 1);
}

#[no_implicit_prelude]
mod without_prelude {
    use ::idempotence::{Error, idempotent};
    use ::std::result::Result;

    #[idempotent(
        key = "id",
        ttl = "30s",
        name = "hygiene.without_prelude",
        replay = true,
        replay_err = |_| false,
        error = |_| 0,
        payload = "id",
        wait = "1s"
    )]
    pub(super) async fn pay(id: u64) -> Result<u64, u64> {
        Result::Ok(id)
    }

    #[idempotent(
        key = "id",
        ttl = "30s",
        name = "hygiene.without_prelude.boxed",
        replay = true
    )]
    pub(super) fn boxed(
        id: u64,
    ) -> ::std::pin::Pin<::std::boxed::Box<dyn ::std::future::Future<Output = Result<u64, Error>>>>
    {
        ::std::boxed::Box::pin(::std::future::ready(Result::Ok(id)))
    }
}

#[tokio::test]
async fn the_prelude_is_not_needed() {
    replays!(without_prelude::pay(1) => 1);
    replays!(without_prelude::boxed(1) => 1);
}

mod shadowed_prelude {
    #![allow(dead_code, non_snake_case)]

    use super::{Error, idempotent, replays};

    type Result<T> = std::result::Result<T, Error>;

    struct Option;
    struct Some;
    struct None;
    struct Send;
    struct Box;
    struct Policy;
    struct Duration;
    enum Ok {}
    enum Err {}
    fn drop() {}
    fn replaying() {}
    mod core {}

    #[idempotent(
        key = "id",
        ttl = "30s",
        name = "hygiene.shadowed",
        replay = true,
        wait = "1s"
    )]
    async fn pay(id: u64) -> Result<u64> {
        Result::Ok(id)
    }

    #[tokio::test]
    async fn names_of_the_prelude_may_be_redefined() {
        replays!(pay(1) => 1);
    }
}

mod renamed {
    pub(crate) mod guard {
        pub(crate) use idempotence::*;
    }

    #[guard::idempotent(
        key = "id",
        ttl = "30s",
        crate = crate::replay::hygiene::renamed::guard,
        name = "hygiene.renamed",
        replay = true,
        payload = "id",
        wait = "1s"
    )]
    async fn pay(id: u64) -> Result<guard::Once<u64>, guard::Error> {
        Ok(id.into())
    }

    #[tokio::test]
    async fn the_option_crate_names_another_path() {
        crate::replay::fresh(async {
            assert_eq!(pay(1).await.unwrap(), guard::Once::Executed(1));
            assert_eq!(pay(1).await.unwrap(), guard::Once::Replayed(1));
        })
        .await;
        let names = guard::endpoints();
        assert!(names.iter().any(|info| info.name() == "hygiene.renamed"));
    }
}

#[tokio::test]
async fn the_option_using_names_the_handle_of_a_call() {
    #[idempotent(key = "id", ttl = "1m", replay = true, using = held, name = "hygiene.using")]
    async fn pay(held: &Idempotency, id: u64, sum: u64) -> Done<u64> {
        let _ = (held, id);
        Ok(sum)
    }

    let returns = Idempotency::new(MemoryStore::new());
    assert_eq!(pay(&returns, 1, 5).await.unwrap(), 5);
    assert_eq!(pay(&returns, 1, 6).await.unwrap(), 5);
}
