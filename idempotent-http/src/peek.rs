//! What operators read about the key of a request.

use ::http::request;
use idempotent_runtime::port::http::{
    Call, Endpoint, Site, Subject, invalid_key, invalid_name, peek,
};
use idempotent_runtime::{Error, Peek};

use crate::layer::IdempotencyLayer;
use crate::request::scope::FindScope;

impl IdempotencyLayer {
    /// Reads the record of the key of a request. Returns `None` if the key is free. [`Idempotency::forget`](idempotent_runtime::Idempotency::forget)
    /// frees it.
    ///
    /// The head of the request needs what the layer reads: the header of the key and the scope, and the path if the convention
    /// has it in the key. `endpoint` is the method and the whole route, which only a router could find in the head; or the name in
    /// [`route`](crate::LayerBuilder::route).
    ///
    /// Without the layer, [`Idempotency::peek`](idempotent_runtime::Idempotency::peek) takes the parts of the key: the kind of the scope, the scope,
    /// and the key of the client. The kinds are `extension`, `request` (for `scope_by`), `header` with its name in small letters, and
    /// `global` without a scope: `&("extension", user_id, key)`, or `&("header", "authorization", ["Bearer ada".as_bytes()], key)`.
    /// With [`Profile::Acp`](crate::Profile::Acp) the path is before the key. With [`Profile::Stripe`](crate::Profile::Stripe)
    /// the account is there, if the request names one, and the endpoint is `http`.
    ///
    /// Round trips: one. Changes nothing.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use http::Request;
    /// use http::header::AUTHORIZATION;
    /// use idempotence::http::IdempotencyLayer;
    /// use idempotence::{Idempotency, MemoryStore};
    ///
    /// let idempotency = Idempotency::new(MemoryStore::new());
    /// let layer = IdempotencyLayer::builder(&idempotency).scope_by_header(AUTHORIZATION).build();
    ///
    /// let request = Request::post("/orders/7/pay")
    ///     .header(AUTHORIZATION, "Bearer ada")
    ///     .header("idempotency-key", "8e03978e");
    /// let (head, ()) = request.body(())?.into_parts();
    /// if let Some(stuck) = layer.peek("POST /orders/{id}/pay", &head).await? {
    ///     idempotency.forget(&stuck).await?;
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::InvalidKey`] if the name is not a valid endpoint name, or the head has no key or no scope, or the key is in
    /// the body; else as [`Idempotency::peek`](idempotent_runtime::Idempotency::peek).
    pub async fn peek(
        &self,
        endpoint: &str,
        request: &request::Parts,
    ) -> Result<Option<Peek>, Error> {
        let endpoint = Endpoint::called(endpoint);
        let endpoint = endpoint.map_err(|name| invalid_name(Subject::Peek, &name))?;
        let config = self.config();
        let invalid = |why| {
            let site = Site::of(Subject::Peek, endpoint.clone());
            invalid_key(site, why)
        };
        let key = config.key.read(request, &[], config.syntax);
        let key = key.map_err(|_| invalid("the key of the request cannot be read"))?;
        let key = key.ok_or_else(|| {
            invalid(if config.key.may_be_in_body() {
                "the key is in the body of the request; use `Idempotency::peek` with the parts of the key"
            } else {
                "the request has no key"
            })
        })?;
        let handle = &config.idempotency;
        let mut call = Call::new(endpoint.clone(), config.options.policy, Some(handle));
        let added = config.add_key(&InHead, request, &key, &mut call);
        added.map_err(|_| invalid("the request has no scope"))?;
        let fingerprint = call.fingerprint()?;
        peek(handle, endpoint, fingerprint, config.table.shares_keys).await
    }
}

/// Finds the scope of a request in its head alone.
struct InHead;

impl FindScope for InHead {}
