//! Consumers are killed, messages are delivered again, the server is down: each order is shipped once.

mod crew;
mod shop;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::error::Error as StdError;
use std::hash::{BuildHasher as _, RandomState};
use std::ops::Range;
use std::sync::mpsc::channel;
use std::time::Duration;

use idempotence::Idempotency;
use idempotence_test_servers::RedisServer;
use redis::Commands as _;

use self::crew::{Crew, News};
use self::shop::Shop;

const BIN: &str = env!("CARGO_BIN_EXE_stream_consumer");
const REDELIVER_AFTER: Duration = Duration::from_secs(2);
/// Tea in stock without an order, so that the test detects an order that is sold twice.
const SPARE: usize = 1000;

#[test]
fn each_order_is_shipped_once_with_killed_consumers_and_repeated_deliveries() {
    // If this process stands still, the consumers end before it kills them.
    let mut met = Met::default();
    for _ in 0..10 {
        met.add(&ship_each_order_once());
        if met.has_all() {
            return;
        }
    }
    panic!("expected more kills and deliveries, got {met:?}");
}

/// What happened to consumers and messages.
#[derive(Debug, Default)]
struct Met {
    /// Kills during a body.
    in_a_body: usize,
    /// Kills after a body took from the stock.
    after_a_sale: usize,
    /// Orders that were found in the ledger.
    found: usize,
    /// Deliveries that were skipped.
    skipped: usize,
}

impl Met {
    fn add(&mut self, other: &Self) {
        self.in_a_body += other.in_a_body;
        self.after_a_sale += other.after_a_sale;
        self.found += other.found;
        self.skipped += other.skipped;
    }

    fn has_all(&self) -> bool {
        self.in_a_body >= 10 && self.after_a_sale >= 5 && self.found >= 5 && self.skipped >= 10
    }
}

fn ship_each_order_once() -> Met {
    const KILLS: usize = 24;
    let server = RedisServer::start().unwrap();
    let shop = Shop::on(&server);
    shop.produce(200);
    let messages: HashMap<String, String> = shop.messages().into_iter().collect();
    let moons: BTreeSet<String> = (0..5).map(|number| format!("moon-{number}")).collect();
    for order in &moons {
        shop.publish(order, "moon");
    }

    let mut crew = Crew::new(&server, ["ada", "bob", "eve"]);
    let mut until_kill = [(); 3].map(|()| random(1..20));
    let (mut kills, mut redelivered) = (Vec::<Vec<(String, bool)>>::new(), HashSet::new());
    let mut killed = 0;
    crew.work_until(|crew, slot, news| {
        match news {
            News::Dead(bodies) => {
                kills.push(bodies);
                until_kill[slot] = random(1..20);
                crew.start(slot);
            }
            News::Line(line) => {
                if let Some(order) = line.strip_prefix("packing ")
                    && let Some(id) = messages.get(order)
                    && redelivered.len() < 40
                    && redelivered.insert(id)
                {
                    shop.deliver_again(id);
                }
                until_kill[slot] = until_kill[slot].saturating_sub(1);
                // A message whose consumer is killed at each delivery would become a dead letter.
                let twice = crew.seen.bodies[slot].keys().any(|order| {
                    let bodies = kills.iter().flatten();
                    bodies.filter(|(killed, _)| killed == order).count() == 2
                });
                if until_kill[slot] == 0 && killed < KILLS && !twice {
                    until_kill[slot] = u64::MAX;
                    killed += 1;
                    crew.kill(slot);
                }
            }
            News::Nothing => {}
        }
        shop.is_done()
    });
    let seen = crew.stop();
    println!("{kills:?}\n{seen:?}");

    let orders: BTreeSet<String> = messages.into_keys().collect();
    assert_eq!(orders.len(), 200);
    assert_eq!(shop.in_ledger(), orders);
    assert_eq!(shop.tea(), SPARE);
    assert_eq!(shop.dead_letters("out of stock"), Vec::from_iter(moons));
    // A second success would have replaced the record of the first.
    for (order, times) in &seen.shipped {
        assert_eq!(*times, 1, "{order}");
    }

    let sold = kills.iter().flatten().filter(|(_, sold)| *sold);
    Met {
        in_a_body: kills.iter().filter(|bodies| !bodies.is_empty()).count(),
        after_a_sale: sold.count(),
        found: seen.found,
        skipped: seen.skipped,
    }
}

#[test]
fn a_repeated_order_is_skipped_and_another_order_under_its_number_is_a_dead_letter() {
    let server = RedisServer::start().unwrap();
    let shop = Shop::on(&server);
    shop.produce(10);
    let mut crew = Crew::new(&server, ["ada"]);
    crew.work_until(|_, _, _| shop.is_done());
    let (order, _) = shop.messages().swap_remove(0);

    shop.publish(&order, "tea");
    shop.publish(&order, "moon");
    let () = shop
        .redis()
        .xadd("shop:orders", "*", &[("hello", "world")])
        .unwrap();
    crew.work_until(|_, _, _| shop.is_done());

    let seen = crew.stop();
    assert_eq!(seen.shipped.len(), 10);
    assert_eq!(
        seen.skipped,
        1 + 1,
        "the producer and this test repeat one order each"
    );
    assert_eq!(shop.tea(), SPARE);
    assert_eq!(shop.dead_letters("another payload"), [order]);
    assert_eq!(shop.dead_letters("not an order"), [""]);
}

#[test]
fn a_message_whose_order_is_in_progress_stays_pending_and_is_not_counted() {
    let server = RedisServer::start().unwrap();
    let shop = Shop::on(&server);
    shop.produce(1);
    let (order, id) = shop.messages().swap_remove(0);

    let runtime = tokio::runtime::Runtime::new().unwrap();
    let builder = runtime.block_on(Idempotency::builder_from_url(&server.url()));
    let builder = builder.unwrap().deadline(Duration::from_mins(1));
    let idempotency = builder.build().unwrap();
    let (started, in_progress) = channel();
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    let call = idempotency
        .call("orders.ship")
        .key(&order)
        .payload("tea")
        .ttl(Duration::from_mins(1));
    let elsewhere = runtime.spawn(call.run(async move {
        started.send(()).unwrap();
        drop(ended.await);
        Err::<(), Box<dyn StdError + Send + Sync>>("the printer has no paper".into())
    }));
    in_progress.recv().unwrap();

    let mut crew = Crew::new(&server, ["ada"]);
    for _ in 0..3 {
        crew.work_until(|_, _, news| news.contains("refused"));
    }
    // A fourth delivery may have begun.
    assert!(shop.deliveries(&id) <= Some(1));
    assert!(shop.in_ledger().is_empty());

    drop(end);
    runtime.block_on(elsewhere).unwrap().unwrap_err();
    crew.work_until(|_, _, _| shop.is_done());
    assert_eq!(crew.stop().shipped.len(), 1);
    assert_eq!(shop.tea(), SPARE);
}

#[test]
fn a_stopping_consumer_finishes_its_messages_and_takes_no_more() {
    let server = RedisServer::start().unwrap();
    let shop = Shop::on(&server);
    shop.produce(400);
    let mut crew = Crew::new(&server, ["ada"]);
    crew.work_until(|_, _, news| news.contains("packing"));
    let seen = crew.stop();
    assert_eq!(seen.last, "stopped, all finished: true");
    assert_eq!(
        (shop.pending(), shop.in_ledger().len()),
        (0, seen.shipped.len())
    );
    assert!(
        (1..400).contains(&seen.shipped.len()),
        "{}",
        seen.shipped.len()
    );
}

#[test]
fn an_outage_of_the_server_loses_no_order_and_ships_none_twice() {
    let server = RedisServer::start_with(["--appendonly", "yes", "--appendfsync", "always"]);
    let server = server.unwrap();
    let shop = Shop::on(&server);
    shop.produce(200);
    let mut crew = Crew::new(&server, ["ada", "bob"]);
    crew.work_until(|_, _, news| news.contains("posted"));
    server.kill().unwrap();
    crew.work_until(|_, _, news| news.contains("stays pending"));
    server.restart().unwrap();
    crew.work_until(|_, _, _| shop.is_done());
    crew.stop();
    assert_eq!((shop.tea(), shop.in_ledger().len()), (SPARE, 200));
    assert!(shop.dead_letters("").is_empty());
}

fn random(range: Range<u64>) -> u64 {
    range.start + RandomState::new().hash_one(()) % (range.end - range.start)
}
