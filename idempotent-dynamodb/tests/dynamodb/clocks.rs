//! Machines whose clocks are wrong, URLs, and what the doctor finds.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use aws_smithy_async::time::TimeSource;
use idempotence::dynamodb::aws_sdk_dynamodb::Client;
use idempotence::dynamodb::aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType,
};
use idempotence::store::{Bytes, Claim, Level};
use idempotence::{Durability, DynamoDbStore, Error, Idempotency, Store as _};
use idempotence_test_servers::MotoServer;

use crate::{setup, table};

const MINUTE: Duration = Duration::from_mins(1);

/// The clock of a machine that is so many seconds ahead.
#[derive(Debug)]
struct Ahead(i64);

impl TimeSource for Ahead {
    fn now(&self) -> SystemTime {
        let seconds = Duration::from_secs(self.0.unsigned_abs());
        let now = SystemTime::now();
        if self.0 < 0 {
            now - seconds
        } else {
            now + seconds
        }
    }
}

async fn on_machine(ahead: i64) -> DynamoDbStore {
    let endpoint = MotoServer::shared().unwrap().endpoint();
    let config = setup::config(&endpoint).time_source(Ahead(ahead)).build();
    table(&Client::from_conf(config), "clocks").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_second_body_runs_on_machines_whose_clocks_are_wrong() {
    // A record that lives for a minute has expired on a machine that is two minutes ahead.
    let machines = [-120, -5, 0, 5, 120];
    for first in machines {
        let bodies = AtomicU32::new(0);
        for machine in [first].into_iter().chain(machines) {
            let store = on_machine(machine).await;
            let handle = Idempotency::builder(store)
                .deadline(MINUTE)
                .build()
                .unwrap();
            let call = handle.call("clocks").key(&first).ttl(MINUTE);
            let answer = call.run(async { Ok::<_, Error>(bodies.fetch_add(1, Ordering::Relaxed)) });
            let _ = answer.await;
        }
        assert_eq!(
            bodies.into_inner(),
            1,
            "the first machine is {first} s ahead"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_has_its_time_to_live_on_a_machine_whose_clock_is_wrong() {
    let value = Bytes::from_static(b"value");
    let claim = on_machine(-120)
        .await
        .claim("life", &value, MINUTE)
        .await
        .unwrap();
    assert_eq!(claim, Claim::Claimed);
    let entry = on_machine(120).await.get("life").await.unwrap().unwrap();
    let remaining = entry.ttl.unwrap();
    assert!(
        Duration::from_secs(20) < remaining && remaining < Duration::from_secs(100),
        "{remaining:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handle_connects_by_a_url() {
    assert!(
        std::env::var_os("AWS_ACCESS_KEY_ID").is_some(),
        "run `./test-dynamodb`"
    );
    on_machine(0).await;
    let endpoint = MotoServer::shared().unwrap().endpoint();
    let url = format!("dynamodb://clocks?region=eu-central-1&margin=1s&endpoint={endpoint}");
    let handle = Idempotency::builder_from_url(&url).await.unwrap();
    let handle = handle.prefix("by_url").deadline(MINUTE).build().unwrap();
    let call = async || {
        let call = handle.call("call").key("key").ttl(MINUTE);
        call.run(async { Ok::<_, Error>(7) }).await
    };
    assert_eq!(call().await.unwrap(), 7);
    assert!(call().await.unwrap_err().is_duplicate());

    let missing = url.replace("clocks", "missing");
    let error = Idempotency::builder_from_url(&missing).await.unwrap_err();
    let expected = "cannot use the DynamoDB of this URL: the DynamoDB table missing does not exist";
    assert!(error.to_string().starts_with(expected), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_doctor_finds_a_wrong_clock_and_a_table_that_does_not_fit() {
    let store = on_machine(0).await;
    assert_eq!(store.durability(), Durability::Quorum);
    let found = store.examine("key", MINUTE).await;
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!(
        (found[0].level(), found[0].found()),
        (Level::Fine, "the table clocks of DynamoDB is ready")
    );

    let client = setup::client(&MotoServer::shared().unwrap().endpoint());
    let (id, key) = (AttributeDefinition::builder(), KeySchemaElement::builder());
    let id = id
        .attribute_name("pk")
        .attribute_type(ScalarAttributeType::S);
    let key = key.attribute_name("pk").key_type(KeyType::Hash);
    let create = client
        .create_table()
        .table_name("misfit")
        .billing_mode(BillingMode::PayPerRequest)
        .attribute_definitions(id.build().unwrap())
        .key_schema(key.build().unwrap());
    create.send().await.unwrap();
    let found = DynamoDbStore::new(&client, "misfit")
        .examine("key", MINUTE)
        .await;
    let texts: Vec<_> = found.iter().map(|one| (one.level(), one.found())).collect();
    let expected = [
        (
            Level::Problem,
            "the key of the table misfit is not the attribute `id` alone",
        ),
        (
            Level::Warning,
            "the table has no TTL attribute: expired records stay, and you pay for them",
        ),
    ];
    assert_eq!(texts, expected);

    for (ahead, level, text) in [
        (120, Level::Warning, " s ahead of the clock of DynamoDB"),
        (-3600, Level::Problem, " s behind the clock of DynamoDB"),
    ] {
        let found = on_machine(ahead).await.examine("key", MINUTE).await;
        let is_found = found
            .iter()
            .any(|one| one.level() == level && one.found().ends_with(text));
        assert!(is_found, "{text}: {found:#?}");
    }
}
