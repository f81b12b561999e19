//! The options of a layer.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use ::http::{Method, Response, request};
use bytes::Bytes;
use http_body::Body;
use idempotent_runtime::port::http::{
    Call, Endpoint, Site, Subject, emit_refusal, invalid_key, invalid_name, lang, ttl_in_force,
};
use idempotent_runtime::{Idempotency, Lang};

use crate::body::ReplayBody;
use crate::catalog;
use crate::layer::answer::Marks;
use crate::layer::configured::ConfiguredRoutes;
use crate::layer::first_sent;
use crate::layer::options::RouteOptions;
use crate::page;
use crate::profile::stamp::Stamp;
use crate::profile::table::Table;
use crate::rejection::Rejection;
use crate::request::content_type;
use crate::request::incoming;
use crate::request::key::source::KeySource;
use crate::request::key::text::KeySyntax;
use crate::request::route::{self, Named, NoRoute};
use crate::request::scope::{FindScope, Scope};
use crate::request::unkeyed::Unkeyed;

/// The options of a layer.
pub(crate) struct Config {
    pub(crate) idempotency: Idempotency,
    pub(crate) scope: Scope,
    /// The convention.
    pub(crate) table: &'static Table,
    pub(crate) methods: Vec<Method>,
    pub(crate) key: KeySource,
    pub(crate) syntax: KeySyntax,
    /// Requests without a key, if the program has named where the key is.
    pub(crate) unkeyed: Option<Unkeyed>,
    /// The header of a replay.
    pub(crate) marker: Option<HeaderName>,
    /// The page about idempotent requests.
    pub(crate) docs: Option<Box<str>>,
    /// The header `WWW-Authenticate` of a refusal with 401.
    pub(crate) challenge: Option<HeaderValue>,
    pub(crate) on_reject: Option<OnReject>,
    /// The options of routes that have none.
    pub(crate) options: Arc<RouteOptions>,
    pub(crate) routes: HashMap<String, Arc<RouteOptions>>,
    /// The unary methods of gRPC, as paths. Each is also in `routes`.
    pub(crate) unary: HashSet<String>,
    /// Whether a route has the option `unguarded`.
    pub(crate) has_unguarded: bool,
    /// Which of `routes` have had requests.
    pub(crate) seen_routes: Arc<ConfiguredRoutes>,
    /// The route of requests for which axum has matched none.
    pub(crate) route: Option<Named>,
}

/// The option `on_reject`.
pub(crate) type OnReject =
    Box<dyn Fn(&Rejection, Response<Bytes>) -> Response<Bytes> + Send + Sync>;

/// The form in which a client gets a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RefusalForm {
    /// As the convention says.
    Convention,
    /// A page of HTML, in the language of the request.
    Page(Lang),
    /// A status of gRPC.
    Grpc,
}

/// What the layer does with a request, by its head.
pub(crate) enum Guarding {
    /// It passes unread.
    No,
    /// It may be guarded.
    Maybe,
    /// It has a key, but nothing guards it, and the convention refuses such requests.
    Unsupported,
}

impl Config {
    pub(crate) fn guarding(&self, head: &request::Parts) -> Guarding {
        if self.may_guard(head) {
            return Guarding::Maybe;
        }
        let is_unsupported = self.table.refuses_unguarded
            && !head.method.is_safe()
            // Only the body would tell whether there is a key in it.
            && self.key.is_in_head(head)
            && !content_type::is_grpc(head.headers.get(header::CONTENT_TYPE));
        if is_unsupported {
            return Guarding::Unsupported;
        }
        let is_guarded = || self.options_for(head).is_guarded;
        if self.unkeyed.is_some() && self.methods.contains(&head.method) && is_guarded() {
            self.note_unkeyed(head, &[]);
        }
        Guarding::No
    }

    /// Notes that a request that would be guarded has no key.
    fn note_unkeyed(&self, head: &request::Parts, body: &[u8]) {
        // A call of gRPC passes with a key, too, unless its method is named.
        let is_grpc = || content_type::is_grpc(head.headers.get(header::CONTENT_TYPE));
        let Some(unkeyed) = &self.unkeyed else {
            return;
        };
        // No route is a path that does not exist, unless the program has no router.
        if let Some(route) = self.route(head).filter(|_| !is_grpc()) {
            unkeyed.note(route, || self.key.absence(head, body));
        }
    }

    /// Whether the layer may guard this request.
    fn may_guard(&self, head: &request::Parts) -> bool {
        // Nothing in a request of gRPC says whether it is a stream, so only the named methods are guarded. But a client must not
        // get past a required key by a type of content.
        let content_type = || head.headers.get(header::CONTENT_TYPE);
        let may_have_key = || {
            (self.key.may_be_in(head) || self.has_first_sent(&head.headers))
                && (!content_type::is_grpc(content_type()) || self.unary_method(head).is_some())
        };
        let needs_key = || self.options_for(head).requires_key();
        let is_guarded = || !self.has_unguarded || self.options_for(head).is_guarded;
        self.methods.contains(&head.method) && is_guarded() && (may_have_key() || needs_key())
    }

    /// The headers that the layer adds to an answer.
    pub(crate) fn marks(&self) -> Marks<'_> {
        Marks {
            replay: self.marker.as_ref(),
            retry: self.table.retry.as_ref(),
        }
    }

    /// What the convention adds to the response to this request.
    pub(crate) fn stamp(&self, head: &request::Parts) -> Stamp {
        let table = self.table;
        let key = || {
            let mut names = self.key.header_names();
            names.find_map(|name| Some((name.clone(), head.headers.get(name)?.clone())))
        };
        Stamp {
            key: table.echoes_key.then(key).flatten(),
            result: table.result.clone(),
        }
    }

    /// The form in which the client of this request gets a refusal.
    pub(crate) fn refusal_form(&self, head: &request::Parts) -> RefusalForm {
        if self.is_grpc(head) {
            RefusalForm::Grpc
        } else if page::is_preferred(&head.headers) {
            RefusalForm::Page(lang::from_headers(&head.headers))
        } else {
            RefusalForm::Convention
        }
    }

    /// Whether the request is a call of gRPC, and the layer knows methods of gRPC.
    fn is_grpc(&self, head: &request::Parts) -> bool {
        !self.unary.is_empty() && content_type::is_grpc(head.headers.get(header::CONTENT_TYPE))
    }

    /// The path of a call of gRPC, which is the name of its method.
    fn grpc_path<'a>(&self, head: &'a request::Parts) -> Option<&'a str> {
        let path = || incoming::original_uri(head).path();
        self.is_grpc(head).then(path)
    }

    /// The unary method of gRPC that the request calls.
    pub(crate) fn unary_method<'a>(&self, head: &'a request::Parts) -> Option<&'a str> {
        let path = self.grpc_path(head);
        path.filter(|path| self.unary.contains(*path))
    }

    fn route<'a>(&'a self, head: &'a request::Parts) -> Option<&'a str> {
        let named = self.route.as_ref().map(|named| match named {
            Named::Route(route) => route,
            Named::Endpoint(endpoint) => endpoint.as_str(),
        });
        let matched = || route::matched_route(head).or(named);
        let is_named = |path: &&str| self.unary.contains(*path) || self.routes.contains_key(*path);
        // Not any path: a client must not get past the options of a route by a type of content.
        self.grpc_path(head).filter(is_named).or_else(matched)
    }

    /// The options of the route of this request.
    pub(crate) fn options_for(&self, head: &request::Parts) -> &Arc<RouteOptions> {
        if self.routes.is_empty() {
            return &self.options;
        }
        let route = self.route(head);
        let own = route.and_then(|route| {
            self.seen_routes.note(route);
            self.routes.get(route)
        });
        own.unwrap_or(&self.options)
    }

    /// The call of a request with this key. Its payload is missing. Boxed, because it is large, and the future of the guard keeps it
    /// while the body arrives.
    pub(crate) fn call(
        &self,
        caller: &dyn FindScope,
        head: &request::Parts,
        options: &RouteOptions,
        key: &str,
    ) -> Result<Box<Call>, Rejection> {
        let endpoint = self.endpoint(head)?;
        self.check_first_sent(head, &endpoint, options)?;
        let call = Call::new(endpoint, options.policy, Some(&self.idempotency));
        let mut call = Box::new(call);
        self.add_key(caller, head, key, &mut call)?;
        Ok(call)
    }

    /// Adds the parts of the key of a request to its call.
    pub(crate) fn add_key(
        &self,
        caller: &dyn FindScope,
        head: &request::Parts,
        key: &str,
        call: &mut Call,
    ) -> Result<(), Rejection> {
        let added = caller.add_scope(&self.scope, head, call);
        added.map_err(|missing| {
            let lang = lang::from_headers(&head.headers);
            Rejection::without_scope(missing, self.challenge.as_ref(), lang)
        })?;
        if self.table.path_in_key {
            call.part(incoming::original_uri(head).path());
        }
        if let Some(client) = self.client(head) {
            call.part(client);
        }
        call.part(key);
        Ok(())
    }

    /// The id of the client, if the convention has ids of clients.
    fn client<'a>(&self, head: &'a request::Parts) -> Option<&'a [u8]> {
        let name = self.table.client.as_ref()?;
        head.headers.get(name).map(HeaderValue::as_bytes)
    }

    /// Refuses a request that was not first sent within the window of its endpoint.
    fn check_first_sent(
        &self,
        head: &request::Parts,
        endpoint: &Endpoint,
        options: &RouteOptions,
    ) -> Result<(), Rejection> {
        let Some(name) = &self.table.first_sent else {
            return Ok(());
        };
        let ttl = ttl_in_force(&self.idempotency, endpoint, options.policy);
        let lang = lang::from_headers(&head.headers);
        first_sent::check(name, &head.headers, ttl, lang)
    }

    fn endpoint(&self, head: &request::Parts) -> Result<Endpoint, Rejection> {
        let endpoint = match self.unary_method(head) {
            Some(method) => route::endpoint_of(&head.method, method).map_err(NoRoute::Invalid),
            None => route::route_of(head, self.route.as_ref()),
        };
        endpoint.map_err(|no_route| {
            let error = match &no_route {
                NoRoute::Invalid(name) => invalid_name(Subject::Call, name),
                NoRoute::Unknown => {
                    let site = Site::without_key(Endpoint::named("http"));
                    let why = format!("{no_route}; the handler did not run");
                    invalid_key(site, why)
                }
            };
            emit_refusal(&self.idempotency, &error);
            let lang = lang::from_headers(&head.headers);
            Rejection::without_route(error, &no_route, lang)
        })
    }

    /// The key of a request; `None` if it has none and needs none.
    pub(crate) fn key<'a>(
        &self,
        head: &'a request::Parts,
        body: &[u8],
        options: &RouteOptions,
    ) -> Result<Option<Cow<'a, str>>, Rejection> {
        let (headers, syntax) = (&head.headers, self.syntax);
        // Only a refusal has a language.
        let lang = || lang::from_headers(headers);
        match self.key.read(head, body, syntax) {
            Ok(None) if options.requires_key() || self.has_first_sent(headers) => {
                Err(self.key.missing(head, body, syntax, lang()).into())
            }
            Ok(None) => {
                self.note_unkeyed(head, body);
                Ok(None)
            }
            Ok(key) => Ok(key),
            Err(fault) => Err(fault.problem(syntax, lang()).into()),
        }
    }

    /// Whether the request says when it was first sent. Then it needs a key.
    fn has_first_sent(&self, headers: &HeaderMap) -> bool {
        let first_sent = self.table.first_sent.as_ref();
        first_sent.is_some_and(|name| headers.contains_key(name))
    }

    /// The response to a request that has a key, if nothing guards its method and route.
    pub(crate) fn refuse_unguarded<B: Body>(
        &self,
        head: &request::Parts,
    ) -> Response<ReplayBody<B>> {
        let lang = lang::from_headers(&head.headers);
        let problem = catalog::REPEATABILITY_UNSUPPORTED.problem("", lang);
        self.refuse(problem.into(), self.refusal_form(head))
    }

    /// The response to a request whose handler does not run.
    pub(crate) fn refuse<B: Body>(
        &self,
        mut rejection: Rejection,
        form: RefusalForm,
    ) -> Response<ReplayBody<B>> {
        let mut response = match form {
            RefusalForm::Grpc => rejection.grpc_response(),
            form => self.form(&mut rejection, form),
        };
        rejection.mark(&mut response);
        response.map(ReplayBody::from)
    }

    /// The response to a refused request, in the form of the convention and of the program.
    pub(crate) fn form(&self, rejection: &mut Rejection, form: RefusalForm) -> Response<Bytes> {
        rejection.name_by(self.table);
        let mut response = rejection.response(self.table, self.docs.as_deref());
        if let RefusalForm::Page(_) = form {
            rejection.set_page(&mut response);
        }
        match &self.on_reject {
            Some(on_reject) => on_reject(rejection, response),
            None => response,
        }
    }
}
