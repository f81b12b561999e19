//! The shop on one kind of database.

use std::sync::Arc;

use idempotence::Store;
use tokio::net::TcpListener;

use super::{Connection, Database, Databases, Db, NAME};
use crate::Failure;

mod app;
mod attempt;
mod bank;
mod events;
mod link;
mod mechanisms;
mod order;
mod report;
mod run;
mod scenarios;
mod server;

/// Serves the page until a person stops the program.
pub(crate) async fn serve(
    listener: TcpListener,
    store: Arc<dyn Store>,
    store_name: &'static str,
    databases: Databases,
) -> Result<(), Failure> {
    let server = server::Server::open(store, store_name, databases);
    println!("listening on http://{}", listener.local_addr()?);
    // Pages keep their stream of events open, so there is no end of all requests to wait for.
    tokio::select! {
        ended = axum::serve(listener, app::app(server.clone())) => ended?,
        asked = tokio::signal::ctrl_c() => asked?,
    }
    server.close().await;
    Ok(())
}
