//! The options that may differ between routes, of the layer and of one route.

use std::sync::Arc;
use std::time::Duration;

use ::http::HeaderName;
use ::http::response;
use idempotent_runtime::{OnLeaseLost, OnStoreError, Renew, Settle};

use crate::layer::builder::LayerBuilder;
use crate::layer::options::RouteOptions;
use crate::request::payload::Payload;

/// Writes the options for a route, and for all routes of the layer.
macro_rules! options {
    ($($(#[$doc:meta])* fn $name:ident($options:ident $(, $arg:ident: $type:ty)*) $set:block)*) => {
        impl RouteOptions {
            $(
                $(#[$doc])*
                #[must_use]
                pub fn $name(mut self $(, $arg: $type)*) -> Self {
                    let $options = &mut self;
                    $set
                    self
                }
            )*
        }

        /// The options of all routes that have no options of their own.
        impl<S> LayerBuilder<S> {
            $(
                $(#[$doc])*
                #[must_use]
                pub fn $name(mut self $(, $arg: $type)*) -> Self {
                    let options = RouteOptions::clone(&self.chosen.options);
                    self.chosen.options = Arc::new(options.$name($($arg),*));
                    self
                }
            )*
        }
    };
}

options! {
    /// Refuses a guarded request without a key with 400. Default: such a request passes, and nothing guards it.
    fn require_key(options) {
        options.requires_key = Some(true);
    }

    /// Lets a request without a key pass. This is the default, but not with [`Profile::Acp`](crate::Profile::Acp).
    fn optional_key(options) {
        options.requires_key = Some(false);
    }

    /// Sets how long a response is stored: 1 ms to 100 years. Otherwise each request with a key gets 500 `invalid_policy`.
    /// Default: 24 hours.
    fn ttl(options, ttl: Duration) {
        options.ttl = Some(ttl);
    }

    /// Sets how long a claim is valid if its process no longer renews it. Default: 30 seconds, or the `ttl` if it is shorter.
    fn lease(options, lease: Duration) {
        options.policy = options.policy.lease(lease);
    }

    /// Sets how long a request waits for the response of an equal request that is running. Default: it does not wait, and gets
    /// 409.
    fn wait(options, wait: Duration) {
        options.policy = options.policy.wait(wait);
    }

    /// Sets what happens while the store is unavailable. Default: [`OnStoreError::Refuse`], which answers with 503. With
    /// [`OnStoreError::Run`] the handler runs unguarded. Equal requests that arrive in this process while its claim is still unclear
    /// get 409.
    fn on_store_error(options, on_store_error: OnStoreError) {
        options.policy = options.policy.on_store_error(on_store_error);
    }

    /// Sets when a response is sent. Default: [`Settle::Await`], after the store has it. With [`Settle::Background`] it is sent while it is
    /// on its way to the store, one round trip earlier, and has the extension [`Unconfirmed`](crate::IdempotencyOutcome::Unconfirmed). If
    /// the process ends on this round trip, or stands still until the key has expired, the next equal request runs then, although a client
    /// had the response.
    fn settle(options, settle: Settle) {
        options.policy = options.policy.settle(settle);
    }

    /// Sets how long the lease of a running request is renewed. Default: [`Renew::Yes`], the longer of one hour and the lease.
    /// Without a renewal the lease must be longer than the handler runs.
    fn renew(options, renew: Renew) {
        options.policy = options.policy.renew(renew);
    }

    /// Sets what happens to a handler whose lease is lost, for example because the store was unavailable for too long. Default:
    /// [`OnLeaseLost::Stop`], so the request gets 500 `lease_lost`. With [`OnStoreError::Run`] the default is
    /// [`OnLeaseLost::Continue`]: the handler continues, and an equal request may run at the same time.
    fn on_lease_lost(options, on_lease_lost: OnLeaseLost) {
        options.policy = options.policy.on_lease_lost(on_lease_lost);
    }

    /// Sets what must be equal in the bodies of requests with one key. Default: [`Payload::raw`], all bytes; [`Payload::json`] with
    /// [`Profile::Acp`](crate::Profile::Acp), and [`Payload::form`] with [`Profile::Stripe`](crate::Profile::Stripe). A request with another payload gets 422, or what the profile says.
    fn payload(options, payload: Payload) {
        options.payload = Some(payload);
    }

    /// Sets which responses are stored, by their heads. After another response the key is free, but after a 408 or a 504 it is
    /// held (with some [profiles](crate::Profile) only after a 408). Default: see [`Decision`](crate::Decision).
    fn store_if(options, is_stored: impl Fn(&response::Parts) -> bool + Send + Sync + 'static) {
        options.store_if = Some(Arc::new(is_stored));
    }

    /// Sets the largest body of a request, in bytes. It is read into memory before the key is claimed. A request with a larger
    /// body gets 413. Default: 1 MiB.
    fn request_limit(options, bytes: usize) {
        options.request_limit = bytes;
    }

    /// Sets the largest body of a response that is stored, in bytes. A response with a larger body passes, and only the fact that
    /// it was made is stored: a repeated request gets 409 `result_unavailable`. Default: 1 MiB.
    ///
    /// The [`largest_result`](idempotent_runtime::Builder::largest_result) of the handle, 1 MiB by default, is also a limit of the body. So
    /// raise both. The headers and trailers of a stored response have 64 KiB at most.
    fn response_limit(options, bytes: usize) {
        options.response_limit = bytes;
    }

    /// Responses are streams: they pass without being read into memory, as large responses do. Responses of the types `text/event-stream`,
    /// `application/x-ndjson`, `application/json-seq` and `multipart/x-mixed-replace` are always streams.
    fn stream(options) {
        options.is_stream = true;
    }

    /// Stores only these headers and trailers of responses, the `Location` of a tombstone only if it is in this list, and always
    /// the status of gRPC. Default: all headers that describe the response, and not its connection, its
    /// client or its moment. Headers that are never stored, such as `Set-Cookie`, are not stored either if they are in this
    /// list. A record that has a header that no version has stored is not replayed.
    fn keep_headers(options, names: impl IntoIterator<Item = HeaderName>) {
        options.kept_headers = Some(names.into_iter().collect());
    }
}
