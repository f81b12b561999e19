//! A function on AWS Lambda that charges an order once, although API Gateway and its clients repeat requests.
//!
//! Lambda freezes a function between two invocations, and ends it at the deadline of an invocation. So
//!
//! * the lease of a call is the rest of its invocation: no process renews it, and a function that was ended frees its key then;
//! * the end of a call is stored before the response (`settle`, as by default), because nothing runs after the response;
//! * there is nothing to `drain`.

use std::time::{Duration, SystemTime};

use idempotence::{Error, Idempotency, Renew};
use lambda_http::{Body, Request, RequestExt as _, Response, run, service_fn};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda_http::Error> {
    let url = std::env::var("IDEMPOTENCE_URL")?;
    let idempotency = Idempotency::builder_from_url(&url).await?;
    let idempotency = idempotency.deadline(Duration::from_secs(3)).build()?;
    run(service_fn(|request| charge(&idempotency, request))).await
}

async fn charge(
    idempotency: &Idempotency,
    request: Request,
) -> Result<Response<Body>, lambda_http::Error> {
    let key = request.headers().get("idempotency-key");
    let Some(key) = key.and_then(|key| key.to_str().ok()) else {
        return answer(400, "the header `Idempotency-Key` is missing".to_owned());
    };
    let context = request.lambda_context();
    let rest = context.deadline().duration_since(SystemTime::now());
    let call = idempotency
        .call("orders.charge")
        .key(key)
        .ttl(Duration::from_hours(24))
        .lease(rest.unwrap_or_default().max(Duration::from_secs(1)))
        .renew(Renew::No)
        .replay();
    // The charge: its receipt is the number of the invocation.
    match call.run(async { Ok::<_, Error>(context.request_id) }).await {
        Ok(receipt) => answer(200, receipt),
        Err(error) => answer(error.http_status(), error.code().to_owned()),
    }
}

fn answer(status: u16, body: String) -> Result<Response<Body>, lambda_http::Error> {
    Ok(Response::builder().status(status).body(body.into())?)
}
