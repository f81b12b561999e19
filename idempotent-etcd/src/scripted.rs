//! Members that a test scripts: it gets each request and answers it.

use std::time::Duration;

use bytes::Bytes;
use h2::server::SendResponse;
use http::{HeaderMap, HeaderValue, Response};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::timeout;
use tonic::Code;

use crate::client::Client;
use crate::wire::{Authenticate, Method};

/// A request that a member has got.
struct Request {
    path: String,
    /// After the five bytes that gRPC writes before a message.
    message: Bytes,
    reply: SendResponse<Bytes>,
}

/// The requests of all members.
pub(crate) struct Requests(UnboundedReceiver<Request>);

/// How a member answers a request.
pub(crate) struct Reply(SendResponse<Bytes>);

/// A client of two members.
pub(crate) async fn client(login: Option<Authenticate>) -> (Client, Requests) {
    let (sender, requests) = unbounded_channel();
    let members = [member(sender.clone()).await, member(sender).await];
    let client = Client::new(&members, login, None).expect("a client");
    (client, Requests(requests))
}

impl Requests {
    /// The next request, which must be of this method.
    pub(crate) async fn next<M: Method + Default>(&mut self) -> (M, Reply) {
        let request = timeout(Duration::from_mins(1), self.0.recv()).await;
        let request = request.expect("in time").expect("a request");
        assert_eq!(request.path, M::PATH);
        let message = M::decode(request.message).expect("a message");
        (message, Reply(request.reply))
    }
}

impl Reply {
    pub(crate) fn refuse(mut self, code: Code, message: &'static str) {
        let response = Response::builder()
            .header("content-type", "application/grpc")
            .header("grpc-status", i32::from(code))
            .header("grpc-message", message);
        let response = response.body(()).expect("a response");
        self.0.send_response(response, true).expect("a caller");
    }

    pub(crate) fn answer(mut self, answer: &impl prost::Message) {
        let message = answer.encode_to_vec();
        let len = u32::try_from(message.len()).expect("a short message");
        let frame = [&[0], &len.to_be_bytes()[..], &message].concat();
        let response = Response::builder().header("content-type", "application/grpc");
        let response = response.body(()).expect("a response");
        let mut body = self.0.send_response(response, false).expect("a caller");
        body.send_data(frame.into(), false).expect("a caller");
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", HeaderValue::from_static("0"));
        body.send_trailers(trailers).expect("a caller");
    }
}

async fn member(requests: UnboundedSender<Request>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let requests = requests.clone();
            tokio::spawn(async move {
                let mut connection = h2::server::handshake(socket).await.expect("HTTP/2");
                while let Some(Ok((request, reply))) = connection.accept().await {
                    let requests = requests.clone();
                    tokio::spawn(async move {
                        let path = request.uri().path().to_owned();
                        let (mut body, mut bytes) = (request.into_body(), Vec::new());
                        while let Some(data) = body.data().await {
                            bytes.extend_from_slice(&data.expect("a body"));
                        }
                        let _ = requests.send(Request {
                            path,
                            message: bytes.split_off(5).into(),
                            reply,
                        });
                    });
                }
            });
        }
    });
    address
}
