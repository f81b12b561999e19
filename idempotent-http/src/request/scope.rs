//! Whose request it is. Two callers with one key make two calls.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use ::http::header::{self, HeaderName};
use ::http::request;
use idempotent_runtime::KeyPart;
use idempotent_runtime::port::http::{Call, has_missing_part};

/// How the layer finds whose request it is. The methods of [`LayerBuilder`](crate::LayerBuilder) that are named `scope` make it.
#[derive(Clone)]
pub struct Scope {
    add: Arc<Add>,
    missing: MissingScope,
    /// Each request has the scope.
    #[cfg_attr(
        not(feature = "utoipa"),
        allow(dead_code, reason = "documents read it")
    )]
    is_global: bool,
}

/// Adds the caller to the key of the call. `None` if the request names no caller.
type Add = dyn Fn(Seen<'_>, &mut Call) -> Option<()> + Send + Sync;

/// What a scope sees of a request.
#[derive(Clone, Copy)]
pub(crate) struct Seen<'a> {
    pub(crate) head: &'a request::Parts,
    /// The extensions of actix, which are not in `head`: they may not be `Send`.
    #[cfg(feature = "actix")]
    pub(crate) local: Option<&'a actix_web::dev::Extensions>,
}

impl<'a> Seen<'a> {
    fn extension<T: Send + Sync + 'static>(self) -> Option<&'a T> {
        #[cfg(feature = "actix")]
        if let Some(found) = self.local.and_then(|local| local.get::<T>()) {
            return Some(found);
        }
        self.head.extensions.get::<T>()
    }
}

/// Finds the caller of one request.
pub(crate) trait FindScope {
    /// Adds the scope of the request to the key of its call.
    fn add_scope<'s>(
        &self,
        scope: &'s Scope,
        head: &request::Parts,
        call: &mut Call,
    ) -> Result<(), &'s MissingScope> {
        let seen = Seen {
            head,
            #[cfg(feature = "actix")]
            local: None,
        };
        scope.add(seen, call)
    }
}

/// What a request without a scope does not have.
#[derive(Debug, Clone)]
pub(crate) enum MissingScope {
    Header(HeaderName),
    Caller,
}

impl MissingScope {
    /// Whether the request is not authenticated. Else the request itself is wrong.
    pub(crate) fn is_authentication(&self) -> bool {
        match self {
            Self::Header(name) => *name == header::AUTHORIZATION,
            Self::Caller => true,
        }
    }
}

impl Scope {
    /// All requests have one scope.
    pub(crate) fn global() -> Self {
        let scope = Self::new(MissingScope::Caller, |_, call| {
            call.part("global");
            Some(())
        });
        Self {
            is_global: true,
            ..scope
        }
    }

    /// The value of this header.
    pub(crate) fn header(name: HeaderName) -> Self {
        Self::new(MissingScope::Header(name.clone()), move |seen, call| {
            let values = seen.head.headers.get_all(&name);
            let lines = || values.iter().map(|line| line.as_bytes().trim_ascii());
            let is_given = lines().next().is_some() && lines().all(|line| !line.is_empty());
            is_given.then(|| {
                call.part("header");
                call.part(name.as_str());
                call.part_of_arrays(lines());
            })
        })
    }

    /// A part of this extension of the request.
    pub(crate) fn extension<T, P>(part: impl Fn(&T) -> P + Send + Sync + 'static) -> Self
    where
        T: Any + Send + Sync,
        P: KeyPart,
    {
        Self::new(MissingScope::Caller, move |seen, call| {
            let extension = seen.extension::<T>()?;
            add("extension", &part(extension), call)
        })
    }

    /// What the closure finds in the request.
    pub(crate) fn by<P: KeyPart>(
        part: impl Fn(&request::Parts) -> Option<P> + Send + Sync + 'static,
    ) -> Self {
        Self::new(MissingScope::Caller, move |seen, call| {
            add("request", &part(seen.head)?, call)
        })
    }

    /// What a request without a scope does not have. `None` if each request has the scope.
    #[cfg(feature = "utoipa")]
    pub(crate) fn missing(&self) -> Option<&MissingScope> {
        (!self.is_global).then_some(&self.missing)
    }

    /// The header that has the scope.
    pub(crate) fn header_name(&self) -> Option<&HeaderName> {
        match &self.missing {
            MissingScope::Header(name) => Some(name),
            MissingScope::Caller => None,
        }
    }

    /// Adds the scope of this request to the key of its call.
    pub(crate) fn add(&self, seen: Seen<'_>, call: &mut Call) -> Result<(), &MissingScope> {
        (self.add)(seen, call).ok_or(&self.missing)
    }

    fn new(
        missing: MissingScope,
        add: impl Fn(Seen<'_>, &mut Call) -> Option<()> + Send + Sync + 'static,
    ) -> Self {
        let add = Arc::new(add);
        Self {
            add,
            missing,
            is_global: false,
        }
    }
}

/// Adds a scope of this kind to the key. `None` if it names no caller.
fn add<P: KeyPart>(kind: &str, part: &P, call: &mut Call) -> Option<()> {
    if has_missing_part(part) {
        return None;
    }
    call.part(kind);
    call.part(part);
    Some(())
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Scope").field(&self.missing).finish()
    }
}
