//! The examples do what their docs promise: as processes, on private servers.
#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs)]

mod actix_orders;
mod front_end;
mod funnel;
mod http_orders;
mod import_rows;
mod lock_check_update;
mod opentelemetry;
mod outbox;
mod quickstart;
mod service;
mod shop;
mod stream_consumer;
mod trip;
