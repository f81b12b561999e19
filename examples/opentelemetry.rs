//! Each guarded call is a span of OpenTelemetry. A duplicate click has a span, too, which says why it was refused.
//!
//! ```text
//! cargo run -p idempotence-examples --features opentelemetry --bin opentelemetry
//! ```
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::time::Duration;

use idempotence::{Idempotency, idempotent};
use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanExporter};
use tracing::Level;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::prelude::*;

/// Charges a card.
#[idempotent(name = "orders.pay", key = "order_no", ttl = "24h")]
async fn pay(order_no: u64) -> Result<(), idempotence::Error> {
    tokio::time::sleep(Duration::from_millis(20)).await;
    Ok(())
}

/// A request of the program, whose span has the spans of its calls.
#[tracing::instrument]
async fn click(order_no: u64) {
    // The page of the user says it; here the span of the call does.
    let _ = pay(order_no).await;
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // A program sends its spans: here `opentelemetry_otlp::SpanExporter`, and `with_batch_exporter`.
    let provider = SdkTracerProvider::builder()
        .with_simple_exporter(Print)
        .build();
    let spans = tracing_opentelemetry::layer()
        .with_tracer(provider.tracer("shop"))
        .with_location(false)
        .with_threads(false)
        .with_tracked_inactivity(false);
    // The span of a call has the level DEBUG.
    let levels = Targets::new()
        .with_default(Level::INFO)
        .with_target("idempotence", Level::DEBUG);
    tracing_subscriber::registry()
        .with(spans.with_filter(levels))
        .try_init()?;

    Idempotency::from_url("memory:").await?.install()?;
    click(42).await;
    click(42).await;
    provider.shutdown()?;
    Ok(())
}

/// Prints each span when it has ended, with its attributes and events.
#[derive(Debug)]
struct Print;

impl SpanExporter for Print {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        for span in batch {
            println!("{}{}", span.name, texts(&span.attributes));
            for event in span.events {
                println!("  {}{}", event.name, texts(&event.attributes));
            }
        }
        Ok(())
    }
}

fn texts(attributes: &[KeyValue]) -> String {
    let text = |pair: &KeyValue| format!(" {}={:?}", pair.key, pair.value.as_str());
    attributes.iter().map(text).collect()
}
