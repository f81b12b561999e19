//! The orders, the stock and the parcels in the Redis server.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use idempotence_test_servers::RedisServer;
use redis::streams::{
    StreamClaimOptions, StreamInfoGroupsReply, StreamPendingCountReply, StreamRangeReply,
};
use redis::{Client, Commands as _, Connection};

use super::{BIN, SPARE};

/// The state in the Redis server.
pub(crate) struct Shop {
    url: String,
}

impl Shop {
    pub(crate) fn on(server: &RedisServer) -> Self {
        let shop = Self { url: server.url() };
        let () = shop.redis().hincr("shop:stock", "tea", SPARE).unwrap();
        shop
    }

    /// A new connection each time, because the server may have been restarted.
    pub(crate) fn redis(&self) -> Connection {
        Client::open(&*self.url).unwrap().get_connection().unwrap()
    }

    pub(crate) fn produce(&self, count: usize) {
        let produced = Command::new(BIN)
            .args([&self.url, "produce", &count.to_string()])
            .stdout(Stdio::null())
            .status();
        assert!(produced.unwrap().success());
    }

    pub(crate) fn publish(&self, order: &str, article: &str) {
        let fields = [("order", order), ("article", article)];
        let () = self.redis().xadd("shop:orders", "*", &fields).unwrap();
    }

    /// The orders and the ids of their messages.
    pub(crate) fn messages(&self) -> Vec<(String, String)> {
        let messages: StreamRangeReply = self.redis().xrange_all("shop:orders").unwrap();
        let messages = messages.ids.into_iter();
        messages
            .filter_map(|message| Some((message.get("order")?, message.id)))
            .collect()
    }

    /// Marks a message as delivered to a dead consumer, so that another consumer takes it.
    pub(crate) fn deliver_again(&self, id: &str) {
        let long_ago = StreamClaimOptions::default().idle(3_600_000).with_justid();
        let () = self
            .redis()
            .xclaim_options("shop:orders", "shippers", "dead", 0, &[id], long_ago)
            .unwrap();
    }

    /// Whether all messages are delivered and acknowledged.
    pub(crate) fn is_done(&self) -> bool {
        let groups: StreamInfoGroupsReply = self.redis().xinfo_groups("shop:orders").unwrap();
        let group = groups.groups.first();
        group.is_some_and(|group| (group.pending, group.lag) == (0, Some(0)))
    }

    pub(crate) fn pending(&self) -> usize {
        let groups: StreamInfoGroupsReply = self.redis().xinfo_groups("shop:orders").unwrap();
        groups.groups[0].pending
    }

    pub(crate) fn deliveries(&self, id: &str) -> Option<usize> {
        let pending: StreamPendingCountReply = self
            .redis()
            .xpending_count("shop:orders", "shippers", id, id, 1)
            .unwrap();
        Some(pending.ids.first()?.times_delivered)
    }

    pub(crate) fn in_ledger(&self) -> BTreeSet<String> {
        self.redis().hkeys("shop:parcels").unwrap()
    }

    /// The remaining tea.
    pub(crate) fn tea(&self) -> usize {
        self.redis().hget("shop:stock", "tea").unwrap()
    }

    /// The orders of the dead letters whose reason contains `why`.
    pub(crate) fn dead_letters(&self, why: &str) -> Vec<String> {
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
