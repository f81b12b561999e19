//! A shop in actix-web: a layer guards the orders, and the attribute the payments.
//!
//! ```text
//! cargo run -p idempotence-examples --features actix --bin actix_orders -- 127.0.0.1:3000 redis://127.0.0.1:6379/
//! curl -i localhost:3000/orders -H 'Authorization: Bearer ada' -H 'Idempotency-Key: "8e03978e"' \
//!     --json '{"item": "a book", "cents": 1200}'
//! ```
//!
//! | request | guarded by | a repetition gets |
//! | --- | --- | --- |
//! | `POST /orders` | the layer | the whole first response |
//! | `POST /orders/{id}/pay` | the attribute on the function that charges | the first receipt |
#![allow(clippy::print_stdout)]

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::middleware::{Next, from_fn};
use actix_web::{App, HttpMessage as _, HttpRequest, HttpResponse, HttpServer, error, web};
use idempotence::http::{IdempotencyLayer, Payload};
use idempotence::integrations::actix::IdempotencyKey;
use idempotence::{Error, Idempotency, Once, idempotent};
use serde::{Deserialize, Serialize};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let address = args.next().unwrap_or("127.0.0.1:3000".to_owned());
    let url = args.next().unwrap_or("memory:".to_owned());
    let idempotency = Idempotency::from_url(&url).await?;
    idempotency.install()?;

    // One layer and one shop for all workers, so they are made outside of the closure.
    let repeatable = repeatable(&idempotency);
    let shop = web::Data::new(Shop::default());
    let server = HttpServer::new(move || {
        App::new()
            .app_data(shop.clone())
            // Each worker has its own terminal, which need not be `Send`.
            .app_data(Rc::new(Terminal::default()))
            // The last `wrap` is the outermost: a replay is authenticated, too.
            .service(
                web::resource("/orders")
                    .wrap(repeatable.clone())
                    .wrap(from_fn(authenticate))
                    .post(place),
            )
            .service(
                web::resource("/orders/{id}/pay")
                    .wrap(from_fn(authenticate))
                    .post(pay),
            )
    });
    let server = server.disable_signals().bind(address)?;
    println!("listening on http://{}", server.addrs()[0]);
    let server = server.run();
    let handle = server.handle();
    let stopped = tokio::spawn(server);

    tokio::signal::ctrl_c().await?;
    // The handlers of clients that have hung up end with their workers. So first they are waited for.
    handle.pause().await;
    if let Err(error) = idempotency.drain(Duration::from_secs(30)).await {
        println!("{} requests did not end in time", error.remaining());
    }
    handle.stop(true).await;
    stopped.await??;
    println!("stopped");
    Ok(())
}

/// The rules of every guarded route. The options are the same as for a server of `tower`.
fn repeatable(idempotency: &Idempotency) -> IdempotencyLayer {
    IdempotencyLayer::builder(idempotency)
        .scope_by_extension(|user: &User| user.id)
        .require_key()
        .payload(Payload::json())
        .wait(Duration::from_secs(2))
        .build()
}

#[derive(Debug, Clone, Copy)]
struct User {
    id: u32,
}

/// Finds the user of the bearer token. The layer and the handlers read the extension.
async fn authenticate(
    request: ServiceRequest,
    next: Next<impl MessageBody>,
) -> Result<ServiceResponse<impl MessageBody>, actix_web::Error> {
    let token = request.headers().get("authorization");
    let id = match token.and_then(|token| token.to_str().ok()) {
        Some("Bearer ada") => 7,
        Some("Bearer bob") => 8,
        _ => return Err(error::ErrorUnauthorized("who are you?")),
    };
    request.extensions_mut().insert(User { id });
    next.call(request).await
}

#[derive(Default)]
struct Shop {
    orders: AtomicU64,
}

#[derive(Deserialize, Serialize)]
struct Order {
    item: String,
    cents: u64,
}

/// Runs once for each key of a user, because the layer is around it.
async fn place(shop: web::Data<Shop>, order: web::Json<Order>) -> HttpResponse {
    let id = shop.orders.fetch_add(1, Ordering::Relaxed) + 1;
    println!("order {id}: {} for {} cents", order.item, order.cents);
    HttpResponse::Created()
        .insert_header(("location", format!("/orders/{id}")))
        .json(order)
}

// The attribute.

/// A terminal that charges cards. It must stay on one thread.
#[derive(Default)]
struct Terminal {
    charges: Cell<u64>,
}

#[derive(Deserialize, Serialize)]
struct Receipt {
    order: u64,
    number: u64,
}

#[derive(Deserialize)]
struct Card {
    number: String,
}

/// Charges a card once for each key of a user. Its future is not `Send`, because of the terminal.
#[idempotent(
    name = "orders.charge",
    key = "user.id, key",
    payload = "order, card.number",
    ttl = "24h",
    replay = true,
    wait = "2s"
)]
async fn charge(
    user: User,
    key: IdempotencyKey,
    order: u64,
    card: Card,
    terminal: Rc<Terminal>,
) -> Result<Once<web::Json<Receipt>>, Error> {
    println!("charging order {order}");
    tokio::time::sleep(Duration::from_millis(100)).await; // the bank
    let number = terminal.charges.get() + 1;
    terminal.charges.set(number);
    Ok(Once::Executed(web::Json(Receipt { order, number })))
}

/// A refused call becomes the response that `integrations::actix` describes, and a repetition is marked.
async fn pay(
    request: HttpRequest,
    user: web::ReqData<User>,
    key: IdempotencyKey,
    order: web::Path<u64>,
    card: web::Json<Card>,
) -> Result<Once<web::Json<Receipt>>, Error> {
    let terminal = request.app_data::<Rc<Terminal>>().cloned();
    let terminal = terminal.unwrap_or_default();
    let (user, order) = (user.into_inner(), order.into_inner());
    charge(user, key, order, card.into_inner(), terminal).await
}
