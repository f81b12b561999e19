//! Sends requests to one member after the other.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt as _, WeakShared};
use futures_util::stream::{self, StreamExt as _};
use http::uri::PathAndQuery;
use idempotent_runtime::store::StoreErrorKind;
use tokio::runtime::Handle;
use tonic::client::Grpc;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint, Error};
use tonic::{Request, Status, Streaming};
use tonic_prost::ProstCodec;

use crate::failure::{is_auth_off, is_stale_token, judge};
use crate::url::Tls;
use crate::wire::{Authenticate, Method};

use StoreErrorKind::{NotApplied, Unknown};

/// The members of a cluster. Requests go to one member until it fails or does not answer; then they go to the next.
pub(crate) struct Client {
    /// Runs the tasks of the store.
    pub(crate) runtime: Handle,
    pub(crate) members: Vec<Member>,
    current: AtomicUsize,
    login: Option<Authenticate>,
    pub(crate) is_encrypted: bool,
    has_certificate: bool,
    token: Arc<Mutex<Option<Token>>>,
}

/// The token of the user, after its login.
type Token = MetadataValue<Ascii>;

/// A login. `None`: the cluster has no users.
type Login = BoxFuture<'static, Result<Option<Token>, Status>>;

/// A member, by its address.
#[derive(Clone)]
pub(crate) struct Member {
    pub(crate) address: String,
    channel: Channel,
    /// The last login at this member.
    login: Arc<Mutex<Option<WeakShared<Login>>>>,
}

/// A server closes a connection with more pings than one in five seconds.
const PING: Duration = Duration::from_secs(10);
const PONG: Duration = Duration::from_secs(5);
const CONNECT: Duration = Duration::from_secs(2);

impl Client {
    /// Does not connect before the first request.
    ///
    /// # Panics
    ///
    /// Outside of a runtime of tokio.
    pub(crate) fn new(
        addresses: &[String],
        login: Option<Authenticate>,
        tls: Option<&Tls>,
    ) -> Result<Self, Error> {
        let members = addresses.iter().map(|address| {
            let scheme = if tls.is_some() { "https" } else { "http" };
            let mut endpoint = Endpoint::from_shared(format!("{scheme}://{address}"))?
                .connect_timeout(CONNECT)
                .http2_keep_alive_interval(PING)
                .keep_alive_timeout(PONG)
                .tcp_nodelay(true);
            if let Some(tls) = tls {
                endpoint = endpoint.tls_config(tls.config.clone())?;
            }
            Ok(Member {
                address: address.clone(),
                channel: endpoint.connect_lazy(),
                login: Arc::default(),
            })
        });
        let members = members.collect::<Result<Vec<_>, Error>>()?;
        // Processes begin with different members.
        let random = RandomState::new().hash_one(0) % members.len() as u64;
        Ok(Self {
            runtime: Handle::current(),
            members,
            current: AtomicUsize::new(usize::try_from(random).unwrap_or_default()),
            login,
            is_encrypted: tls.is_some(),
            has_certificate: tls.is_some_and(|tls| tls.has_certificate),
            token: Arc::default(),
        })
    }

    /// Sends a request until a member answers, once to each member at most. A request whose outcome is unknown is not sent again.
    pub(crate) async fn call<M: Method>(&self, request: M) -> Result<M::Reply, Status> {
        let mut attempts = self.attempts();
        loop {
            if let Some(answer) = attempts.send(request.clone()).await {
                return answer;
            }
        }
    }

    /// For a request that may change before it is sent again.
    pub(crate) fn attempts(&self) -> Attempts<'_> {
        Attempts {
            client: self,
            renews: self.login.is_some(),
            left: self.members.len(),
        }
    }

    /// Opens a stream of replies to one request.
    pub(crate) async fn stream<M: Method>(
        &self,
        request: M,
    ) -> Result<Streaming<M::Reply>, Status> {
        let attempt = self.attempt();
        let member = attempt.member();
        // The stream of requests never ends, or the server would end the stream of replies.
        let requests = stream::iter([request]).chain(stream::pending());
        let requests = self.request(member, requests).await?;
        let used = requests.metadata().get("token").cloned();
        let path = PathAndQuery::from_static(M::PATH);
        let mut grpc = ready(member).await?;
        let replies = grpc.streaming(requests, path, ProstCodec::default()).await;
        let replies = replies.inspect_err(|status| self.forget_stale(used.as_ref(), status))?;
        attempt.answered();
        Ok(replies.into_inner())
    }

    /// Sends a request to this member.
    pub(crate) async fn ask<M: Method>(
        &self,
        member: &Member,
        request: M,
    ) -> Result<M::Reply, Status> {
        let request = self.request(member, request).await?;
        let used = request.metadata().get("token").cloned();
        let answer = unary::<M>(member, request).await;
        answer.inspect_err(|status| self.forget_stale(used.as_ref(), status))
    }

    /// Whether requests have no user. A certificate may name one.
    pub(crate) fn has_no_user(&self) -> bool {
        lock(&self.token).is_none() && !self.has_certificate
    }

    /// The addresses of the members.
    pub(crate) fn addresses(&self) -> String {
        let addresses = self.members.iter().map(|member| member.address.as_str());
        addresses.collect::<Vec<_>>().join(",")
    }

    /// A request with the token of the user. A member that has no leader refuses it at once.
    async fn request<T>(&self, member: &Member, message: T) -> Result<Request<T>, Status> {
        let mut request = Request::new(message);
        let metadata = request.metadata_mut();
        metadata.insert("hasleader", MetadataValue::from_static("true"));
        if let Some(token) = self.token(member).await? {
            metadata.insert("token", token);
        }
        Ok(request)
    }

    /// The token of the user. Calls that need it share a login at a member, because a login takes long by design.
    async fn token(&self, member: &Member) -> Result<Option<Token>, Status> {
        let Some(user) = &self.login else {
            return Ok(None);
        };
        let known = lock(&self.token).clone();
        if known.is_some() {
            return Ok(known);
        }
        let login = {
            let mut last = lock(&member.login);
            let running = last.as_ref().and_then(WeakShared::upgrade);
            let running = running.filter(|login| login.peek().is_none());
            running.unwrap_or_else(|| {
                let token = Arc::clone(&self.token);
                let login = log_in(member.clone(), user.clone(), token).boxed().shared();
                *last = login.downgrade();
                // In a task: the caller may give up, and later calls need the token.
                self.runtime.spawn(login.clone());
                login
            })
        };
        login.await
    }

    /// After a request with the token `used`: forgets it if it was refused, but no newer one.
    fn forget_stale(&self, used: Option<&Token>, status: &Status) {
        if is_stale_token(status) {
            lock(&self.token).take_if(|known| Some(&*known) == used);
        }
    }

    fn attempt(&self) -> Attempt<'_> {
        let current = self.current.load(Ordering::Relaxed);
        Attempt {
            client: self,
            current,
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn log_in(
    member: Member,
    user: Authenticate,
    token: Arc<Mutex<Option<Token>>>,
) -> Result<Option<Token>, Status> {
    let granted = match unary::<Authenticate>(&member, Request::new(user)).await {
        Err(status) if is_auth_off(&status) => return Ok(None),
        granted => MetadataValue::try_from(granted?.token),
    };
    let granted = granted.map_err(|_| Status::unauthenticated("the token is not text"))?;
    *lock(&token) = Some(granted.clone());
    Ok(Some(granted))
}

async fn unary<M: Method>(member: &Member, request: Request<M>) -> Result<M::Reply, Status> {
    let path = PathAndQuery::from_static(M::PATH);
    let mut grpc = ready(member).await?;
    let codec = ProstCodec::<M, M::Reply>::default();
    let reply = grpc.unary(request, path, codec).await?;
    Ok(reply.into_inner())
}

async fn ready(member: &Member) -> Result<Grpc<Channel>, Status> {
    let grpc = Grpc::new(member.channel.clone());
    // A page of a listing is long.
    let mut grpc = grpc.max_decoding_message_size(usize::MAX);
    let ready = grpc.ready().await;
    ready.map_err(|error| Status::from_error(Box::new(error)))?;
    Ok(grpc)
}

/// How often a request may still be sent.
pub(crate) struct Attempts<'a> {
    client: &'a Client,
    /// Whether it is sent once more with a new token.
    renews: bool,
    /// To how many members.
    left: usize,
}

impl Attempts<'_> {
    /// Sends a request to one member. `None`: it was not applied, and is to be sent again.
    pub(crate) async fn send<M: Method>(&mut self, request: M) -> Option<Result<M::Reply, Status>> {
        let attempt = self.client.attempt();
        let answer = self.client.ask(attempt.member(), request).await;
        match answer.as_ref().map_err(|status| judge(status).0) {
            Err(NotApplied) if self.left > 1 => {
                self.left -= 1;
                return None;
            }
            Err(NotApplied | Unknown) => {}
            _ => attempt.answered(),
        }
        if self.renews && answer.as_ref().is_err_and(is_stale_token) {
            self.renews = false;
            return None;
        }
        Some(answer)
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

    /// The member has answered.
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
    use futures_util::future::join_all;
    use tokio::task::yield_now;
    use tokio::time::timeout;

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
        *lock(&client.token) = Some(MetadataValue::from_static("old"));
        let member = async {
            let (_, first) = requests.next::<Range>().await;
            let (_, second) = requests.next::<Range>().await;
            first.refuse("etcdserver: revision of auth store is old");
            answer_login(&mut requests).await;
            answer_range(&mut requests).await;
            second.refuse("etcdserver: revision of auth store is old");
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
            while lock(&client.token).is_none() {
                yield_now().await;
            }
        };
        timeout(Duration::from_mins(1), is_known)
            .await
            .expect("a token");

        // Without another login.
        tokio::join!(call(&client, 1), answer_range(&mut requests));
    }
}
