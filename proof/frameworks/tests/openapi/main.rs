//! A document of `OpenAPI` says what the layer does.
//!
//! `UPDATE_SNAPSHOTS=1 cargo test -p idempotence-frameworks --test openapi` writes the snapshots again. Read the diff.
#![allow(clippy::unwrap_used, missing_docs)]
#![expect(dead_code, reason = "only the macro reads the functions")]

use std::path::Path;
use std::time::Duration;

use axum::http::HeaderValue;
use axum::http::header::AUTHORIZATION;
use idempotence::http::{
    HasScope, IdempotencyLayer, KeySource, KeySyntax, LayerBuilder, Profile, RouteOptions,
};
use idempotence::{Idempotency, MemoryStore};
use serde_json::Value;
use utoipa::{Modify as _, OpenApi};

#[utoipa::path(post, path = "/orders", responses((status = 201, description = "The order is placed"), (status = 409, description = "The shop is closed")))]
fn place() {}

#[utoipa::path(get, path = "/orders", responses((status = 200, description = "All orders")))]
fn list() {}

#[utoipa::path(post, path = "/orders/{id}/pay", params(("id" = u64, Path)), responses((status = 200, description = "Paid"), (status = 402, description = "Declined")))]
fn pay() {}

#[utoipa::path(post, path = "/uploads/{path}", responses((status = 204, description = "Stored")))]
fn upload() {}

#[derive(OpenApi)]
#[openapi(
    paths(place, list, pay, upload),
    info(title = "Shop", version = "1", description = "", license(name = "MIT"))
)]
struct Shop;

fn builder() -> LayerBuilder<impl HasScope + use<>> {
    let idempotency = Idempotency::new(MemoryStore::new());
    IdempotencyLayer::builder(&idempotency).scope_by_header(AUTHORIZATION)
}

/// The document of the shop behind this layer.
fn document(layer: LayerBuilder<impl HasScope>) -> Value {
    let mut document = Shop::openapi();
    layer.build().modify(&mut document);
    serde_json::to_value(&document).unwrap()
}

/// Asserts that the document is as in the file.
fn assert_snapshot(document: &Value, name: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/openapi");
    let path = folder.join(name);
    let text = serde_json::to_string_pretty(document).unwrap() + "\n";
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let snapshot = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(snapshot, text, "{name}");
}

#[test]
fn each_guarded_operation_has_the_header_the_refusals_and_the_window() {
    let layer = builder()
        .for_route("/orders/{id}/pay", |pay| {
            pay.require_key().ttl(Duration::from_hours(36))
        })
        .for_route("/uploads/{*path}", RouteOptions::unguarded)
        .challenge(HeaderValue::from_static("Bearer"));
    assert_snapshot(&document(layer), "ietf.json");
}

#[test]
fn the_names_of_a_profile_are_in_the_document() {
    for (profile, name) in [
        (Profile::Stripe, "stripe.json"),
        (Profile::Acp, "acp.json"),
        (Profile::Repeatability, "repeatability.json"),
    ] {
        assert_snapshot(&document(builder().profile(profile)), name);
    }
}

#[test]
fn an_operation_that_is_not_guarded_does_not_change() {
    let layer = builder().for_route("/uploads/{*path}", RouteOptions::unguarded);
    let (guarded, plain) = (
        document(layer),
        serde_json::to_value(Shop::openapi()).unwrap(),
    );
    for pointer in ["/paths/~1orders/get", "/paths/~1uploads~1{path}"] {
        assert!(plain.pointer(pointer).is_some());
        assert_eq!(guarded.pointer(pointer), plain.pointer(pointer));
    }
    assert_ne!(
        guarded["paths"]["/orders"]["post"],
        plain["paths"]["/orders"]["post"]
    );
}

#[test]
fn a_response_of_the_program_keeps_its_description() {
    let document = document(builder());
    let responses = &document["paths"]["/orders"]["post"]["responses"];
    assert_eq!(responses["409"]["description"], "The shop is closed");
    assert_eq!(responses["409"]["content"].as_object().unwrap().len(), 1);
}

#[test]
fn a_document_that_is_modified_twice_is_the_same() {
    let layer = builder().build();
    let mut document = Shop::openapi();
    layer.modify(&mut document);
    let once = serde_json::to_value(&document).unwrap();
    layer.modify(&mut document);
    assert_eq!(serde_json::to_value(&document).unwrap(), once);
}

#[test]
fn the_syntax_and_the_place_of_the_key_are_in_the_document() {
    let parameters = |document: &Value| document["paths"]["/orders"]["post"]["parameters"].clone();
    let uuids = parameters(&document(builder().key_syntax(KeySyntax::Uuid)));
    assert_eq!(uuids[0]["schema"]["format"], "uuid");
    let in_query = builder()
        .require_key()
        .key_from(KeySource::query("requestId"));
    let in_query = parameters(&document(in_query));
    let seen = ["name", "in", "required"].map(|member| in_query[0][member].clone());
    assert_eq!(
        seen,
        ["requestId".into(), "query".into(), Value::Bool(true)]
    );
    // No header is required if the key may be in another place.
    let two = KeySource::default().or(KeySource::query("requestId"));
    let two = parameters(&document(builder().require_key().key_from(two)));
    let is_required = |at: usize| two[at]["required"].as_bool().unwrap();
    assert_eq!([is_required(0), is_required(1)], [false, false]);
    let in_body = builder().key_from(KeySource::json_field("request_id"));
    assert_eq!(
        parameters(&document(in_body)).as_array().map(Vec::len),
        Some(0)
    );
}
