//! The layer around a service of warp, on the server of hyper that speaks HTTP/1.1 and HTTP/2.

use bytes::Bytes;
use http_body_util::Full;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tower_layer::Layer as _;
use warp::Filter as _;

use support::http_client::{Orders, Reply, idempotency, keyed, scoped};

#[tokio::test]
async fn a_service_of_warp_is_guarded() {
    let orders = Orders::default();
    let placed = orders.clone();
    let place = warp::path!("orders" / u64 / "pay")
        .and(warp::body::bytes())
        .map(move |id: u64, body: Bytes| {
            let text = format!("{} {id} {}", placed.place(), body.len());
            warp::reply::with_header(text, "location", format!("/orders/{id}"))
        });
    let layer = scoped(&idempotency()).route("/orders/{id}/pay").build();
    let guarded = layer.layer(warp::service(place));

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = TowerToHyperService::new(guarded.clone());
            tokio::spawn(async move {
                let server = auto::Builder::new(TokioExecutor::new());
                let connection = server.serve_connection(TokioIo::new(stream), service);
                drop(connection.await);
            });
        }
    });
    for (is_http2, path, expected) in [
        (false, "/orders/7/pay", Ok(false)),
        (false, "/orders/7/pay", Ok(true)),
        (true, "/orders/7/pay", Ok(true)),
        (true, "/orders/8/pay", Err(422)),
    ] {
        let io = TokioIo::new(TcpStream::connect(address).await.unwrap());
        let uri = format!("http://shop{path}");
        let body = Full::new(Bytes::from("{}"));
        let request = keyed(&uri, "a").body(body).unwrap();
        let response = if is_http2 {
            let (mut sender, connection) =
                hyper::client::conn::http2::handshake(TokioExecutor::new(), io)
                    .await
                    .unwrap();
            tokio::spawn(connection);
            sender.send_request(request).await
        } else {
            let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
            tokio::spawn(connection);
            sender.send_request(request).await
        };
        let reply = Reply::read(response.unwrap()).await;
        match expected {
            Ok(is_replay) => {
                assert_eq!((reply.text(), reply.is_replay()), ("1 7 2", is_replay));
                assert_eq!(reply.headers["location"], "/orders/7");
            }
            Err(status) => assert_eq!(reply.status, status),
        }
    }
    assert_eq!(orders.count(), 1);
}
