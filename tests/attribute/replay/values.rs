//! Duplicates get empty results, and results that a codec could change, exactly.

use std::collections::BTreeMap;
use std::fmt::Debug;

use idempotence::idempotent;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::replay::{Done, REPLAYED, ends, fresh};

/// Returns the value. Only the first call has a value.
#[idempotent(key = (), ttl = "1m", replay = true, name = "values.stored")]
async fn stored<T: Serialize + DeserializeOwned>(value: Option<T>) -> Done<T> {
    tokio::task::yield_now().await;
    Ok(value.expect("only the first call runs its body"))
}

/// The result of a duplicate whose first call returned `value`.
async fn again<T: Serialize + DeserializeOwned>(value: T) -> T {
    let mut got = None;
    let calls = async {
        stored(Some(value)).await.unwrap();
        got = Some(stored(None).await.unwrap());
    };
    assert_eq!(ends(calls).await, REPLAYED);
    got.unwrap()
}

async fn same<T: Serialize + DeserializeOwned + Clone + PartialEq + Debug>(value: T) {
    assert_eq!(again(value.clone()).await, value);
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Receipt {
    no: u128,
    note: Option<String>,
    lines: Vec<Line>,
    by_day: BTreeMap<u32, (f32, f64)>,
    state: State,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Line(String, i64);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum State {
    Open,
    Paid { cents: u64 },
    Refused(Option<char>, ()),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Empty;

#[tokio::test]
async fn empty_and_zero_results_are_replayed() {
    same(()).await;
    same(0_u8).await;
    same(-0_i64).await;
    same(false).await;
    same(String::new()).await;
    same('\0').await;
    same(Empty).await;
    same(Vec::<String>::new()).await;
    same(BTreeMap::<String, u8>::new()).await;
    same([(); 3]).await;
}

#[tokio::test]
async fn nested_options_are_replayed_exactly() {
    same(None::<u8>).await;
    same(Some(0_u8)).await;
    same(None::<Option<u8>>).await;
    same(Some(None::<u8>)).await;
    same(Some(Some(0_u8))).await;
    same(Some(None::<Option<String>>)).await;
    same(Some(Some(None::<()>))).await;
    same(Some(())).await;
    same(Some(Empty)).await;
}

#[tokio::test]
async fn floats_are_replayed_bit_by_bit() {
    for bits in [
        f64::NAN.to_bits(),
        f64::NAN.to_bits() | 0xdead_beef,
        (-f64::NAN).to_bits(),
        f64::INFINITY.to_bits(),
        f64::NEG_INFINITY.to_bits(),
        (-0.0_f64).to_bits(),
        (0.1_f64 + 0.2).to_bits(),
        f64::MIN_POSITIVE.to_bits() - 1,
    ] {
        let float = f64::from_bits(bits);
        assert_eq!(again(float).await.to_bits(), bits);
        let option = again(Some(float)).await;
        assert_eq!(option.map(f64::to_bits), Some(bits));
    }
    let single = f32::from_bits(f32::NAN.to_bits() | 0xbeef);
    assert_eq!(again(single).await.to_bits(), single.to_bits());
}

#[tokio::test]
async fn extreme_numbers_and_texts_are_replayed_exactly() {
    same((u64::MAX, i64::MIN)).await;
    same(u128::MAX).await;
    same(i128::MIN).await;
    same((f64::MAX, f32::MIN_POSITIVE)).await;
    same("a \"b\"\n\0 \\ { } é 🦀".to_owned()).await;
}

#[tokio::test]
async fn nested_structs_are_replayed() {
    let receipt = |state| Receipt {
        no: u128::MAX,
        note: None,
        lines: vec![Line("\u{2028}".to_owned(), i64::MIN)],
        by_day: BTreeMap::from([(31, (0.1, 0.1 + 0.2))]),
        state,
    };
    same(receipt(State::Open)).await;
    same(receipt(State::Paid { cents: 0 })).await;
    same(Some(vec![receipt(State::Refused(Some('"'), ()))])).await;
}

#[tokio::test]
async fn a_result_that_cannot_be_stored_reaches_only_the_first_caller() {
    fresh(async {
        let pairs = BTreeMap::from([((1, 2), 3)]);
        assert_eq!(stored(Some(pairs.clone())).await.unwrap(), pairs);
        let refused = stored::<BTreeMap<(i32, i32), i32>>(None).await.unwrap_err();
        assert_eq!(refused.code(), "result_unavailable");
        assert!(refused.is_duplicate());
    })
    .await;
}
