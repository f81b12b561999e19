//! Bloom filters: in bitmaps, or with the server's module if it has one.
//!
//! Both use [`TimeBuckets`](time_buckets::TimeBuckets), two for each retention. The filters of the module have other keys than the
//! bitmaps, so a server that gains or loses the module never finds a value of the wrong type.

mod bitmaps;
mod buckets;
mod module;
mod time_buckets;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use idempotent_runtime::store::{BloomFilter, BloomStats, Hint, StoreError};

use crate::client::connection_like::StoreClient;
use crate::client::failure::is_forbidden;
use crate::send::op::SendError;
use crate::send::sender::Sender;

/// Whether the servers use the module. Clones share what the store learns about the servers.
#[derive(Clone, Default)]
pub(crate) struct FilterCommands {
    /// All servers report the module.
    module: bool,
    /// A server has lost the module, for example by a fail-over, or does not let this user use it.
    refused: Arc<AtomicBool>,
}

impl FilterCommands {
    /// Uses the module if every one of these servers reports it.
    pub(crate) fn of_servers(info: &[String]) -> Self {
        // RedisBloom, Redis 8 and Valkey use the same name for the module.
        let has_module =
            |info: &String| info.lines().any(|line| line.starts_with("module:name=bf,"));
        Self {
            module: !info.is_empty() && info.iter().all(has_module),
            refused: Arc::default(),
        }
    }

    /// Takes one round trip, and two if the module turns out to be missing.
    pub(crate) async fn insert<C: StoreClient>(
        &self,
        sender: &Sender<C>,
        filter: &BloomFilter,
        member: &[u8],
    ) -> Result<Hint, StoreError> {
        if self.uses_module() {
            let hint = module::insert(sender, filter, member).await;
            if let Some(hint) = self.learn_from(hint) {
                return hint.map_err(|error| sender.error(error));
            }
        }
        let hint = bitmaps::insert(sender, filter, member).await;
        hint.map_err(|error| sender.error(error))
    }

    /// Takes one round trip, and two if the module turns out to be missing.
    pub(crate) async fn stats<C: StoreClient>(
        &self,
        sender: &Sender<C>,
        filter: &BloomFilter,
    ) -> Result<BloomStats, StoreError> {
        if self.uses_module() {
            let stats = module::stats(sender, filter).await;
            if let Some(stats) = self.learn_from(stats) {
                return stats.map_err(|error| sender.error(error));
            }
        }
        let stats = bitmaps::stats(sender, filter).await;
        stats.map_err(|error| sender.error(error))
    }

    /// Whether the module has the filters.
    pub(crate) fn uses_module(&self) -> bool {
        self.module && !self.refused.load(Ordering::Relaxed)
    }

    /// Returns the module's answer. `None` if the module cannot be used; the store remembers this.
    fn learn_from<T>(&self, reply: Result<T, SendError>) -> Option<Result<T, SendError>> {
        match reply {
            Err(SendError::Redis(error)) if is_forbidden(&error) => {
                self.refused.store(true, Ordering::Relaxed);
                tracing::debug!(target: "idempotence", %error, "the module cannot be used: Bloom filters use bitmaps");
                None
            }
            reply => Some(reply),
        }
    }
}

impl fmt::Debug for FilterCommands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.uses_module() {
            "module"
        } else {
            "bitmaps"
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::script::scripted::Scripted;
    use crate::send::compose::SendSettings;

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

    fn with_module() -> FilterCommands {
        FilterCommands::of_servers(&[WITH_IT.to_owned()])
    }

    async fn insert(filters: &FilterCommands, server: Scripted) -> Result<Hint, StoreError> {
        let sender = Sender::new(server.clone(), SendSettings::default());
        let hint = filters.insert(&sender, &filter(), b"member").await;
        server.assert_all_sent();
        hint
    }

    /// The keys of all three slots, the width, and what the module needs to know.
    const BY_MODULE: [&str; 8] = [
        "EVALSHA",
        "{orders.no}:bf:1000:0.01:",
        "{orders.no}:bf:1000:0.01:",
        "{orders.no}:bf:1000:0.01:",
        "1001",
        "member",
        "1000",
        "0.005",
    ];
    const IN_BITMAPS: [&str; 4] = ["EVALSHA", "{orders.no}:11072x8:0", "1001", "11071"];

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
            assert_eq!(
                FilterCommands::of_servers(&info).uses_module(),
                expected,
                "{info:?}"
            );
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
    async fn another_error_of_the_module_does_not_end_its_use() {
        for refusal in ["-WRONGTYPE Operation against a key\r\n", "-OOM no\r\n"] {
            let filters = with_module();
            let server = Scripted::default().answers(&BY_MODULE, &[refusal]);
            insert(&filters, server).await.expect_err("refused");
            assert!(filters.uses_module());
        }
    }

    #[tokio::test]
    async fn a_full_bucket_of_the_module_answers_perhaps_seen_to_everything() {
        let counts = "*2\r\n$4\r\n0.25\r\n*3\r\n:10\r\n:1000\r\n:0\r\n";
        let server = Scripted::default().answers(&["bf:1000:0.01:2"], &[counts]);
        let sender = Sender::new(server, SendSettings::default());
        let stats = with_module().stats(&sender, &filter()).await;
        let stats = stats.expect("statistics");
        assert_eq!((stats.members, stats.capacity), (1010, 1000));
        assert!(stats.is_full() && stats.error_rate > 0.99, "{stats}");
    }
}
