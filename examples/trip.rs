//! Books trips in three steps, by several processes that may be killed at any moment: each provider charges each trip once.
//!
//! ```text
//! cargo run -p idempotence-examples --features redis --bin trip -- redis://127.0.0.1:6379/ 100
//! ```
//!
//! Start several, and kill some with `kill -9`. Each books the trips that are not booked yet, and ends when all are.
//!
//! # What guards what
//!
//! * The **guarded call** lets one process book a trip at a time. After a kill another process books the rest when the lease has ended.
//! * The **steps** keep what is done: that process does not ask the provider of a recorded step again.
//! * The **key of the step** guards the moment between the charge and its record. A process that is killed there leaves a charge without a
//!   record, so the next process asks the provider again, with the same key, and the provider answers with the first charge.
#![allow(clippy::print_stdout)]

use std::time::Duration;

use idempotence::{Error, Idempotency, RedisConnection, idempotent};
use redis::{AsyncCommands as _, Client, RedisError};
use tokio::time::sleep;

const PROVIDERS: [&str; 3] = ["flight", "hotel", "car"];

#[derive(Debug, thiserror::Error)]
enum TripError {
    #[error("{0}")]
    Provider(#[from] RedisError),
    #[error("{0}")]
    Refused(#[from] Error),
}

#[idempotent(name = "trips.book", key = "trip", ttl = "1h", lease = "500ms", context = cx)]
async fn book(trip: u32, providers: &Providers) -> Result<[String; 3], TripError> {
    let flight = cx
        .step("flight", async || {
            providers
                .charge("flight", trip, &cx.step_key("flight"))
                .await
        })
        .await?;
    providers.note(trip, "flight").await?;
    let hotel = cx
        .step("hotel", async || {
            providers.charge("hotel", trip, &cx.step_key("hotel")).await
        })
        .await?;
    providers.note(trip, "hotel").await?;
    let car = cx
        .step("car", async || {
            providers.charge("car", trip, &cx.step_key("car")).await
        })
        .await?;
    providers.note(trip, "car").await?;
    Ok([flight, hotel, car])
}

/// The three providers, whose books are in Redis. Each recognizes the key of a request that comes again.
struct Providers(RedisConnection);

impl Providers {
    async fn charge(&self, provider: &str, trip: u32, key: &str) -> Result<String, TripError> {
        let mut redis = self.0.clone();
        let () = redis.rpush(log(trip), format!("asks {provider}")).await?;
        println!("asks {provider}");
        let is_new: bool = redis
            .hset_nx(format!("trips:charges:{provider}"), key, trip)
            .await?;
        println!(
            "{provider}: {}",
            if is_new { "charged" } else { "charged before" }
        );
        Ok(format!("{provider} of trip {trip}"))
    }

    /// Notes that the body has the result of a step.
    async fn note(&self, trip: u32, step: &str) -> Result<(), TripError> {
        let mut redis = self.0.clone();
        let () = redis.rpush(log(trip), format!("has {step}")).await?;
        println!("has {step}");
        Ok(())
    }
}

/// The list of what happened to a trip.
fn log(trip: u32) -> String {
    format!("trips:log:{trip}")
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [url, trips] = &args[..] else {
        return Err("usage: trip redis://host:port/ TRIPS".into());
    };
    Idempotency::from_url(url).await?.install()?;
    let providers = Providers(RedisConnection::new(Client::open(url.as_str())?));
    let mut open: Vec<u32> = (1..=trips.parse()?).collect();
    while !open.is_empty() {
        let mut left = Vec::new();
        for trip in open {
            match book(trip, &providers).await {
                Ok(_) => println!("trip {trip} is booked"),
                Err(TripError::Refused(Error::AlreadyDone(_))) => {}
                // Another process books it, or was killed while it did.
                Err(TripError::Refused(Error::InProgress(_))) => left.push(trip),
                Err(TripError::Refused(error)) => {
                    println!("trip {trip}: {error}");
                    left.push(trip);
                }
                Err(TripError::Provider(error)) => {
                    println!("trip {trip}: {error}");
                    left.push(trip);
                }
            }
        }
        open = left;
        if !open.is_empty() {
            sleep(Duration::from_millis(20)).await;
        }
    }
    println!("all trips are booked with {PROVIDERS:?}");
    Ok(())
}
