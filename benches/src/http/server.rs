//! The server process.

use std::env;
use std::io::{self, Write as _};
use std::net::Ipv4Addr;
use std::time::Duration;

use axum::Router;
use axum::routing::post;
use axum::serve::ListenerExt as _;
use idempotence::http::IdempotencyLayer;
use idempotence::{Idempotency, RedisStore};
use peer::middleware::IdempotencyLayer as PeerLayer;
use peer::valkey::ValkeyStore;
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::io::tcp::TcpSettings;
use redis::{Client, IntoConnectionInfo as _};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use super::by_hand::Guard;
use super::handler::payment;
use super::{BY_HAND, KEPT, LAYER, NO_LAYER, PEER, SERVE, TTL};

/// Serves until the standard input is closed, if the arguments of this process say that it is a server. Returns whether it is
/// one.
pub fn serve() -> bool {
    let args: Vec<String> = env::args().skip(1).collect();
    let [first, contender, redis_url] = &args[..] else {
        return false;
    };
    if first != SERVE {
        return false;
    }
    let runtime = Runtime::new().expect("a runtime");
    runtime.spawn(run(contender.clone(), redis_url.clone()));
    // The pipe is closed when the parent process ends.
    let _ = io::copy(&mut io::stdin(), &mut io::sink());
    runtime.shutdown_background();
    true
}

async fn run(contender: String, redis_url: String) {
    let routes = Router::new().route("/payments", post(payment));
    let routes = match &*contender {
        LAYER => {
            // On a `ConnectionManager` a store sends each operation as its own request.
            let store = RedisStore::connect(&redis_url).await;
            let idempotency = Idempotency::new(store.expect("a store"));
            let layer = IdempotencyLayer::builder(&idempotency)
                .global_scope()
                .lease(TTL)
                .ttl(KEPT);
            routes.route_layer(layer.build())
        }
        BY_HAND => Guard::new(connect(&redis_url).await).await.guard(routes),
        PEER => {
            let store = ValkeyStore::with_connection_manager(connect(&redis_url).await);
            let store = store.prefix("idem").try_build().await.expect("a store");
            let layer = PeerLayer::new(store)
                .processing_ttl(TTL)
                .completed_ttl(KEPT);
            routes.route_layer(layer)
        }
        NO_LAYER => routes,
        other => panic!("{other} is not a contender"),
    };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
    let listener = listener.expect("a port");
    let address = listener.local_addr().expect("a port");
    let mut stdout = io::stdout();
    writeln!(stdout, "{address}").expect("the parent reads it");
    stdout.flush().expect("the parent reads it");
    let listener = listener.tap_io(|connection| {
        connection.set_nodelay(true).expect("a TCP connection");
    });
    axum::serve(listener, routes).await.expect("it never ends");
}

async fn connect(url: &str) -> ConnectionManager {
    let info = url.into_connection_info().expect("a URL");
    let tcp = TcpSettings::default().set_nodelay(true);
    let client = Client::open(info.set_tcp_settings(tcp)).expect("a client");
    let config = ConnectionManagerConfig::new().set_response_timeout(Some(Duration::from_secs(10)));
    let connection = client.get_connection_manager_with_config(config).await;
    connection.expect("a connection")
}
