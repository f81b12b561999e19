//! Builds a layer.

mod chosen;
mod grpc;
mod options;

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, Weak};

use ::http::header::{HeaderName, HeaderValue};
use ::http::{Method, Response, request};
use bytes::Bytes;
use idempotent_runtime::port::http::watch;
use idempotent_runtime::{Idempotency, KeyPart};

use self::chosen::Chosen;
use crate::layer::IdempotencyLayer;
use crate::layer::configured::ConfiguredRoutes;
use crate::layer::options::RouteOptions;
use crate::profile::Profile;
use crate::rejection::Rejection;
use crate::request::key::source::KeySource;
use crate::request::key::text::KeySyntax;
use crate::request::route::Named;
use crate::request::scope::Scope;

/// Builds an [`IdempotencyLayer`].
///
/// The type parameter records whether the layer has a scope: [`build`](Self::build) needs one.
pub struct LayerBuilder<S = NoScope> {
    idempotency: Idempotency,
    scope: S,
    chosen: Chosen,
}

/// The layer has no scope yet.
#[derive(Debug, Clone, Copy)]
pub struct NoScope;

/// A scope of keys. [`LayerBuilder::build`] needs it.
#[diagnostic::on_unimplemented(
    message = "the layer has no scope, so a key of one user would return the response of another user",
    label = "`build` needs a scope",
    note = "write whose key it is, as in `.scope_by_header(AUTHORIZATION)`, `.scope_by_extension::<User, _>(|user| user.id)` or `.scope_by(…)`",
    note = "if all callers may see each other's responses, write `.global_scope()`"
)]
pub trait HasScope {
    /// The scope.
    fn into_scope(self) -> Scope;
}

#[diagnostic::do_not_recommend]
impl HasScope for Scope {
    fn into_scope(self) -> Scope {
        self
    }
}

impl IdempotencyLayer {
    /// Starts a layer whose calls run on this handle.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use http::header::AUTHORIZATION;
    /// use idempotence::http::{IdempotencyLayer, Payload};
    /// use idempotence::{Idempotency, MemoryStore};
    ///
    /// let idempotency = Idempotency::new(MemoryStore::new());
    /// let layer = IdempotencyLayer::builder(&idempotency)
    ///     .scope_by_header(AUTHORIZATION)
    ///     .payload(Payload::json())
    ///     .wait(Duration::from_secs(5))
    ///     .for_route("/payments", |payments| payments.require_key())
    ///     .build();
    /// ```
    pub fn builder(idempotency: &Idempotency) -> LayerBuilder {
        LayerBuilder {
            idempotency: idempotency.clone(),
            scope: NoScope,
            chosen: Chosen::default(),
        }
    }
}

impl<S> LayerBuilder<S> {
    /// Separates the keys of callers by the value of this header. A request with a key, but without the header, is refused with
    /// 400: see [`challenge`](Self::challenge) for 401.
    ///
    /// If a client gets a new access token between two attempts, it is another caller. So prefer
    /// [`scope_by_extension`](Self::scope_by_extension) with the id of the user, if a layer outside of this layer authenticates.
    pub fn scope_by_header(self, name: HeaderName) -> LayerBuilder<Scope> {
        self.scoped(Scope::header(name))
    }

    /// Separates the keys of callers by a part of the request's extension `T`, such as the id of the user that an outer layer
    /// has authenticated. A request with a key, but without the extension, is refused with 400: see
    /// [`challenge`](Self::challenge) for 401. So is a request whose part is `None`, `()`, an empty or blank text, or an empty
    /// list, or has such a part at any depth: all anonymous callers would share it.
    pub fn scope_by_extension<T, P>(
        self,
        part: impl Fn(&T) -> P + Send + Sync + 'static,
    ) -> LayerBuilder<Scope>
    where
        T: Any + Send + Sync,
        P: KeyPart,
    {
        self.scoped(Scope::extension(part))
    }

    /// Separates the keys of callers by what this closure finds in the head of the request. A request with a key, for which it
    /// returns `None` or a missing part as in [`scope_by_extension`](Self::scope_by_extension), is refused with 400: see
    /// [`challenge`](Self::challenge) for 401.
    ///
    /// The host is not part of a key. If one service has several hosts:
    ///
    /// ```
    /// # use idempotence::{Idempotency, MemoryStore};
    /// # #[derive(Clone)] struct User { id: u64 }
    /// # let idempotency = Idempotency::new(MemoryStore::new());
    /// use http::{header::HOST, request::Parts};
    /// use idempotence::http::IdempotencyLayer;
    ///
    /// fn host(head: &Parts) -> String {
    ///     let named = head.headers.get(HOST).and_then(|host| host.to_str().ok());
    ///     let named = named.or_else(|| Some(head.uri.authority()?.as_str())); // HTTP/2
    ///     named.unwrap_or_default().to_ascii_lowercase()
    /// }
    ///
    /// fn user(head: &Parts) -> Option<u64> {
    ///     Some(head.extensions.get::<User>()?.id) // of an outer layer
    /// }
    ///
    /// let layer = IdempotencyLayer::builder(&idempotency)
    ///     .scope_by(|head| Some((host(head), user(head)?)))
    ///     .build();
    /// ```
    pub fn scope_by<P: KeyPart>(
        self,
        part: impl Fn(&request::Parts) -> Option<P> + Send + Sync + 'static,
    ) -> LayerBuilder<Scope> {
        self.scoped(Scope::by(part))
    }

    /// All callers share their keys: a caller who knows or guesses the key and the payload of another caller gets the response
    /// of the other caller. Only for services with one caller.
    pub fn global_scope(self) -> LayerBuilder<Scope> {
        self.scoped(Scope::global())
    }

    /// The layer.
    ///
    /// # Panics
    ///
    /// If [`for_route`](Self::for_route) has a name that does not begin with `/`, and it is not the name of
    /// [`route`](Self::route): no request has such a route.
    pub fn build(self) -> IdempotencyLayer
    where
        S: HasScope,
    {
        for name in self.chosen.routes.keys() {
            let is_route = name.starts_with('/') || self.chosen.is_named(name);
            assert!(
                is_route,
                "`for_route(\"{name}\", …)` names no route: a route begins with `/`"
            );
        }
        let scope = self.scope.into_scope();
        let config = self.chosen.complete(self.idempotency, scope);
        let watched: Weak<ConfiguredRoutes> = Arc::downgrade(&config.seen_routes);
        watch(&config.idempotency, watched);
        IdempotencyLayer::new(config)
    }

    fn scoped(self, scope: Scope) -> LayerBuilder<Scope> {
        LayerBuilder {
            idempotency: self.idempotency,
            scope,
            chosen: self.chosen,
        }
    }

    /// Sets the convention of the API. Default: [`Profile::Ietf`]. The other options replace single rows of its table, in any order.
    #[must_use]
    pub fn profile(mut self, profile: Profile) -> Self {
        self.chosen.profile = profile;
        self
    }

    /// Sets the methods of guarded requests. Default: POST and PATCH, or what the profile says. The header of a request with another method is ignored.
    ///
    /// GET, HEAD, OPTIONS and TRACE are never guarded, because they change nothing (RFC 9110, section 9.2.1).
    #[must_use]
    pub fn methods(mut self, methods: impl IntoIterator<Item = Method>) -> Self {
        let unsafe_methods = methods.into_iter().filter(|method| !method.is_safe());
        self.chosen.methods = Some(unsafe_methods.collect());
        self
    }

    /// Sets where the key is. Default: the header `Idempotency-Key`, or what the profile says. The log warns of the first request to
    /// each route that has no key there, and says why.
    #[must_use]
    pub fn key_from(mut self, source: KeySource) -> Self {
        self.chosen.key = Some(source);
        self
    }

    /// Sets which values of the header are keys. Default: [`KeySyntax::Lenient`], or what the profile says.
    #[must_use]
    pub fn key_syntax(mut self, syntax: KeySyntax) -> Self {
        self.chosen.syntax = Some(syntax);
        self
    }

    /// Sets the header that marks a replayed response. Default: `Idempotency-Replayed`, or what the profile says. Its value is `true`.
    /// The layer removes this header from the first response, also if an [`Once`](idempotent_runtime::Once) has set it: a handler may have
    /// forwarded the response of another server.
    ///
    /// With `None` nothing marks a replay, for example for a service whose tests compare all headers. The extension
    /// [`IdempotencyOutcome`](crate::IdempotencyOutcome) of the response still says what it is.
    #[must_use]
    pub fn replay_header(mut self, name: impl Into<Option<HeaderName>>) -> Self {
        self.chosen.marker = name.into();
        self.chosen.is_unmarked = self.chosen.marker.is_none();
        self
    }

    /// Sets the page that describes idempotent requests to the programmers of clients. Every refusal names it in the header
    /// `Link: <…>; rel="describedby"`, and with [`Profile::Stripe`] in the member `doc_url`.
    ///
    /// # Panics
    ///
    /// If the URL has `<`, `>`, or other characters than visible ASCII.
    #[must_use]
    pub fn docs_url(mut self, url: &str) -> Self {
        let is_valid = url.bytes().all(|byte| byte.is_ascii_graphic()) && !url.contains(['<', '>']);
        assert!(
            is_valid,
            "the URL of the docs has only visible ASCII characters, without `<` and `>`"
        );
        self.chosen.docs = Some(url.into());
        self
    }

    /// Sets the challenge of your authentication, such as `Bearer realm="shop"`. A request without its scope is then refused with
    /// 401, with this challenge in the header `WWW-Authenticate`, which each 401 needs (RFC 9110, section 15.5.2). Default: it is
    /// refused with 400. If the scope is another header than `Authorization`, it is always 400.
    #[must_use]
    pub fn challenge(mut self, challenge: HeaderValue) -> Self {
        self.chosen.challenge = Some(challenge);
        self
    }

    /// Replaces the response to a request whose handler does not run. The closure gets the reason and the default response, which is a page
    /// of HTML for a browser that sends a form: set `Content-Type` if you replace the body. The closure is also asked about an
    /// [`Error`](idempotent_runtime::Error) of this crate that the handler returns as its response.
    ///
    /// ```
    /// # use idempotence::http::IdempotencyLayer;
    /// # use idempotence::{Idempotency, MemoryStore};
    /// # let idempotency = Idempotency::new(MemoryStore::new());
    /// let layer = IdempotencyLayer::builder(&idempotency)
    ///     .global_scope()
    ///     .on_reject(|rejection, response| {
    ///         let body = format!("{{\"error\":\"{}\"}}", rejection.code());
    ///         response.map(|_| body.into())
    ///     })
    ///     .build();
    /// ```
    #[must_use]
    pub fn on_reject(
        mut self,
        answer: impl Fn(&Rejection, Response<Bytes>) -> Response<Bytes> + Send + Sync + 'static,
    ) -> Self {
        self.chosen.on_reject = Some(Box::new(answer));
        self
    }

    /// Names the requests for which no router has matched a route, such as all requests of a service without axum or actix. A name that begins
    /// with `/` is a route. Another name, such as `orders.pay`, is an endpoint. Default: such a request is refused with 500, if it
    /// has a key. Its path cannot be the name, because the number of paths has no limit.
    ///
    /// Without the feature `axum` the payload has the path that this layer sees. A router that shortens the path, such as
    /// `Router::nest`, must be inside of this layer.
    ///
    /// # Panics
    ///
    /// If the route has blanks or control characters, or the name has other characters than `A-Z a-z 0-9 . _ -`.
    #[must_use]
    pub fn route(mut self, route: impl Into<Cow<'static, str>>) -> Self {
        match Named::new(route) {
            Ok(named) => self.chosen.route = Some(named),
            Err(name) => panic!("{name}"),
        }
        self
    }

    /// Sets the options of one route, by the whole path that the router matches: `/orders/{id}/pay`, or `/shop/orders/{id}/pay`
    /// inside of `Router::nest("/shop", …)`. They begin with the options that the builder has now.
    ///
    /// No router lists its routes. So a misspelled route is no error: its requests get the options of the layer. The log has a
    /// warning when a request has a similar route, [`unmatched_routes`](IdempotencyLayer::unmatched_routes) lists the routes
    /// without a request, for example at the end of a test, and so does [`doctor`](idempotent_runtime::Idempotency::doctor). A mistake does no
    /// harm if the layer has the strict options and its routes relax them: `.require_key().for_route("/notes", |notes|
    /// notes.optional_key())`.
    ///
    /// # Panics
    ///
    /// If the route has blanks or control characters, such as `POST /orders`, or a name without `/` has other characters than
    /// `A-Z a-z 0-9 . _ -`.
    #[must_use]
    pub fn for_route(
        mut self,
        route: impl Into<String>,
        options: impl FnOnce(RouteOptions) -> RouteOptions,
    ) -> Self {
        let route = route.into();
        if let Err(name) = Named::new(route.clone()) {
            panic!("{name}");
        }
        let options = options(RouteOptions::clone(&self.chosen.options));
        self.chosen.routes.insert(route, Arc::new(options));
        self
    }
}

impl<S> fmt::Debug for LayerBuilder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LayerBuilder")
            .field("profile", &self.chosen.profile)
            .field("options", &self.chosen.options)
            .finish_non_exhaustive()
    }
}
