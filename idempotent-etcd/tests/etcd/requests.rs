//! How many requests an operation costs, as the server counts them.

use std::time::Duration;

use idempotence::store::{Bytes, Claim, FencedClaim, Swap};
use idempotence::{EtcdStore, Store as _};
use idempotence_test_servers::{EtcdCluster, EtcdMember};

#[path = "../../../test-support/requests_of_calls.rs"]
mod requests_of_calls;

const METHODS: [&str; 2] = ["Txn", "Range"];
const MINUTE: Duration = Duration::from_mins(1);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_costs_one_transaction() {
    let cluster = EtcdCluster::start(1).unwrap();
    let member = &cluster.members()[0];
    let store = EtcdStore::connect(&cluster.url()).await.unwrap();
    let [first, second] = [b"first", b"other"].map(|value| Bytes::from_static(value));
    let mut requests = Requests::of(member);

    assert_eq!(
        store.claim("a", &first, MINUTE).await.unwrap(),
        Claim::Claimed
    );
    assert_eq!(requests.since_last(), [1, 0], "a claim");
    let taken = store.claim("a", &second, MINUTE).await.unwrap();
    assert_eq!(taken, Claim::Taken(first.clone()));
    assert_eq!(requests.since_last(), [1, 0], "a claim of a taken key");
    let swap = store.replace("a", &first, &second, MINUTE).await.unwrap();
    assert_eq!(
        (swap, requests.since_last()),
        (Swap::Done, [1, 0]),
        "a replacement"
    );
    let swap = store.exchange("a", &second, &first).await.unwrap();
    assert_eq!(
        (swap, requests.since_last()),
        (Swap::Done, [1, 0]),
        "an exchange"
    );
    store.get("a").await.unwrap();
    assert_eq!(requests.since_last(), [0, 1], "a look");
    let swap = store.remove("a", &first).await.unwrap();
    assert_eq!(
        (swap, requests.since_last()),
        (Swap::Done, [1, 0]),
        "a removal"
    );

    for (round, cost) in [(1, [1, 0]), (2, [2, 0])] {
        let claim = store.claim_fenced("b", "fence", &first, MINUTE).await;
        assert!(matches!(claim.unwrap(), FencedClaim::Claimed(_)));
        assert_eq!(
            requests.since_last(),
            cost,
            "the fenced claim number {round}"
        );
        store.remove("b", &first).await.unwrap();
        requests.since_last();
    }
}

/// On one thread, where a task takes the two last of three removals together.
#[tokio::test]
async fn the_table_of_benches_has_the_requests_of_a_call() {
    let cluster = EtcdCluster::start(1).unwrap();
    let store = EtcdStore::connect(&cluster.url()).await.unwrap();
    let mut requests = Requests::of(&cluster.members()[0]);
    requests_of_calls::compare(store, "etcd", METHODS, || requests.since_last()).await;
}

/// The transactions and reads of a member.
struct Requests<'a> {
    member: &'a EtcdMember,
    before: [u64; 2],
}

impl<'a> Requests<'a> {
    fn of(member: &'a EtcdMember) -> Self {
        let before = [0; 2];
        let mut requests = Self { member, before };
        requests.since_last();
        requests
    }

    /// How many came since the last question.
    fn since_last(&mut self) -> [u64; 2] {
        let now = METHODS.map(|method| started(self.member, method));
        let new = [0, 1].map(|at| now[at] - self.before[at]);
        self.before = now;
        new
    }
}

/// How many requests of a method a member has got.
pub(crate) fn started(member: &EtcdMember, method: &str) -> u64 {
    let metrics = member.post("/metrics", "").unwrap();
    let method = format!("grpc_method=\"{method}\"");
    let mut counts = metrics
        .lines()
        .filter(|line| line.starts_with("grpc_server_started_total{") && line.contains(&method));
    let count = counts.next().and_then(|line| line.rsplit_once(' '));
    count.map_or(0, |(_, count)| count.parse().unwrap())
}
