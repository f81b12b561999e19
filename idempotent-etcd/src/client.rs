//! Sends requests to one member after the other.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use idempotent_runtime::store::StoreErrorKind::{NotApplied, Unknown};
use tokio::runtime::Handle;
use tokio::time::timeout;
use tonic::metadata::MetadataValue;
use tonic::transport::Error;
use tonic::{Request, Status, Streaming};

use crate::failure::{is_lease_gone, is_stale_token, is_unsent, judge};
use crate::login::{Login, Token};
use crate::member::Member;
use crate::url::Tls;
use crate::wire::{Authenticate, Method};

/// The members of a cluster. Requests go to one member until it fails or does not answer; then they go to the next.
pub(crate) struct Client {
    /// Runs the tasks of the store.
    pub(crate) runtime: Handle,
    pub(crate) members: Vec<Member>,
    current: AtomicUsize,
    login: Option<Login>,
    pub(crate) is_encrypted: bool,
    has_certificate: bool,
}

/// How long later requests wait for a connection before they go to the next member.
const PATIENCE: Duration = Duration::from_millis(200);

impl Client {
    /// Does not connect before the first request.
    ///
    /// # Panics
    ///
    /// Outside of a runtime of tokio.
    pub(crate) fn new(
        addresses: &[String],
        user: Option<Authenticate>,
        tls: Option<&Tls>,
    ) -> Result<Self, Error> {
        let runtime = Handle::current();
        let config = tls.map(|tls| &tls.config);
        let members = addresses.iter().map(|address| Member::new(address, config));
        let members = members.collect::<Result<Vec<_>, Error>>()?;
        // Processes begin with different members.
        let random = RandomState::new().hash_one(0) % members.len() as u64;
        Ok(Self {
            members,
            current: AtomicUsize::new(usize::try_from(random).unwrap_or_default()),
            login: user.map(|user| Login::new(runtime.clone(), user)),
            is_encrypted: tls.is_some(),
            has_certificate: tls.is_some_and(|tls| tls.has_certificate),
            runtime,
        })
    }

    /// Sends a request until a member answers. A request whose outcome is unknown is not sent again.
    pub(crate) async fn call<M: Method>(&self, request: M) -> Result<M::Reply, Status> {
        for _ in 1..self.tries() {
            match self.send(request.clone()).await {
                Err(status) if is_unsent(&status) => {}
                answer => return answer,
            }
        }
        self.send(request).await
    }

    /// How often a request is sent at most: once to each member, and once more with a new token.
    pub(crate) fn tries(&self) -> usize {
        self.members.len() + usize::from(self.login.is_some())
    }

    /// Sends a request to one member.
    pub(crate) async fn send<M: Method>(&self, request: M) -> Result<M::Reply, Status> {
        let attempt = self.attempt();
        let answer = self.ask(attempt.member(), request).await;
        attempt.end(answer)
    }

    /// Opens a stream of replies to one request.
    pub(crate) async fn stream<M: Method>(
        &self,
        request: M,
    ) -> Result<Streaming<M::Reply>, Status> {
        let attempt = self.attempt();
        let (request, token) = self.request(attempt.member(), request).await?;
        let replies = attempt.member().stream(request).await;
        attempt.end(self.checked(token.as_ref(), replies))
    }

    /// Waits for a login and a connection, or until a member has refused them.
    pub(crate) async fn ready(&self) {
        let attempt = self.attempt();
        let has_token = self.token(attempt.member()).await.is_ok();
        let connected = timeout(PATIENCE, attempt.member().ready()).await;
        if has_token && matches!(connected, Ok(Ok(_))) {
            attempt.answered();
        }
    }

    /// Sends a request to this member.
    pub(crate) async fn ask<M: Method>(
        &self,
        member: &Member,
        request: M,
    ) -> Result<M::Reply, Status> {
        let (request, token) = self.request(member, request).await?;
        self.checked(token.as_ref(), member.unary(request).await)
    }

    /// Whether requests have no user. A certificate may name one.
    pub(crate) fn has_no_user(&self) -> bool {
        !self.has_certificate && !self.login.as_ref().is_some_and(Login::has_token)
    }

    /// The addresses of the members.
    pub(crate) fn addresses(&self) -> String {
        let addresses = self.members.iter().map(|member| member.address.as_str());
        addresses.collect::<Vec<_>>().join(",")
    }

    /// A request with the token of the user. A member that has no leader refuses it at once.
    async fn request<T>(
        &self,
        member: &Member,
        message: T,
    ) -> Result<(Request<T>, Option<Token>), Status> {
        let token = self.token(member).await?;
        let mut request = Request::new(message);
        let metadata = request.metadata_mut();
        metadata.insert("hasleader", MetadataValue::from_static("true"));
        if let Some(token) = &token {
            metadata.insert("token", token.clone());
        }
        Ok((request, token))
    }

    async fn token(&self, member: &Member) -> Result<Option<Token>, Status> {
        match &self.login {
            Some(login) => login.token(member).await,
            None => Ok(None),
        }
    }

    /// The answer to a request with this token.
    fn checked<T>(&self, token: Option<&Token>, answer: Result<T, Status>) -> Result<T, Status> {
        if let (Some(login), Err(status)) = (&self.login, &answer)
            && is_stale_token(status)
        {
            login.forget(token);
        }
        answer
    }

    fn attempt(&self) -> Attempt<'_> {
        let current = self.current.load(Ordering::Relaxed);
        Attempt {
            client: self,
            current,
        }
    }
}

/// A request to the current member. If it fails, or its future is dropped, later requests go to the next member.
struct Attempt<'a> {
    client: &'a Client,
    current: usize,
}

impl<'a> Attempt<'a> {
    fn member(&self) -> &'a Member {
        let members = &self.client.members;
        &members[self.current % members.len()]
    }

    /// The answer. A member that has refused a request has answered it.
    fn end<T>(self, answer: Result<T, Status>) -> Result<T, Status> {
        let has_answered = answer.as_ref().err().is_none_or(|status| {
            is_lease_gone(status) || !matches!(judge(status).0, NotApplied | Unknown)
        });
        if has_answered {
            self.answered();
        }
        answer
    }

    fn answered(self) {
        std::mem::forget(self);
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        // Of many requests that fail at once only one moves on.
        let (from, to) = (self.current, self.current.wrapping_add(1));
        let current = &self.client.current;
        let _ = current.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use futures_util::future::join_all;
    use tokio::task::yield_now;
    use tonic::Code;

    use super::*;
    use crate::scripted::{self, Requests};
    use crate::wire::{AuthenticateReply, Range, RangeReply};

    async fn with_user() -> (Client, Requests) {
        let login = Authenticate {
            name: "user".to_owned(),
            password: "password".to_owned(),
        };
        scripted::client(Some(login)).await
    }

    async fn answer_login(requests: &mut Requests) {
        let (_, reply) = requests.next::<Authenticate>().await;
        let token = "token".to_owned();
        reply.answer(&AuthenticateReply { token });
    }

    async fn answer_range(requests: &mut Requests) {
        let (_, reply) = requests.next::<Range>().await;
        reply.answer(&RangeReply::default());
    }

    /// Sends so many calls at once, which must succeed.
    async fn call(client: &Client, calls: usize) {
        let calls = (0..calls).map(|_| client.call(Range::count(b"key")));
        for answer in join_all(calls).await {
            answer.expect("an answer");
        }
    }

    #[tokio::test]
    async fn calls_that_need_a_token_share_a_login() {
        let (client, mut requests) = with_user().await;
        let member = async {
            answer_login(&mut requests).await;
            for _ in 0..3 {
                answer_range(&mut requests).await;
            }
        };
        tokio::join!(call(&client, 3), member);
    }

    #[tokio::test]
    async fn a_refused_token_is_replaced_once() {
        let (client, mut requests) = with_user().await;
        let member = async {
            let (_, reply) = requests.next::<Authenticate>().await;
            let token = "old".to_owned();
            reply.answer(&AuthenticateReply { token });
            let (_, first) = requests.next::<Range>().await;
            let (_, second) = requests.next::<Range>().await;
            first.refuse(
                Code::InvalidArgument,
                "etcdserver: revision of auth store is old",
            );
            answer_login(&mut requests).await;
            answer_range(&mut requests).await;
            second.refuse(
                Code::InvalidArgument,
                "etcdserver: revision of auth store is old",
            );
            answer_range(&mut requests).await;
        };
        tokio::join!(call(&client, 2), member);
    }

    #[tokio::test]
    async fn a_login_goes_on_when_its_caller_gives_up() {
        let (client, mut requests) = with_user().await;
        let mut given_up = Box::pin(client.call(Range::count(b"key")));
        assert!((&mut given_up).now_or_never().is_none());
        let (_, reply) = requests.next::<Authenticate>().await;
        drop(given_up);
        let token = "token".to_owned();
        reply.answer(&AuthenticateReply { token });
        let is_known = async {
            while client.has_no_user() {
                yield_now().await;
            }
        };
        let known = timeout(Duration::from_mins(1), is_known).await;
        known.expect("a token");

        // Without another login.
        tokio::join!(call(&client, 1), answer_range(&mut requests));
    }

    #[tokio::test]
    async fn a_login_without_an_answer_goes_to_the_next_member() {
        let (client, mut requests) = with_user().await;
        let member = async {
            let (_, _unanswered) = requests.next::<Authenticate>().await;
            answer_login(&mut requests).await;
            answer_range(&mut requests).await;
        };
        tokio::join!(call(&client, 1), member);
    }
}
