//! The methods of gRPC that a layer guards.

use crate::layer::builder::LayerBuilder;
use crate::request::route::Named;

impl<S> LayerBuilder<S> {
    /// Names the unary methods of gRPC that the layer guards, as paths: `/payments.Payments/Pay`. Nothing in a request of gRPC says
    /// whether its method is unary, so calls of other methods pass, and nothing guards them. [`for_route`](Self::for_route) sets the
    /// options of one method.
    ///
    /// A call has its key in its metadata, by default `idempotency-key`. A refusal is a status of gRPC, also if there is
    /// [`on_reject`](Self::on_reject). The status of the method decides which responses are stored, not
    /// [`store_if`](Self::store_if). The page `http_frameworks` of the guide says more.
    ///
    /// A missing or malformed key, or a missing scope, is `INVALID_ARGUMENT` (a missing scope with [`challenge`](Self::challenge)
    /// `UNAUTHENTICATED`), a message over [`request_limit`](Self::request_limit) `RESOURCE_EXHAUSTED`.
    ///
    /// **Do not name a method with a stream:** its request would be read to its end before the method begins.
    ///
    /// # Panics
    ///
    /// If a path does not have the form `/package.Service/Method`.
    #[must_use]
    pub fn grpc_unary<M: Into<String>>(mut self, methods: impl IntoIterator<Item = M>) -> Self {
        for method in methods {
            let method = method.into();
            let parts: Vec<_> = method.split('/').collect();
            assert!(
                matches!(parts[..], ["", service, name] if !service.is_empty() && !name.is_empty())
                    && Named::new(method.clone()).is_ok(),
                "`{method}` is not a method of gRPC: the form is `/package.Service/Method`"
            );
            self.chosen.unary.push(method);
        }
        self
    }
}
