//! A member of the cluster.

use std::time::Duration;

use futures_util::stream::{self, StreamExt as _};
use http::uri::PathAndQuery;
use tonic::client::Grpc;
use tonic::transport::{Channel, ClientTlsConfig, Endpoint, Error};
use tonic::{Request, Status, Streaming};
use tonic_prost::ProstCodec;

use crate::wire::Method;

/// A member, by its address.
#[derive(Clone)]
pub(crate) struct Member {
    pub(crate) address: String,
    channel: Channel,
}

/// A server closes a connection with more pings than one in five seconds.
const PING: Duration = Duration::from_secs(10);
const PONG: Duration = Duration::from_secs(5);
const CONNECT: Duration = Duration::from_secs(2);

impl Member {
    /// Does not connect before the first request.
    ///
    /// # Panics
    ///
    /// Outside of a runtime of tokio.
    pub(crate) fn new(address: &str, tls: Option<&ClientTlsConfig>) -> Result<Self, Error> {
        let scheme = if tls.is_some() { "https" } else { "http" };
        let mut endpoint = Endpoint::from_shared(format!("{scheme}://{address}"))?
            .connect_timeout(CONNECT)
            .http2_keep_alive_interval(PING)
            .keep_alive_timeout(PONG)
            .tcp_nodelay(true);
        if let Some(tls) = tls {
            endpoint = endpoint.tls_config(tls.clone())?;
        }
        Ok(Self {
            address: address.to_owned(),
            channel: endpoint.connect_lazy(),
        })
    }

    /// Waits for a connection.
    pub(crate) async fn ready(&self) -> Result<Grpc<Channel>, Status> {
        let grpc = Grpc::new(self.channel.clone());
        // A page of a listing is long.
        let mut grpc = grpc.max_decoding_message_size(usize::MAX);
        let ready = grpc.ready().await;
        ready.map_err(|error| Status::from_error(Box::new(error)))?;
        Ok(grpc)
    }

    pub(crate) async fn unary<M: Method>(&self, request: Request<M>) -> Result<M::Reply, Status> {
        let path = PathAndQuery::from_static(M::PATH);
        let codec = ProstCodec::<M, M::Reply>::default();
        let reply = self.ready().await?.unary(request, path, codec).await?;
        Ok(reply.into_inner())
    }

    /// Opens a stream of replies to one request.
    pub(crate) async fn stream<M: Method>(
        &self,
        request: Request<M>,
    ) -> Result<Streaming<M::Reply>, Status> {
        // The stream of requests never ends, or the server would end the stream of replies.
        let requests = request.map(|request| stream::iter([request]).chain(stream::pending()));
        let path = PathAndQuery::from_static(M::PATH);
        let mut grpc = self.ready().await?;
        let replies = grpc
            .streaming(requests, path, ProstCodec::default())
            .await?;
        Ok(replies.into_inner())
    }
}
