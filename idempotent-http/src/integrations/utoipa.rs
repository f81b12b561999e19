//! Documents of `OpenAPI` say what an [`IdempotencyLayer`] does.
//!
//! The layer is a [`Modify`]. For each operation that it guards, it adds the header with the key, the refusals, the header of a
//! replay in each 2xx, and the window as `x-idempotency`:
//!
//! ```
//! use http::header::AUTHORIZATION;
//! use idempotence::http::IdempotencyLayer;
//! use idempotence::{Idempotency, MemoryStore};
//! use utoipa::{Modify as _, OpenApi};
//!
//! #[utoipa::path(post, path = "/orders", responses((status = 201, description = "The order is placed")))]
//! async fn place() {}
//!
//! #[derive(OpenApi)]
//! #[openapi(paths(place))]
//! struct Api;
//!
//! let idempotency = Idempotency::new(MemoryStore::new());
//! let layer = IdempotencyLayer::builder(&idempotency)
//!     .scope_by_header(AUTHORIZATION)
//!     .build();
//! let mut document = Api::openapi();
//! layer.modify(&mut document);
//! assert!(document.to_json().unwrap().contains("Idempotency-Key"));
//! ```
//!
//! The paths of the document must be the routes of the router, because [`for_route`](crate::LayerBuilder::for_route) names routes. Settings that
//! change the `ttl` of an endpoint do not change the document. A response that the document already has for a status keeps its description and its contents.
//!
//! A document is for the routes of one layer: each operation with a guarded method is changed, and a second layer would replace the schema of the refusals.

use std::time::Duration;

use ::http::Method;
use ::utoipa::Modify;
use ::utoipa::openapi::extensions::Extensions;
use ::utoipa::openapi::header::Header;
use ::utoipa::openapi::path::{Operation as Documented, Parameter, ParameterBuilder, ParameterIn};
use ::utoipa::openapi::schema::{ObjectBuilder, Schema, SchemaFormat, Type};
use ::utoipa::openapi::{Components, ContentBuilder, OpenApi, Ref, RefOr, Required, Response};
use serde_json::json;

use crate::IdempotencyLayer;
use crate::describe::{self, Operation, Read};
use crate::profile::table::BodyForm;
use crate::request::key::text::KeySyntax;

/// The name of the schema of a refusal.
const SCHEMA: &str = "IdempotencyRefusal";

impl Modify for IdempotencyLayer {
    fn modify(&self, openapi: &mut OpenApi) {
        let mut body = None;
        for (path, item) in &mut openapi.paths.paths {
            let known = [
                (Method::POST, &mut item.post),
                (Method::PATCH, &mut item.patch),
                (Method::PUT, &mut item.put),
                (Method::DELETE, &mut item.delete),
            ];
            let known = known.into_iter().filter_map(|(method, documented)| {
                let documented = documented.as_mut()?;
                Some((method, documented))
            });
            let others = item.additional_operations.iter_mut();
            let others = others.filter_map(|(method, documented)| {
                let method = Method::from_bytes(method.as_bytes()).ok()?;
                Some((method, documented))
            });
            for (method, documented) in known.chain(others) {
                if let Some(operation) = self.operation(&method, path) {
                    document(&operation, documented);
                    body = Some(operation.body);
                }
            }
        }
        if let Some(body) = body {
            let components = openapi.components.get_or_insert_with(Components::new);
            components
                .schemas
                .insert(SCHEMA.to_owned(), schema(body).into());
        }
    }
}

/// Adds what the layer does.
fn document(operation: &Operation, documented: &mut Documented) {
    let parameters = documented.parameters.get_or_insert_default();
    for read in &operation.reads {
        let is_named = |known: &RefOr<Parameter>| match known {
            RefOr::T(known) => {
                known.parameter_in == ParameterIn::Header
                    && known.name.eq_ignore_ascii_case(&read.name)
            }
            RefOr::Ref(_) => false,
        };
        parameters.retain(|known| !is_named(known));
        parameters.push(parameter(read).into());
    }
    for (status, response) in &mut documented.responses.responses {
        if let (true, RefOr::T(response)) = (status.starts_with('2'), response) {
            add_marks(operation, response);
        }
    }
    for (status, codes) in &operation.refusals {
        let responses = &mut documented.responses.responses;
        let response = responses.entry(status.to_string()).or_insert_with(|| {
            let description = format!("The request is refused: {}", codes.join(", "));
            Response::new(description).into()
        });
        if let RefOr::T(response) = response {
            add_refusal(operation, *status, response);
        }
    }
    let window = json!({"window": iso_8601(operation.window), "required": operation.requires_key});
    let window = Extensions::from_iter([("x-idempotency", window)]);
    match &mut documented.extensions {
        Some(extensions) => extensions.merge(window),
        None => documented.extensions = Some(window),
    }
}

fn parameter(read: &Read) -> Parameter {
    let mut value = ObjectBuilder::new().schema_type(Type::String);
    if read.key.is_some() {
        value = value.min_length(Some(1)).max_length(Some(255));
    }
    if read.key == Some(KeySyntax::Uuid) {
        value = value.format(Some(SchemaFormat::Custom("uuid".to_owned())));
    }
    let required = if read.is_required {
        Required::True
    } else {
        Required::False
    };
    ParameterBuilder::new()
        .name(&read.name)
        .parameter_in(if read.is_in_query {
            ParameterIn::Query
        } else {
            ParameterIn::Header
        })
        .required(required)
        .description(Some(read.what))
        .schema(Some(value))
        .build()
}

/// The headers of a response that may be a replay.
fn add_marks(operation: &Operation, response: &mut Response) {
    if let Some(marker) = &operation.marker {
        let header = text_header(
            "true: this is the stored response to an earlier request with this key",
            "true",
        );
        response.headers.insert(marker.clone(), header.into());
    }
    add_result(operation, response);
}

fn add_result(operation: &Operation, response: &mut Response) {
    if let Some(result) = &operation.result {
        let what = "Whether the request, or an earlier request with its id, was accepted: accepted or rejected";
        let header = text_header(what, "accepted");
        response.headers.insert(result.clone(), header.into());
    }
}

fn add_refusal(operation: &Operation, status: u16, response: &mut Response) {
    let content_type = match operation.body {
        BodyForm::Problem => "application/problem+json",
        BodyForm::Coded | BodyForm::Nested { .. } | BodyForm::Flat { .. } => "application/json",
    };
    let content = || {
        let schema = Ref::from_schema_name(SCHEMA);
        RefOr::T(ContentBuilder::new().schema(Some(schema)).build())
    };
    let contents = &mut response.content;
    contents
        .entry(content_type.to_owned())
        .or_insert_with(content);
    if matches!(status, 409 | 503) {
        let mut header = Header::new(ObjectBuilder::new().schema_type(Type::Integer));
        header.description =
            Some("After how many seconds the client may send the request again".to_owned());
        let headers = &mut response.headers;
        headers
            .entry(describe::retry_after())
            .or_insert(header.into());
    }
    add_result(operation, response);
}

fn text_header(what: &str, example: &str) -> Header {
    let mut header = Header::new(ObjectBuilder::new().schema_type(Type::String));
    header.description = Some(what.to_owned());
    header.example = Some(example.into());
    header
}

/// The schema of the body of a refusal.
fn schema(body: &BodyForm) -> Schema {
    let text = || ObjectBuilder::new().schema_type(Type::String);
    let coded = || {
        let error = ObjectBuilder::new().schema_type(Type::Object);
        let error = error.property("code", text()).property("message", text());
        error.required("message")
    };
    let typed = || coded().property("type", text()).required("type");
    let nested = |error: ObjectBuilder| {
        let object = ObjectBuilder::new().schema_type(Type::Object);
        object.property("error", error).required("error")
    };
    let object = match body {
        BodyForm::Flat { .. } => typed(),
        BodyForm::Nested { .. } => nested(typed().property("doc_url", text())),
        BodyForm::Coded => nested(coded().required("code")),
        BodyForm::Problem => {
            let mut problem = ObjectBuilder::new().schema_type(Type::Object);
            for name in ["type", "title", "detail", "code", "client_action"] {
                problem = problem.property(name, text()).required(name);
            }
            for name in ["retryable", "silent"] {
                let flag = ObjectBuilder::new().schema_type(Type::Boolean);
                problem = problem.property(name, flag).required(name);
            }
            for name in ["status", "retry_after_ms"] {
                let number = ObjectBuilder::new().schema_type(Type::Integer);
                problem = problem.property(name, number);
            }
            problem.required("status")
        }
    };
    object.build().into()
}

/// The duration in the form of ISO 8601, such as `P1D` or `PT1M30S`.
fn iso_8601(duration: Duration) -> String {
    let part = |number: u64, unit| match number {
        0 => String::new(),
        _ => format!("{number}{unit}"),
    };
    let whole = duration.as_secs();
    let date = part(whole / 86_400, 'D');
    let (hours, minutes) = (part(whole / 3_600 % 24, 'H'), part(whole / 60 % 60, 'M'));
    let seconds = match (whole % 60, duration.subsec_millis()) {
        (seconds, 0) => part(seconds, 'S'),
        (seconds, millis) => format!("{seconds}.{millis:03}S"),
    };
    let time = [hours, minutes, seconds].concat();
    match (date.is_empty(), time.is_empty()) {
        (true, true) => "PT0S".to_owned(),
        (false, true) => format!("P{date}"),
        (_, false) => format!("P{date}T{time}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_a_duration_of_iso_8601() {
        for (duration, text) in [
            (Duration::from_hours(24), "P1D"),
            (Duration::from_hours(36), "P1DT12H"),
            (Duration::from_hours(1), "PT1H"),
            (Duration::from_secs(90), "PT1M30S"),
            (Duration::from_millis(1_500), "PT1.500S"),
            (Duration::from_millis(60_001), "PT1M0.001S"),
            (Duration::ZERO, "PT0S"),
        ] {
            assert_eq!(iso_8601(duration), text);
        }
    }
}
