//! Consumers are killed, messages are delivered again, the server is down: each order is shipped once.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::error::Error as StdError;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{BufRead as _, BufReader};
use std::ops::Range;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use idempotence::Idempotency;
use idempotence_test_servers::RedisServer;
use redis::streams::{
    StreamClaimOptions, StreamInfoGroupsReply, StreamPendingCountReply, StreamRangeReply,
};
use redis::{Client, Commands as _, Connection};

const BIN: &str = env!("CARGO_BIN_EXE_stream_consumer");
const REDELIVER_AFTER: Duration = Duration::from_secs(2);
/// Tea in stock without an order, so that the test detects an order that is sold twice.
const SPARE: usize = 1000;

#[test]
fn each_order_is_shipped_once_with_killed_consumers_and_repeated_deliveries() {
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

    let in_a_body = kills.iter().filter(|bodies| !bodies.is_empty()).count();
    assert!(
        in_a_body >= 10,
        "expected 10 kills during a body, got {in_a_body}"
    );
    let after = kills.iter().flatten().filter(|(_, sold)| *sold).count();
    assert!(
        after >= 5,
        "expected 5 kills after a body took from the stock, got {after}"
    );
    assert!(
        seen.found >= 5,
        "expected 5 orders found in the ledger, got {}",
        seen.found
    );
    assert!(
        seen.skipped >= 10,
        "expected 10 skipped deliveries, got {}",
        seen.skipped
    );
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
    let idempotency = runtime
        .block_on(Idempotency::from_url(&server.url()))
        .unwrap();
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
    crew.work_until(|_, _, news| news.contains("refused"));
    assert_eq!(shop.deliveries(&id), Some(0));
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

/// The state in the Redis server.
struct Shop {
    url: String,
}

impl Shop {
    fn on(server: &RedisServer) -> Self {
        let shop = Self { url: server.url() };
        let () = shop.redis().hincr("shop:stock", "tea", SPARE).unwrap();
        shop
    }

    /// A new connection each time, because the server may have been restarted.
    fn redis(&self) -> Connection {
        Client::open(&*self.url).unwrap().get_connection().unwrap()
    }

    fn produce(&self, count: usize) {
        let produced = Command::new(BIN)
            .args([&self.url, "produce", &count.to_string()])
            .stdout(Stdio::null())
            .status();
        assert!(produced.unwrap().success());
    }

    fn publish(&self, order: &str, article: &str) {
        let fields = [("order", order), ("article", article)];
        let () = self.redis().xadd("shop:orders", "*", &fields).unwrap();
    }

    /// The orders and the ids of their messages.
    fn messages(&self) -> Vec<(String, String)> {
        let messages: StreamRangeReply = self.redis().xrange_all("shop:orders").unwrap();
        let messages = messages.ids.into_iter();
        messages
            .filter_map(|message| Some((message.get("order")?, message.id)))
            .collect()
    }

    /// Marks a message as delivered to a dead consumer, so that another consumer takes it.
    fn deliver_again(&self, id: &str) {
        let long_ago = StreamClaimOptions::default().idle(3_600_000).with_justid();
        let () = self
            .redis()
            .xclaim_options("shop:orders", "shippers", "dead", 0, &[id], long_ago)
            .unwrap();
    }

    /// Whether all messages are delivered and acknowledged.
    fn is_done(&self) -> bool {
        let groups: StreamInfoGroupsReply = self.redis().xinfo_groups("shop:orders").unwrap();
        let group = groups.groups.first();
        group.is_some_and(|group| (group.pending, group.lag) == (0, Some(0)))
    }

    fn pending(&self) -> usize {
        let groups: StreamInfoGroupsReply = self.redis().xinfo_groups("shop:orders").unwrap();
        groups.groups[0].pending
    }

    fn deliveries(&self, id: &str) -> Option<usize> {
        let pending: StreamPendingCountReply = self
            .redis()
            .xpending_count("shop:orders", "shippers", id, id, 1)
            .unwrap();
        Some(pending.ids.first()?.times_delivered)
    }

    fn in_ledger(&self) -> BTreeSet<String> {
        self.redis().hkeys("shop:parcels").unwrap()
    }

    /// The remaining tea.
    fn tea(&self) -> usize {
        self.redis().hget("shop:stock", "tea").unwrap()
    }

    /// The orders of the dead letters whose reason contains `why`.
    fn dead_letters(&self, why: &str) -> Vec<String> {
        let letters: StreamRangeReply = self.redis().xrange_all("shop:orders:dead").unwrap();
        let mut orders = Vec::new();
        for letter in letters.ids {
            if letter.get::<String>("reason").unwrap().contains(why) {
                orders.push(letter.get("order").unwrap_or_default());
            }
        }
        orders.sort();
        orders
    }
}

/// Consumers, each in its own process, and the lines that they print.
struct Crew {
    url: String,
    names: Vec<&'static str>,
    processes: Vec<Child>,
    lines: (Sender<Printed>, Receiver<Printed>),
    seen: Seen,
}

/// The index of a process, and a line of it. `None` means that the process ended.
type Printed = (usize, Option<String>);

/// A message of one consumer.
enum News {
    Line(String),
    /// The process ended. Its unfinished orders, and whether they were taken from the stock.
    Dead(Vec<(String, bool)>),
    Nothing,
}

#[derive(Debug, Default)]
struct Seen {
    shipped: HashMap<String, usize>,
    skipped: usize,
    found: usize,
    last: String,
    /// The unfinished orders of each consumer.
    bodies: Vec<HashMap<String, bool>>,
}

impl Crew {
    fn new<const N: usize>(server: &RedisServer, names: [&'static str; N]) -> Self {
        let mut crew = Self {
            url: server.url(),
            names: names.into(),
            processes: Vec::new(),
            lines: channel(),
            seen: Seen::default(),
        };
        for slot in 0..N {
            let process = crew.process(slot);
            crew.processes.push(process);
            crew.seen.bodies.push(HashMap::new());
        }
        crew
    }

    fn process(&self, slot: usize) -> Child {
        let seconds = REDELIVER_AFTER.as_secs().to_string();
        let mut process = Command::new(BIN)
            .args([&self.url, "consume", self.names[slot], &seconds])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(process.stdout.take().unwrap());
        let (name, lines) = (self.names[slot], self.lines.0.clone());
        thread::spawn(move || {
            for line in stdout.lines() {
                let line = line.unwrap();
                let line = line
                    .strip_prefix(name)
                    .and_then(|line| line.strip_prefix(": "));
                let _ = lines.send((slot, Some(line.unwrap().to_owned())));
            }
            let _ = lines.send((slot, None));
        });
        process
    }

    fn start(&mut self, slot: usize) {
        self.processes[slot].wait().unwrap();
        self.processes[slot] = self.process(slot);
    }

    fn kill(&mut self, slot: usize) {
        self.processes[slot].kill().unwrap();
    }

    /// Reads lines until `done`, which is called after each line and at intervals without a line.
    fn work_until(&mut self, mut done: impl FnMut(&mut Self, usize, News) -> bool) {
        let deadline = Instant::now() + Duration::from_mins(5);
        loop {
            let (slot, news) = self.next_news();
            if done(self, slot, news) {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "expected an end within five minutes: {:?}",
                self.seen
            );
        }
    }

    fn next_news(&mut self) -> (usize, News) {
        match self.lines.1.recv_timeout(Duration::from_millis(50)) {
            Ok((slot, Some(line))) => {
                self.seen.note(slot, &line);
                (slot, News::Line(line))
            }
            Ok((slot, None)) => (slot, News::Dead(self.seen.bodies[slot].drain().collect())),
            Err(_) => (0, News::Nothing),
        }
    }

    /// Stops all processes as with Ctrl-C, and reads their last lines.
    fn stop(mut self) -> Seen {
        for process in &self.processes {
            let id = process.id().to_string();
            let sent = Command::new("kill").args(["-INT", &id]).status();
            assert!(sent.unwrap().success());
        }
        let mut running = self.processes.len();
        self.work_until(|_, _, news| {
            running -= usize::from(matches!(news, News::Dead(_)));
            running == 0
        });
        for process in &mut self.processes {
            let status = process.wait().unwrap();
            // A process that started a moment ago does not handle the signal yet.
            assert!(status.success() || status.signal() == Some(2), "{status}");
        }
        std::mem::take(&mut self.seen)
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        for process in &mut self.processes {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

impl News {
    fn contains(&self, words: &str) -> bool {
        matches!(self, Self::Line(line) if line.contains(words))
    }
}

impl Seen {
    fn note(&mut self, slot: usize, line: &str) {
        let bodies = &mut self.bodies[slot];
        let mut words = line.split([' ', ':']);
        let (verb, order) = (words.next(), words.next().unwrap_or_default().to_owned());
        match verb {
            Some("packing") => drop(bodies.insert(order, false)),
            Some("posted") => drop(bodies.insert(order, true)),
            Some("found") => self.found += 1,
            Some("skipped") => self.skipped += 1,
            Some("shipped") => {
                bodies.remove(&order);
                *self.shipped.entry(order).or_default() += 1;
            }
            Some("unfinished" | "buried") => {
                bodies.remove(&order);
            }
            _ => {}
        }
        line.clone_into(&mut self.last);
    }
}

fn random(range: Range<u64>) -> u64 {
    range.start + RandomState::new().hash_one(()) % (range.end - range.start)
}
