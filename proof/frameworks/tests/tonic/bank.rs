//! A server of payments, whose orders say what their method does.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use idempotence::http::{Decision, HasScope, IdempotencyLayer, LayerBuilder};
use idempotence::integrations::tonic::with_decision;
use idempotence::{Error, Idempotency, MemoryStore};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tonic::codegen::BoxStream;
use tonic::codegen::http::header::AUTHORIZATION;
use tonic::codegen::tokio_stream::{self, wrappers::TcpListenerStream};
use tonic::transport::{Channel, Server};
use tonic::{Code, Request, Response, Status};

use crate::rpc::{PAY, PayReply, PayRequest, Payments, PaymentsClient, PaymentsServer};

/// A server, and a client of it.
pub(crate) struct Bank {
    pub(crate) client: PaymentsClient,
    pub(crate) idempotency: Idempotency,
    runs: Arc<AtomicUsize>,
    /// Lets waiting methods end.
    gate: Arc<Semaphore>,
}

pub(crate) fn idempotency() -> Idempotency {
    Idempotency::new(MemoryStore::new())
}

/// A layer that guards `Pay`.
pub(crate) fn guarding(idempotency: &Idempotency) -> LayerBuilder<impl HasScope + use<>> {
    let layer = IdempotencyLayer::builder(idempotency).scope_by_header(AUTHORIZATION);
    layer.grpc_unary([PAY])
}

impl Bank {
    pub(crate) async fn start() -> Self {
        let idempotency = idempotency();
        let layer = guarding(&idempotency);
        Self::of(idempotency, layer).await
    }

    pub(crate) async fn of(idempotency: Idempotency, layer: LayerBuilder<impl HasScope>) -> Self {
        Self::with_layer(idempotency, layer.build()).await
    }

    pub(crate) async fn with_layer(idempotency: Idempotency, layer: IdempotencyLayer) -> Self {
        let (runs, gate) = (Arc::default(), Arc::new(Semaphore::new(0)));
        let methods = Methods {
            idempotency: idempotency.clone(),
            runs: Arc::clone(&runs),
            gate: Arc::clone(&gate),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let server = Server::builder()
            .layer(layer)
            .add_service(PaymentsServer::new(methods));
        tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
        let channel = Channel::from_shared(address).unwrap().connect().await;
        Self {
            client: PaymentsClient::new(channel.unwrap()),
            idempotency,
            runs,
            gate,
        }
    }

    pub(crate) async fn pay(
        &self,
        request: Request<PayRequest>,
    ) -> Result<Response<PayReply>, Status> {
        within(self.client.clone().pay(request)).await
    }

    /// How often a method has run.
    pub(crate) fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }

    /// Lets one waiting method end.
    pub(crate) fn end(&self) {
        self.gate.add_permits(1);
    }

    /// Waits until a method has run this often.
    pub(crate) async fn has_run(&self, runs: usize) {
        within(async {
            while self.runs() < runs {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
}

/// Longer than anything takes that a test waits for, also on a slow machine.
pub(crate) const MAX_WAIT: Duration = Duration::from_mins(2);

/// Waits for the future, for at most two minutes.
pub(crate) async fn within<F: Future>(future: F) -> F::Output {
    let done = tokio::time::timeout(MAX_WAIT, future).await;
    done.expect("it ends within two minutes")
}

/// A payment of Ada.
pub(crate) fn plain(order_no: &str) -> Request<PayRequest> {
    let order_no = order_no.to_owned();
    let mut request = Request::new(PayRequest { order_no, cents: 5 });
    let ada = "Bearer ada".parse().unwrap();
    request.metadata_mut().insert("authorization", ada);
    request
}

/// A payment of Ada with a key.
pub(crate) fn keyed(key: &str, order_no: &str) -> Request<PayRequest> {
    let mut request = plain(order_no);
    let key = key.parse().unwrap();
    request.metadata_mut().insert("idempotency-key", key);
    request
}

struct Methods {
    idempotency: Idempotency,
    runs: Arc<AtomicUsize>,
    gate: Arc<Semaphore>,
}

#[tonic::async_trait]
impl Payments for Methods {
    /// The first word of the order is what the method does.
    async fn pay(&self, request: Request<PayRequest>) -> Result<Response<PayReply>, Status> {
        let run = self.runs.fetch_add(1, Ordering::SeqCst) + 1;
        let order = request.into_inner().order_no;
        let (what, rest) = order.split_once(' ').unwrap_or((&order, ""));
        let mut reply = Response::new(PayReply {
            receipt: run as u64,
        });
        match what {
            "wait" => self.gate.acquire().await.unwrap().forget(),
            "status" => return Err(Self::status(rest.parse().unwrap(), run)),
            "decide" => {
                // Without a decision, the first code frees the key, and the second is stored.
                let code = if rest == "store" { 13 } else { 5 };
                return Err(with_decision(Self::status(code, run), decision(rest)));
            }
            "reply" => {
                reply.extensions_mut().insert(decision(rest));
            }
            "refused" => self.refused(rest).await?,
            _ => {}
        }
        let metadata = reply.metadata_mut();
        metadata.insert("x-run", run.into());
        metadata.append("x-link", "a".parse().unwrap());
        metadata.append("x-link", "b".parse().unwrap());
        Ok(reply)
    }

    async fn watch(&self, _: Request<PayRequest>) -> Result<Response<BoxStream<PayReply>>, Status> {
        let run = self.runs.fetch_add(1, Ordering::SeqCst) + 1;
        let receipts = [run, run].map(|run| {
            Ok(PayReply {
                receipt: run as u64,
            })
        });
        Ok(Response::new(Box::pin(tokio_stream::iter(receipts))))
    }
}

impl Methods {
    /// A status with a message, metadata and details.
    fn status(code: i32, run: usize) -> Status {
        let message = format!("run {run}: 100 % sûr");
        let details = format!("details {run}").into();
        let mut status = Status::with_details(Code::from_i32(code), message, details);
        status.metadata_mut().insert("x-run", run.into());
        status
    }

    /// A guarded call that is refused, because its key is taken.
    async fn refused(&self, key: &str) -> Result<(), Status> {
        let call = || {
            let call = self.idempotency.call("inner").key(key);
            let call = call.ttl(Duration::from_mins(1));
            call.run(async { Ok::<(), Error>(()) })
        };
        call().await?;
        call().await?;
        Ok(())
    }
}

fn decision(name: &str) -> Decision {
    match name {
        "store" => Decision::Store,
        "hold" => Decision::Hold,
        _ => Decision::Release,
    }
}
