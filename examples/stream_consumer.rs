//! A consumer of a Redis stream that may be killed at any moment: each order is shipped once.
//!
//! ```text
//! cargo run -p idempotence-examples --features redis --bin stream_consumer -- redis://127.0.0.1:6379/ produce 200
//! cargo run -p idempotence-examples --features redis --bin stream_consumer -- redis://127.0.0.1:6379/ consume ada
//! ```
//!
//! Start several consumers, kill some with `kill -9`, and start them again.
//!
//! # What guards what
//!
//! * The **consumer group** loses no message: a message is pending until a consumer acknowledges it, and is delivered again if
//!   no consumer does. So each message is delivered at least once.
//! * The **guarded call** separates the deliveries of one order. Its key is the number of the order, not the id of the message,
//!   so that an order that was published twice is also shipped once. One delivery packs. The others wait for it and get its
//!   parcel number, or are refused as in progress. The payload detects another order under the same number.
//! * The **ledger** guards the stock. A consumer may be killed after it has taken from the stock, but before the end of its
//!   call is recorded. Then the next consumer ships the order again: no lock knows what a dead process did. So one script takes
//!   from the stock *and* enters the order into the ledger, unless the order is already there. A database would use a
//!   transaction, and a table with a unique column.
//!
//! With only the ledger no order is sold twice, but each delivery packs, even two at the same time. With only the guarded call,
//! some kills sell an order twice. Other work in the body must be harmless if it happens twice: the mail may be sent twice.
//!
//! | the end of the call | the message |
//! | --- | --- |
//! | shipped, by this call or an equal call before it | acknowledged |
//! | in progress, or the store is unavailable: the body did not run | stays pending, and this delivery does not count |
//! | the body failed, or lost its lease | stays pending; after the fifth delivery a dead letter, with the reason |
//! | another order under the same number, or no order | a dead letter at once |
//!
//! A message can be delivered again while it is in the stream. So the result of its call is stored for longer (`TTL`) than the
//! producer keeps messages (`RETENTION`). An order that is published again after that is packed again, and the ledger, which
//! never expires, stops it.
#![allow(clippy::print_stdout)]

use std::error::Error as StdError;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime};

use idempotence::{Error, Idempotency, Once, RedisConnection};
use redis::streams::{
    StreamAddOptions, StreamAutoClaimOptions, StreamAutoClaimReply, StreamClaimOptions, StreamId,
    StreamPendingCountReply, StreamReadOptions, StreamReadReply, StreamTrimStrategy,
    StreamTrimmingMode,
};
use redis::{AsyncCommands as _, Client, RedisError, RedisResult, Script, Value};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

const ORDERS: &str = "shop:orders";
const DEAD_LETTERS: &str = "shop:orders:dead";
const GROUP: &str = "shippers";
const STOCK: &str = "shop:stock";
const LEDGER: &str = "shop:parcels";

/// How long the producer keeps messages, shipped or not. An outage of all consumers must be shorter.
const RETENTION: Duration = Duration::from_hours(24);
const TTL: Duration = Duration::from_hours(48);
const MOST_DELIVERIES: usize = 5;
const AT_ONCE: usize = 8;

#[tokio::main]
async fn main() -> Result<(), Box<dyn StdError>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        [url, "produce", count] => produce(url, count.parse()?).await,
        [url, "consume", name] => consume(url, name, Duration::from_secs(30)).await,
        [url, "consume", name, seconds] => {
            consume(url, name, Duration::from_secs(seconds.parse()?)).await
        }
        _ => Err("usage: stream_consumer redis://host:port/ \
                  (produce COUNT | consume NAME [REDELIVER_AFTER_SECONDS])"
            .into()),
    }
}

async fn produce(url: &str, count: u32) -> Result<(), Box<dyn StdError>> {
    let mut redis = RedisConnection::new(Client::open(url)?);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    let oldest = now.saturating_sub(RETENTION).as_millis().to_string();
    let trim = StreamTrimStrategy::minid(StreamTrimmingMode::Approx, oldest);
    let options = StreamAddOptions::default().trim(trim);

    let () = redis.hincr(STOCK, "tea", count).await?;
    for number in 0..count {
        let order = format!("{}-{number}", now.as_millis());
        // Every tenth order is published twice, as by a producer that did not get the first answer.
        for _ in 0..if number % 10 == 0 { 2 } else { 1 } {
            let fields = [("order", order.as_str()), ("article", "tea")];
            let () = redis.xadd_options(ORDERS, "*", &fields, &options).await?;
        }
    }
    println!("published {count} orders, every tenth of them twice");
    Ok(())
}

async fn consume(
    url: &str,
    name: &str,
    redeliver_after: Duration,
) -> Result<(), Box<dyn StdError>> {
    let client = Client::open(url)?;
    let mut inbox = Inbox::open(client.clone(), name, redeliver_after).await?;
    let shipper = Arc::new(Shipper {
        name: name.to_owned(),
        redis: RedisConnection::new(client),
        idempotency: Idempotency::from_url(url).await?,
        // The lease expires before the message of a dead consumer is delivered again.
        lease: redeliver_after / 2,
    });

    let stop = tokio::spawn(tokio::signal::ctrl_c());
    let mut running = JoinSet::new();
    while !stop.is_finished() {
        while running.try_join_next().is_some() {}
        if running.len() == AT_ONCE {
            running.join_next().await;
        }
        match inbox.next(AT_ONCE - running.len()).await {
            Ok(messages) => running.extend(
                messages
                    .into_iter()
                    .map(|message| Arc::clone(&shipper).handle(message)),
            ),
            Err(error) => {
                println!("{name}: cannot read, will try again: {error}");
                sleep(Duration::from_secs(1)).await;
            }
        }
    }

    // A message that is not finished in time is delivered to another consumer.
    let finished = async { while running.join_next().await.is_some() {} };
    let in_time = timeout(Duration::from_secs(20), finished).await.is_ok();
    let recorded = shipper.idempotency.drain(Duration::from_secs(5)).await;
    println!(
        "{name}: stopped, all finished: {}",
        in_time && recorded.is_ok()
    );
    Ok(())
}

struct Message {
    entry: StreamId,
    /// How often the message was delivered to a consumer that tried to handle it, including this delivery.
    deliveries: usize,
}

/// The source of the messages of one consumer.
struct Inbox {
    /// A separate connection, because a read that waits for messages blocks it.
    redis: RedisConnection,
    consumer: String,
    redeliver_after: Duration,
    cursor: String,
}

impl Inbox {
    async fn open(client: Client, consumer: &str, redeliver_after: Duration) -> RedisResult<Self> {
        let mut redis = RedisConnection::new(client);
        // The group starts with the first message: messages may be older than the group.
        match redis.xgroup_create_mkstream(ORDERS, GROUP, "0").await {
            Err(error) if error.code() != Some("BUSYGROUP") => return Err(error),
            Ok(()) | Err(_) => {}
        }
        Ok(Self {
            redis,
            consumer: consumer.to_owned(),
            redeliver_after,
            cursor: "0-0".to_owned(),
        })
    }

    /// Returns at most `count` messages. Returns none if no message arrives for half a second.
    async fn next(&mut self, count: usize) -> RedisResult<Vec<Message>> {
        let again = self.pending_too_long(count).await?;
        if !again.is_empty() {
            return Ok(again);
        }
        let options = StreamReadOptions::default()
            .group(GROUP, &self.consumer)
            .count(count)
            .block(500);
        let reply: Option<StreamReadReply> = self
            .redis
            .xread_options(&[ORDERS], &[">"], &options)
            .await?;
        let keys = reply.map(|reply| reply.keys).unwrap_or_default();
        let entries = keys.into_iter().flat_map(|key| key.ids);
        Ok(entries
            .map(|entry| Message {
                entry,
                deliveries: 1,
            })
            .collect())
    }

    /// Messages that are pending for too long: their consumer, perhaps this consumer, died or did not acknowledge them.
    async fn pending_too_long(&mut self, count: usize) -> RedisResult<Vec<Message>> {
        let idle = self.redeliver_after.as_millis().to_string();
        let options = StreamAutoClaimOptions::default().count(count);
        let reply: StreamAutoClaimReply = self
            .redis
            .xautoclaim_options(ORDERS, GROUP, &self.consumer, idle, &self.cursor, options)
            .await?;
        // Each call scans a part of the pending messages. The next call continues there.
        self.cursor = reply.next_stream_id;
        let mut messages = Vec::new();
        for entry in reply.claimed {
            let pending: StreamPendingCountReply = self
                .redis
                .xpending_count(ORDERS, GROUP, &entry.id, &entry.id, 1)
                .await?;
            // Another consumer may have acknowledged the message in the meantime.
            if let Some(pending) = pending.ids.first() {
                messages.push(Message {
                    entry,
                    deliveries: pending.times_delivered,
                });
            }
        }
        Ok(messages)
    }
}

/// Handles messages.
struct Shipper {
    name: String,
    redis: RedisConnection,
    idempotency: Idempotency,
    lease: Duration,
}

impl Shipper {
    async fn handle(self: Arc<Self>, message: Message) {
        let id = &message.entry.id;
        let settled = match (message.entry.get("order"), message.entry.get("article")) {
            (Some(order), Some(article)) => self.settle(&message, order, article).await,
            _ => self.bury(&message, "a message", "it is not an order").await,
        };
        match settled {
            Ok(what) => println!("{}: {what} (message {id})", self.name),
            Err(error) => println!("{}: message {id} stays pending: {error}", self.name),
        }
    }

    async fn settle(
        &self,
        message: &Message,
        order: String,
        article: String,
    ) -> RedisResult<String> {
        let shipped = self
            .idempotency
            .call("orders.ship")
            .key(&order)
            .payload(&article)
            .ttl(TTL)
            .lease(self.lease)
            // Waiting for an equal call is cheaper than another delivery.
            .wait(Duration::from_secs(1))
            .replay()
            .run(self.ship(&order, &article, message))
            .await;
        match shipped {
            Ok(Once::Executed(parcel)) => {
                self.acknowledge(message).await?;
                Ok(format!("shipped {order} as {parcel}"))
            }
            Ok(Once::Replayed(parcel)) => {
                self.acknowledge(message).await?;
                Ok(format!("skipped {order}: it was shipped as {parcel}"))
            }
            Err(Unshipped::Refused(error)) => match error {
                Error::AlreadyDone(_) | Error::ResultUnavailable(_) => {
                    self.acknowledge(message).await?;
                    Ok(format!("skipped {order}: {error}"))
                }
                Error::PayloadMismatch(_) => self.bury(message, &order, &error.to_string()).await,
                Error::LeaseLost(_) => Ok(format!("unfinished {order}: {error}")),
                _ => {
                    self.give_back(message).await?;
                    Ok(format!("refused {order}: {error}"))
                }
            },
            Err(error) if message.deliveries >= MOST_DELIVERIES => {
                self.bury(message, &order, &error.to_string()).await
            }
            Err(error) => Ok(format!("unfinished {order}: {error}")),
        }
    }

    async fn ship(
        &self,
        order: &str,
        article: &str,
        message: &Message,
    ) -> Result<Once<String>, Unshipped> {
        // This check is in the body, where no other delivery can ship the order.
        if message.deliveries > MOST_DELIVERIES {
            return Err(Unshipped::NeverFinished);
        }
        println!("{}: packing {order}", self.name);
        sleep(Duration::from_millis(100)).await;

        let parcel = format!("parcel {}/{}", message.entry.id, message.deliveries);
        let mut redis = self.redis.clone();
        let entered: Option<String> = TAKE
            .key(STOCK)
            .key(LEDGER)
            .arg(article)
            .arg(order)
            .arg(&parcel)
            .invoke_async(&mut redis)
            .await?;
        let entered = entered.ok_or(Unshipped::OutOfStock)?;
        if entered == parcel {
            println!("{}: posted {order}", self.name);
        } else {
            println!("{}: found {order} in the ledger, as {entered}", self.name);
        }

        // A mail to the customer.
        sleep(Duration::from_millis(50)).await;
        Ok(Once::Executed(entered))
    }

    async fn acknowledge(&self, message: &Message) -> RedisResult<()> {
        let mut redis = self.redis.clone();
        redis.xack(ORDERS, GROUP, &[&message.entry.id]).await
    }

    /// Does not count this delivery, because the body did not run. The message is delivered again.
    async fn give_back(&self, message: &Message) -> RedisResult<()> {
        let mut redis = self.redis.clone();
        let options = StreamClaimOptions::default()
            .retry(message.deliveries - 1)
            .with_justid();
        let ids = [&message.entry.id];
        redis
            .xclaim_options(ORDERS, GROUP, &self.name, 0, &ids, options)
            .await
    }

    async fn bury(&self, message: &Message, what: &str, why: &str) -> RedisResult<String> {
        let mut redis = self.redis.clone();
        let mut bury = BURY.key(ORDERS);
        bury.key(DEAD_LETTERS).arg(GROUP).arg(&message.entry.id);
        bury.arg("reason").arg(why);
        for (field, value) in &message.entry.map {
            if let Value::BulkString(value) = value {
                bury.arg(field).arg(value);
            }
        }
        let () = bury.invoke_async(&mut redis).await?;
        Ok(format!("buried {what}: {why}"))
    }
}

/// Takes one article from the stock for an order, unless the ledger already has the order. Returns the parcel in the ledger, or
/// nothing if the article is out of stock.
static TAKE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local parcel = redis.call('HGET', KEYS[2], ARGV[2])
         if parcel then
             return parcel
         end
         if tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or 0) < 1 then
             return nil
         end
         redis.call('HINCRBY', KEYS[1], ARGV[1], -1)
         redis.call('HSET', KEYS[2], ARGV[2], ARGV[3])
         return ARGV[3]",
    )
});

/// Moves a message to the dead letters if it is still pending, so that it moves once.
static BURY: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('XACK', KEYS[1], ARGV[1], ARGV[2]) == 1 then
             redis.call('XADD', KEYS[2], '*', 'message', unpack(ARGV, 2))
         end",
    )
});

/// Why an order is not shipped.
#[derive(Debug, thiserror::Error)]
enum Unshipped {
    /// The body did not run or was stopped.
    #[error("{0}")]
    Refused(#[from] Error),
    #[error("{0}")]
    Redis(#[from] RedisError),
    #[error("out of stock")]
    OutOfStock,
    #[error("no delivery of it ever finished")]
    NeverFinished,
}
