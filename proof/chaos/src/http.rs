//! Storms of HTTP requests: a thousand clients send the same request at once, to two services that share one Redis.
//! Meanwhile clients disconnect, a service is killed, and the Redis is restarted.
//!
//! A [`storm`](storm::storm) is a number of waves. Each wave has its own keys and its own fault. The services write when a
//! body starts and when it has its effect. The [`check`](check::check) compares that with what the clients received.

pub mod check;
mod client;
mod process;
pub mod service;
pub mod storm;
