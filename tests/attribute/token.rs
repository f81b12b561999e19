//! The option `token`: its forms, and its effect.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use idempotence::{Error, Idempotency, KeyPart, MemoryStore, Token, idempotent};
use serde::Serialize;

const USER: u64 = 7;
const OPERATION: &str = "orders.submit";

fn handle() -> Idempotency {
    Idempotency::new(MemoryStore::new())
}

async fn issue<S: KeyPart + ?Sized>(idempotency: &Idempotency, subject: &S) -> Token {
    let (tokens, ttl) = (idempotency.tokens(), Duration::from_mins(10));
    tokens.issue(subject, OPERATION, ttl).await.unwrap()
}

/// Asserts that a second call with this token fails with `code`.
async fn is_refused<R>(call: impl Future<Output = Result<R, Error>>, code: &str) {
    let refused = call.await.err().map(|error| error.code());
    assert_eq!(refused, Some(code));
}

struct Form {
    token: String,
    note: &'static str,
}

impl Form {
    fn with(token: &Token) -> Self {
        Self {
            token: token.to_string(),
            note: "soon",
        }
    }

    fn token(&self) -> &str {
        &self.token
    }
}

#[idempotent(
    token = "form.token, user_id",
    operation = "orders.submit",
    ttl = "10m",
    replay = true
)]
async fn submit(user_id: u64, form: Form) -> Result<String, Error> {
    Ok(format!("{user_id}: {}", form.note))
}

#[tokio::test]
async fn a_form_is_submitted_once_and_each_click_gets_the_first_result() {
    let idempotency = handle();
    let form = || async {
        let token = issue(&idempotency, &USER).await;
        (Form::with(&token), Form::with(&token))
    };
    idempotency
        .scope(async {
            let (first, second) = form().await;
            assert_eq!(submit(USER, first).await.unwrap(), "7: soon");
            let again = Form {
                note: "another",
                ..second
            };
            assert_eq!(submit(USER, again).await.unwrap(), "7: soon");
            let (other, _) = form().await;
            let other = Form {
                note: "later",
                ..other
            };
            assert_eq!(submit(USER, other).await.unwrap(), "7: later");
            let (mine, _) = form().await;
            is_refused(submit(8, mine), "token_unknown").await;
            let nothing = Form {
                token: String::new(),
                note: "",
            };
            is_refused(submit(USER, nothing), "token_malformed").await;
        })
        .await;
}

#[idempotent(
    name = "orders.submit",
    key = "order_no",
    token = (form.token(), user_id),
    ttl = "10m"
)]
async fn with_a_key(user_id: u64, order_no: u64, form: &Form) -> Result<&str, Error> {
    Ok(form.note)
}

#[tokio::test]
async fn with_a_key_a_call_also_needs_a_token() {
    let idempotency = handle();
    let (first, second) = (
        issue(&idempotency, &USER).await,
        issue(&idempotency, &USER).await,
    );
    let (first, second) = (Form::with(&first), Form::with(&second));
    idempotency
        .scope(async {
            assert_eq!(with_a_key(USER, 1, &first).await.unwrap(), "soon");
            is_refused(with_a_key(USER, 1, &second), "already_done").await;
            is_refused(with_a_key(USER, 2, &first), "token_used").await;
            assert_eq!(with_a_key(USER, 2, &second).await.unwrap(), "soon");
        })
        .await;
}

#[idempotent(
    name = "orders.submit",
    key = "order_no",
    token = "token, user_id",
    ttl = "10m",
    replay = true
)]
async fn receipt(user_id: u64, order_no: u64, token: &str) -> Result<String, Error> {
    Ok(format!("the receipt of {user_id}"))
}

#[tokio::test]
async fn with_a_key_an_invented_token_does_not_get_a_stored_result() {
    let idempotency = handle();
    let token = issue(&idempotency, &USER).await;
    let invented = "a".repeat(64);
    idempotency
        .scope(async {
            let mine = || receipt(USER, 1, token.as_str());
            assert_eq!(mine().await.unwrap(), "the receipt of 7");
            assert_eq!(mine().await.unwrap(), "the receipt of 7");
            is_refused(receipt(66, 1, &invented), "token_unknown").await;
            is_refused(receipt(66, 1, token.as_str()), "token_unknown").await;
        })
        .await;
}

struct Shop {
    idempotency: Arc<Idempotency>,
    tenant: &'static str,
}

#[async_trait]
trait Takes {
    async fn take(&self, user_id: &str, token: &Token) -> Result<u32, Error>;
}

impl Shop {
    #[idempotent(
        token = (token, self.tenant, user_id),
        operation = "orders.submit",
        ttl = "10m",
        using = self.idempotency
    )]
    async fn submit(&self, user_id: u64, token: &Token) -> Result<(), Error> {
        Ok(())
    }

    #[idempotent(
        token = "token, user",
        operation = "orders.submit",
        ttl = "10m",
        using = self.idempotency
    )]
    async fn generic<T: AsRef<str>, U: Serialize>(&self, token: T, user: U) -> Result<T, Error> {
        Ok(token)
    }

    #[idempotent(
        token = "token, user_id",
        operation = "orders.submit",
        ttl = "10m",
        on_cancel = "finish",
        using = self.idempotency
    )]
    async fn finish(self: Arc<Self>, user_id: u64, token: Token) -> Result<(), Error> {
        tokio::task::yield_now().await;
        Ok(())
    }
}

#[async_trait]
impl Takes for Shop {
    #[idempotent(
        token = "token, user_id",
        operation = "orders.submit",
        ttl = "10m",
        using = self.idempotency
    )]
    async fn take(&self, user_id: &str, token: &Token) -> Result<u32, Error> {
        Ok(1)
    }
}

fn shop() -> Arc<Shop> {
    Arc::new(Shop {
        idempotency: Arc::new(handle()),
        tenant: "a",
    })
}

#[tokio::test]
async fn several_parts_of_a_user_are_a_tuple() {
    let shop = shop();
    let token = issue(&shop.idempotency, &("a", USER)).await;
    shop.submit(USER, &token).await.unwrap();
    is_refused(shop.submit(USER, &token), "already_done").await;
    let alone = issue(&shop.idempotency, &USER).await;
    is_refused(shop.submit(USER, &alone), "token_unknown").await;
}

#[tokio::test]
async fn each_form_of_function_may_have_a_token() {
    let shop = shop();
    let token = issue(&shop.idempotency, "a user").await;
    assert_eq!(shop.take("a user", &token).await.unwrap(), 1);
    is_refused(shop.take("a user", &token), "already_done").await;

    let token = issue(&shop.idempotency, &USER).await;
    let text = token.as_str();
    assert_eq!(shop.generic(text, USER).await.unwrap(), text);
    is_refused(shop.generic(token.clone(), USER), "already_done").await;

    let token = issue(&shop.idempotency, &USER).await;
    let finished = Arc::clone(&shop).finish(USER, token.clone());
    finished.await.unwrap();
    is_refused(Arc::clone(&shop).finish(USER, token), "already_done").await;
}

mod renamed {
    pub(crate) use idempotence as once;
}

#[idempotent(
    token = (token, ()),
    name = "orders.submit",
    ttl = "10m",
    crate = renamed::once
)]
async fn for_anybody(token: &str) -> Result<(), Error> {
    Ok(())
}

#[tokio::test]
async fn a_token_without_a_user_is_redeemed_by_any_caller() {
    let idempotency = handle();
    let token = issue(&idempotency, &()).await;
    idempotency
        .scope(async {
            for_anybody(token.as_str()).await.unwrap();
            is_refused(for_anybody(token.as_str()), "already_done").await;
        })
        .await;
}

#[idempotent(
    token = "token, user_id",
    operation = "orders.submit",
    ttl = "10m",
    give_back = true,
    success = |outcome| matches!(outcome, Ok(true))
)]
async fn checked(user_id: u64, token: &Token, valid: bool) -> Result<bool, Error> {
    Ok(valid)
}

#[derive(Debug)]
struct Invalid;

impl From<Error> for Invalid {
    fn from(error: Error) -> Self {
        panic!("{error}")
    }
}

#[idempotent(token = "token, user_id", operation = "orders.submit", ttl = "10m")]
async fn burnt(user_id: u64, token: &Token) -> Result<(), Invalid> {
    Err(Invalid)
}

#[tokio::test]
async fn with_give_back_a_failed_call_leaves_its_token_redeemable() {
    let idempotency = handle();
    let (first, second) = (
        issue(&idempotency, &USER).await,
        issue(&idempotency, &USER).await,
    );
    idempotency
        .scope(async {
            assert!(!checked(USER, &first, false).await.unwrap());
            assert!(checked(USER, &first, true).await.unwrap());
            is_refused(checked(USER, &first, true), "already_done").await;
            burnt(USER, &second).await.unwrap_err();
        })
        .await;
    let tokens = idempotency.tokens();
    let used = tokens.redeem(second.as_str(), &USER, OPERATION);
    is_refused(used, "token_used").await;
}
