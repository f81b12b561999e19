//! Bloom filters: in bitmaps, or by the server's module if it has one.
//!
//! Both are kept in a [`Ring`](super::ring::Ring) of two buckets to a retention. The module's filters stand under keys of
//! their own, so that a server which gains or loses the module never finds a value of the wrong type.

mod bitmaps;
mod buckets;
mod module;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ::redis::RedisResult;
use ::redis::aio::ConnectionLike;

use super::failure::is_forbidden;
use crate::store::{BloomFilter, BloomStats, Hint};

/// How this server keeps filters. A clone shares what was learnt.
#[derive(Clone, Default)]
pub(super) struct Filters {
    /// All of the servers say that they have the module.
    module: bool,
    /// A server has lost it, as by a fail-over to one without, or keeps it from this user.
    refused: Arc<AtomicBool>,
}

impl Filters {
    /// By the module that all of these servers have, going by what they say of themselves.
    pub(super) fn of_servers(info: &[String]) -> Self {
        // RedisBloom, the filters of Redis 8 and those of Valkey go by one name.
        let has_module =
            |info: &String| info.lines().any(|line| line.starts_with("module:name=bf,"));
        Self {
            module: !info.is_empty() && info.iter().all(has_module),
            refused: Arc::default(),
        }
    }

    /// One round trip; two when the module is found to be gone.
    pub(super) async fn insert<C: ConnectionLike>(
        &self,
        connection: &mut C,
        filter: &BloomFilter,
        member: &[u8],
    ) -> RedisResult<Hint> {
        if self.by_module() {
            let hint = module::insert(connection, filter, member).await;
            if let Some(hint) = self.learn_from(hint) {
                return hint;
            }
        }
        bitmaps::insert(connection, filter, member).await
    }

    /// One round trip; two when the module is found to be gone.
    pub(super) async fn stats<C: ConnectionLike>(
        &self,
        connection: &mut C,
        filter: &BloomFilter,
    ) -> RedisResult<BloomStats> {
        if self.by_module() {
            let fill = module::stats(connection, filter).await;
            if let Some(fill) = self.learn_from(fill) {
                return fill;
            }
        }
        bitmaps::stats(connection, filter).await
    }

    /// Whether filters are the module's.
    pub(super) fn by_module(&self) -> bool {
        self.module && !self.refused.load(Ordering::Relaxed)
    }

    /// Learns whether the module is to be had: if not, there is no answer of it.
    fn learn_from<T>(&self, reply: RedisResult<T>) -> Option<RedisResult<T>> {
        match reply {
            Err(error) if is_forbidden(&error) => {
                self.refused.store(true, Ordering::Relaxed);
                tracing::debug!(%error, "the module is not to be had: Bloom filters are bitmaps");
                None
            }
            reply => Some(reply),
        }
    }
}

impl fmt::Debug for Filters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.by_module() {
            "module"
        } else {
            "bitmaps"
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::scripted::Scripted;
    use super::*;

    const WITH_IT: &str =
        "# Modules\r\nmodule:name=bf,ver=20820,api=1,filters=0,usedby=[],using=[]\r\n";
    const WITHOUT: &str = "# Modules\r\nmodule:name=search,ver=21020,api=1,using=[bf]\r\n";

    fn filter() -> BloomFilter {
        BloomFilter {
            key: "idem:#bloom:{orders.no}".to_owned(),
            capacity: 1000,
            error_rate: 0.01,
            retention: Duration::from_secs(2),
        }
    }

    fn with_module() -> Filters {
        Filters::of_servers(&[WITH_IT.to_owned()])
    }

    async fn insert(filters: &Filters, mut server: Scripted) -> RedisResult<Hint> {
        let hint = filters.insert(&mut server, &filter(), b"member").await;
        server.has_been_asked_all();
        hint
    }

    /// The keys of all slots, the width, and what the module needs to know.
    const BY_MODULE: [&str; 9] = [
        "EVALSHA",
        "{orders.no}:bf:1000:0.01:0",
        ":1",
        ":2",
        ":3",
        "1000",
        "member",
        "1000",
        "0.005",
    ];
    const IN_BITMAPS: [&str; 4] = ["EVALSHA", "{orders.no}:11072x8:0", "1000", "11071"];

    #[test]
    fn the_module_is_used_where_all_servers_have_it() {
        for (info, expected) in [
            (vec![], false),
            (vec![""], false),
            (vec![WITHOUT], false),
            (vec![WITH_IT], true),
            (vec![WITH_IT, WITH_IT], true),
            (vec![WITH_IT, WITHOUT], false),
        ] {
            let info: Vec<_> = info.into_iter().map(str::to_owned).collect();
            assert_eq!(Filters::of_servers(&info).by_module(), expected, "{info:?}");
        }
    }

    #[tokio::test]
    async fn the_module_answers_with_a_hint_and_in_one_round_trip() {
        for (reply, hint) in [(":0\r\n", Hint::Unseen), (":1\r\n", Hint::PerhapsSeen)] {
            let server = Scripted::default().answers(&BY_MODULE, &[reply]);
            assert_eq!(insert(&with_module(), server).await.expect("a hint"), hint);
        }
    }

    #[tokio::test]
    async fn a_server_that_lost_the_module_is_sent_bits_from_then_on() {
        for refusal in [
            "-ERR Unknown Redis command called from script script: f_1f, on @user_script:1.\r\n",
            "-ERR Unknown command called from script script: f_1f, on @user_script:1.\r\n",
            "-NOPERM User filters has no permissions to run the 'bf.add' command\r\n",
            "-ERR The user executing the script can't run this command or subcommand script: f_1f\r\n",
        ] {
            let filters = with_module();
            let server = Scripted::default()
                .answers(&BY_MODULE, &[refusal])
                .answers(&IN_BITMAPS, &[":0\r\n"]);
            let hint = insert(&filters, server).await.expect("a hint");
            assert_eq!(hint, Hint::Unseen, "{refusal}");
            let server = Scripted::default().answers(&IN_BITMAPS, &[":1\r\n"]);
            let hint = insert(&filters.clone(), server).await.expect("a hint");
            assert_eq!(hint, Hint::PerhapsSeen, "{refusal}");
        }
    }

    #[tokio::test]
    async fn what_else_the_module_says_is_no_reason_to_leave_it() {
        for refusal in ["-WRONGTYPE Operation against a key\r\n", "-OOM no\r\n"] {
            let filters = with_module();
            let server = Scripted::default().answers(&BY_MODULE, &[refusal]);
            insert(&filters, server).await.expect_err("refused");
            assert!(filters.by_module());
        }
    }

    #[tokio::test]
    async fn a_full_bucket_of_the_module_takes_everything_for_seen() {
        let counts = "*2\r\n$4\r\n0.25\r\n*4\r\n:10\r\n:1000\r\n:0\r\n:0\r\n";
        let mut server = Scripted::default().answers(&["bf:1000:0.01:3"], &[counts]);
        let fill = with_module().stats(&mut server, &filter()).await;
        let fill = fill.expect("a fill");
        assert_eq!((fill.members, fill.capacity), (1010, 1000));
        assert!(fill.is_full() && fill.error_rate > 0.99, "{fill}");
    }
}
