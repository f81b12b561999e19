//! What `tonic_build` generates for a service, written by hand with messages in JSON, so that the example needs no `protoc`.

use std::convert::Infallible;
use std::marker::PhantomData;
use std::sync::Arc;
use std::task::{Context, Poll};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tonic::body::Body;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::{BoxFuture, BoxStream, Service, http};
use tonic::server::{Grpc, NamedService, ServerStreamingService, UnaryService};
use tonic::transport::Channel;
use tonic::{Request, Response, Status};

/// The unary method.
pub(crate) const PAY: &str = "/payments.Payments/Pay";
/// The method whose response is a stream.
pub(crate) const WATCH: &str = "/payments.Payments/Watch";

/// An order to pay.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PayRequest {
    pub(crate) order_no: String,
    pub(crate) cents: u64,
}

/// The receipt of a payment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PayReply {
    pub(crate) receipt: u64,
}

/// The methods of the service.
#[tonic::async_trait]
pub(crate) trait Payments: Send + Sync + 'static {
    async fn pay(&self, request: Request<PayRequest>) -> Result<Response<PayReply>, Status>;

    /// The receipts of an order, as they are made.
    async fn watch(
        &self,
        request: Request<PayRequest>,
    ) -> Result<Response<BoxStream<PayReply>>, Status>;
}

/// The service for a server of tonic.
pub(crate) struct PaymentsServer<T>(Arc<T>);

impl<T> PaymentsServer<T> {
    pub(crate) fn new(payments: T) -> Self {
        Self(Arc::new(payments))
    }
}

impl<T> Clone for PaymentsServer<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> NamedService for PaymentsServer<T> {
    const NAME: &'static str = "payments.Payments";
}

impl<T: Payments> Service<http::Request<Body>> for PaymentsServer<T> {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let payments = self.clone();
        Box::pin(async move {
            let mut grpc = Grpc::new(Json::default());
            Ok(match request.uri().path() {
                PAY => grpc.unary(payments, request).await,
                WATCH => grpc.server_streaming(payments, request).await,
                _ => Status::unimplemented("no such method").into_http(),
            })
        })
    }
}

impl<T: Payments> UnaryService<PayRequest> for PaymentsServer<T> {
    type Response = PayReply;
    type Future = BoxFuture<Response<PayReply>, Status>;

    fn call(&mut self, request: Request<PayRequest>) -> Self::Future {
        let payments = Arc::clone(&self.0);
        Box::pin(async move { payments.pay(request).await })
    }
}

impl<T: Payments> ServerStreamingService<PayRequest> for PaymentsServer<T> {
    type Response = PayReply;
    type ResponseStream = BoxStream<PayReply>;
    type Future = BoxFuture<Response<Self::ResponseStream>, Status>;

    fn call(&mut self, request: Request<PayRequest>) -> Self::Future {
        let payments = Arc::clone(&self.0);
        Box::pin(async move { payments.watch(request).await })
    }
}

/// A client of the service.
#[derive(Debug, Clone)]
pub(crate) struct PaymentsClient(tonic::client::Grpc<Channel>);

impl PaymentsClient {
    pub(crate) fn new(channel: Channel) -> Self {
        Self(tonic::client::Grpc::new(channel))
    }

    pub(crate) async fn pay(
        &mut self,
        request: Request<PayRequest>,
    ) -> Result<Response<PayReply>, Status> {
        self.ready().await?;
        let path = PathAndQuery::from_static(PAY);
        self.0.unary(request, path, Json::default()).await
    }

    /// The receipts until the end of the stream.
    pub(crate) async fn watch(
        &mut self,
        request: Request<PayRequest>,
    ) -> Result<Vec<PayReply>, Status> {
        self.ready().await?;
        let path = PathAndQuery::from_static(WATCH);
        let response = self.0.server_streaming(request, path, Json::default());
        let (mut stream, mut replies) = (response.await?.into_inner(), Vec::new());
        while let Some(reply) = stream.message().await? {
            replies.push(reply);
        }
        Ok(replies)
    }

    async fn ready(&mut self) -> Result<(), Status> {
        let ready = self.0.ready().await;
        ready.map_err(|error| Status::unavailable(error.to_string()))
    }
}

/// Messages in JSON.
struct Json<E, D>(PhantomData<fn(E) -> D>);

impl<E, D> Default for Json<E, D> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<E, D> Codec for Json<E, D>
where
    E: Serialize + Send + 'static,
    D: DeserializeOwned + Send + 'static,
{
    type Encode = E;
    type Decode = D;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self::default()
    }

    fn decoder(&mut self) -> Self {
        Self::default()
    }
}

impl<E: Serialize, D> Encoder for Json<E, D> {
    type Item = E;
    type Error = Status;

    fn encode(&mut self, item: E, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        let written = serde_json::to_writer(bytes_of(buffer), &item);
        written.map_err(|error| Status::internal(error.to_string()))
    }
}

impl<E, D: DeserializeOwned> Decoder for Json<E, D> {
    type Item = D;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<D>, Status> {
        let read = serde_json::from_reader(bytes::Buf::reader(buffer));
        let item: D = read.map_err(|error| Status::invalid_argument(error.to_string()))?;
        Ok(Some(item))
    }
}

fn bytes_of<'a, 'b>(buffer: &'a mut EncodeBuf<'b>) -> bytes::buf::Writer<&'a mut EncodeBuf<'b>> {
    bytes::BufMut::writer(buffer)
}
