//! A call with a token and a key equals only calls of the same subject.

use idempotence::testkit::{Fault, Op};
use idempotent_runtime::private::{Call, Endpoint, replaying, returns};
use idempotent_runtime::{Error, Idempotency, MemoryStore, Token};
use tokio::task::yield_now;

use super::{Form, USER, policy};
use crate::protocol::guarded::{answered, millis, never, secs};

const INVENTED: &str = "00000000000000000000000000000000000000000000000000000000000000aa";

impl Form {
    /// A call with the key 1 and another subject or operation.
    fn other(&self, token: &str, subject: u64, operation: &'static str) -> Call {
        self.guarded.call_with_token(1, token, subject, operation)
    }

    /// Calls of other subjects or operations.
    fn others(&self, token: &str) -> [Call; 3] {
        let endpoint = self.guarded.endpoint;
        [
            self.other(INVENTED, USER + 59, endpoint),
            self.other(token, USER + 60, endpoint),
            self.other(token, USER, "test.other"),
        ]
    }
}

async fn replayed(call: Call) -> Result<u32, Error> {
    let returns = replaying(returns::<Result<u32, Error>>());
    answered(returns, call, never()).await
}

#[tokio::test(start_paused = true)]
async fn another_subject_does_not_get_the_stored_result() {
    let (_, form) = Form::counted(policy().replay());
    let token = form.issue().await;
    let returns = replaying(returns::<Result<u32, Error>>());
    let first = answered(returns, form.call(&token), async { Ok(42) }).await;
    assert_eq!(first.unwrap(), 42);
    for process in [form.clone(), form.elsewhere()] {
        for call in process.others(token.as_str()) {
            let refused = replayed(call).await.unwrap_err();
            assert!(matches!(refused, Error::TokenUnknown(_)), "{refused:?}");
        }
        assert_eq!(replayed(process.call(&token)).await.unwrap(), 42);
    }
}

#[tokio::test(start_paused = true)]
async fn another_subject_does_not_block_the_key_while_its_token_is_checked() {
    let (store, form) = Form::faulty(policy());
    let token = form.issue().await;
    let others = form.others(token.as_str()).map(|call| {
        store.next(Op::Exchange, Fault::Delay(millis(200)));
        tokio::spawn(call.claim())
    });
    // Each call checks its token now.
    for _ in 0..99 {
        yield_now().await;
    }
    assert_eq!(store.remaining_faults(), 0);
    form.run(&token, async { Ok(()) }).await.unwrap();
    assert!(others.iter().all(|call| !call.is_finished()));
    for call in others {
        let refused = call.await.unwrap().unwrap_err();
        assert!(
            matches!(refused.error(), Error::TokenUnknown(_)),
            "{refused:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn any_token_of_the_same_subject_gets_the_result() {
    let (_, form) = Form::counted(policy().replay());
    let (token, second) = (form.issue().await, form.issue().await);
    let returns = replaying(returns::<Result<u32, Error>>());
    let first = answered(returns, form.call(&token), async { Ok(42) }).await;
    assert_eq!(first.unwrap(), 42);
    for own in [second.as_str(), INVENTED] {
        assert_eq!(replayed(form.call(own)).await.unwrap(), 42);
    }
    assert_eq!(form.redeemed(&second).await, "good");
}

#[tokio::test(start_paused = true)]
async fn calls_with_the_empty_subject_are_equal_for_all_callers() {
    let idempotency = Idempotency::new(MemoryStore::new());
    let submit = |token: &str| {
        let endpoint = Endpoint::named("test.pay");
        let mut call = Call::new(endpoint, policy(), Some(&idempotency));
        call.part(&1);
        call.token(token, &(), "test.pay");
        call
    };
    let tokens = idempotency.tokens();
    let token = tokens.issue(&(), "test.pay", secs(60)).await.unwrap();
    let held = submit(token.as_str()).claim().await.unwrap();
    held.settle(true).await;
    let refused = submit(INVENTED).claim().await.unwrap_err();
    assert_eq!(refused.error().code(), "already_done");
}

#[tokio::test(start_paused = true)]
async fn the_builder_binds_key_and_token_in_either_order() {
    let idempotency = Idempotency::new(MemoryStore::new());
    let tokens = idempotency.tokens();
    let token = tokens.issue(&USER, "test.pay", secs(60)).await.unwrap();
    let begin = || idempotency.call("test.pay").ttl(secs(60));
    let submits = |token: &Token, user: u64| {
        [
            begin().key("A-1").token(token, &user, "test.pay").replay(),
            begin().token(token, &user, "test.pay").key("A-1").replay(),
        ]
    };
    let [first, second] = submits(&token, USER);
    first.run(async { Ok::<_, Error>(42) }).await.unwrap();
    assert_eq!(second.run(never::<i32>()).await.unwrap(), 42);
    for other in submits(&token, USER + 59) {
        let refused = other.run(never::<i32>()).await.unwrap_err();
        assert!(matches!(refused, Error::TokenUnknown(_)), "{refused:?}");
    }
}
