//! Any bytes as the result in a valid record: they are decoded as the return type, or the call is refused.
#![no_main]

use std::collections::BTreeMap;
use std::time::Duration;

use idempotent_runtime::fingerprint::Fingerprint;
use idempotent_runtime::store::{Bytes, Store as _};
use idempotent_runtime::{Error, Idempotency, MemoryStore};
use libfuzzer_sys::fuzz_target;
use serde::{Deserialize, Serialize};
use tokio::runtime::{Builder, Runtime};

#[derive(Debug, Serialize, Deserialize)]
enum Kind {
    Unit,
    Newtype(Box<Option<Kind>>),
    Tuple(u8, f32, char),
    Struct {
        list: Vec<Kind>,
        map: BTreeMap<String, Option<i128>>,
    },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Untagged {
    Number(f64),
    Text(Option<String>),
    Deep(BTreeMap<String, Untagged>),
}

thread_local! {
    static CLOCK: Runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
}

/// Calls an endpoint that returns this type.
macro_rules! call {
    ($store:expr, $type:ty, $body:expr) => {
        Idempotency::new($store.clone())
            .call("fuzz")
            .key(&1)
            .ttl(Duration::from_secs(30))
            .replay()
            .run(async {
                let outcome: Result<$type, Error> = $body;
                outcome
            })
            .await
    };
}

/// Makes a call, replaces the result in its record, and calls again.
macro_rules! replayed_as {
    ($($type:ty: $value:expr,)*) => {
        async fn replayed(form: &str, option_depth: u32, result: &[u8]) {
            $({
                let store = MemoryStore::new();
                let first = call!(store, $type, Ok($value));
                assert!(first.is_ok(), "{first:?}");
                let changed = changed(&store, form, option_depth, result).await;
                let again = call!(changed, $type, again());
                if let Err(error) = again {
                    assert!(matches!(error, Error::ResultUnavailable(_)), "{error:?}");
                }
            })*
        }
    };
}

replayed_as! {
    (): (),
    u64: 1,
    f32: 1.0,
    String: String::new(),
    Option<Option<f64>>: None,
    Vec<(Option<u8>, char)>: Vec::new(),
    BTreeMap<i8, Vec<u8>>: BTreeMap::new(),
    Kind: Kind::Unit,
    Untagged: Untagged::Number(1.0),
}

fn again<T>() -> T {
    panic!("the body ran again")
}

// From: idem2 D … - json:ok:0:9f86d081
// To:   idem2 D … - bits:ok:2:9f86d081
async fn changed(store: &MemoryStore, form: &str, option_depth: u32, result: &[u8]) -> MemoryStore {
    let key = format!("idem:fuzz:{}", Fingerprint::of(&(1,)).expect("an integer"));
    let entry = store.get(&key).await.expect("a map answers");
    let record = entry.expect("the record is stored").value;
    let line = record.split(|byte| *byte == b'\n').next().expect("a line");
    let line = std::str::from_utf8(line).expect("the line is UTF-8");
    let (head, codec) = line.rsplit_once(' ').expect("a codec");
    let (_, schema) = codec.rsplit_once(':').expect("a schema");
    let mut record = format!("{head} {form}:ok:{option_depth}:{schema}\n").into_bytes();
    record.extend_from_slice(result);
    let changed = MemoryStore::new();
    let record = Bytes::from(record);
    let put = changed.claim(&key, &record, Duration::from_secs(30)).await;
    put.expect("the store is empty");
    changed
}

fuzz_target!(|input: &[u8]| {
    let [form, option_depth, result @ ..] = input else {
        return;
    };
    let form = ["json", "msgpack", "bits", "none"][usize::from(form % 4)];
    let option_depth = if *option_depth == 255 {
        u32::MAX
    } else {
        u32::from(*option_depth)
    };
    CLOCK.with(|clock| clock.block_on(replayed(form, option_depth, result)));
});
