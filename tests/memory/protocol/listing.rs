//! `list`, which shows the keys of calls, and `peek_digits`, which finds a key by the digits of a log line.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use idempotent_runtime::store::{Bytes, Store as _};
use idempotent_runtime::{
    DuplicateState, Error, Event, Idempotency, ListedCall, MemoryStore, Policy,
};
use support::required_only::RequiredOnly;

use crate::protocol::guarded::{Guarded, forever, secs, yielding};

fn policy() -> Policy {
    Policy::new(secs(60)).lease(secs(10))
}

/// All records of a listing whose pages look at two keys.
async fn all(idempotency: &Idempotency, names: &str) -> Vec<ListedCall> {
    let (mut records, mut after) = (Vec::new(), None);
    loop {
        let page = idempotency.list(names, after.as_ref(), 2).await.unwrap();
        let page = page.expect("the store lists");
        records.extend(page.records);
        after = page.next;
        if after.is_none() {
            return records;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_listing_has_each_call_with_its_state_and_nothing_else() {
    let store = MemoryStore::new();
    let guarded = Guarded::on(store.clone(), policy());
    let handle = &guarded.idempotency;
    for id in 1..=3 {
        guarded.run(id, yielding(Ok(()))).await.unwrap();
    }
    let _held = guarded.call(4).claim().await.unwrap();
    // As the layer of HTTP writes it.
    let response = guarded.entry(1).await.unwrap().value;
    let route = format!("idem:POST./orders/(id):{}", "1".repeat(32));
    store.claim(&route, &response, secs(60)).await.unwrap();
    // Records of other kinds, of another prefix, and of another program.
    handle
        .tokens()
        .issue(&7, "test.pay", secs(60))
        .await
        .unwrap();
    let other = Idempotency::builder(store.clone()).prefix("idem:eu");
    let other = other
        .build()
        .unwrap()
        .call("test.pay")
        .key(&9)
        .ttl(secs(60));
    other.run(async { Ok::<_, Error>(()) }).await.unwrap();
    let foreign = format!("idem:test.pay:{}", "0".repeat(32));
    store
        .claim(&foreign, &Bytes::from("foreign"), secs(60))
        .await
        .unwrap();

    let states = |records: &[ListedCall]| {
        let mut states: Vec<_> = records
            .iter()
            .map(|call| (call.endpoint().to_owned(), format!("{:?}", call.state())))
            .collect();
        states.sort();
        states
    };
    let (done, running) = ("Some(Done)", "Some(Running)");
    let payments = all(handle, "test.").await;
    let expected =
        ["None", done, done, done, running].map(|state| ("test.pay".to_owned(), state.to_owned()));
    assert_eq!(states(&payments), expected);
    let route = ("POST /orders/{id}".to_owned(), done.to_owned());
    assert_eq!(
        states(&all(handle, "POST /o").await),
        std::slice::from_ref(&route)
    );
    assert_eq!(
        states(&all(handle, "").await),
        [&[route], &expected[..]].concat()
    );
    assert!(all(handle, "test.pay.").await.is_empty());
    let held = payments
        .iter()
        .find(|call| call.state() == Some(DuplicateState::Running));
    let held = held.unwrap();
    assert_eq!(
        (held.remaining(), held.lasts()),
        (Some(secs(11)), Some(secs(11)))
    );
    assert!(
        held.holder()
            .unwrap()
            .ends_with(&format!(":{}", std::process::id()))
    );
}

#[tokio::test(start_paused = true)]
async fn the_digits_of_a_log_line_find_a_stuck_key_that_forget_frees() {
    let seen: Arc<Mutex<BTreeSet<String>>> = Arc::default();
    let guarded = Guarded::in_memory(policy());
    let noted = Arc::clone(&seen);
    let reader = Idempotency::builder(Arc::clone(&guarded.store))
        .observer(move |event: &Event<'_>| {
            noted
                .lock()
                .unwrap()
                .extend(event.key().map(|digits| digits.to_string()));
        })
        .build()
        .unwrap();
    for id in 1..=20 {
        guarded.run(id, yielding(Ok(()))).await.unwrap();
    }
    let killed = guarded.call(21).claim().await.unwrap();
    std::mem::forget(killed);
    let again = Guarded {
        idempotency: reader.clone(),
        ..guarded.clone()
    };
    again.run(21, forever()).await.unwrap_err();
    let digits = seen
        .lock()
        .unwrap()
        .pop_first()
        .expect("the refusal has digits");

    let found = reader
        .peek_digits("test.pay", &digits.to_uppercase())
        .await
        .unwrap()
        .unwrap();
    let [stuck] = &found[..] else {
        panic!("one key has the digits: {found:?}");
    };
    assert_eq!(
        (stuck.endpoint(), stuck.digits()),
        ("test.pay", digits.clone())
    );
    assert_eq!(
        (stuck.state(), stuck.stored()),
        (DuplicateState::Running, None)
    );
    assert!(reader.forget(stuck).await.unwrap());
    assert!(
        reader
            .peek_digits("test.pay", &digits)
            .await
            .unwrap()
            .unwrap()
            .is_empty()
    );
    again.run(21, yielding(Ok(()))).await.unwrap();
    let found = reader.peek_digits("test.refund", &digits).await.unwrap();
    assert!(found.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn digits_that_are_none_are_an_error() {
    let idempotency = Idempotency::new(MemoryStore::new());
    for digits in ["", "abc", "9e107d9g", "idem:*", &"0".repeat(65)] {
        let error = idempotency
            .peek_digits("test.pay", digits)
            .await
            .unwrap_err();
        assert!(matches!(error, Error::InvalidKey(_)), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_cannot_list_says_so() {
    let idempotency = Idempotency::new(RequiredOnly(MemoryStore::new()));
    assert!(idempotency.list("", None, 10).await.unwrap().is_none());
    let found = idempotency.peek_digits("test.pay", "9e107d9d").await;
    assert!(found.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn keys_with_equal_first_digits_are_told_apart_and_a_foreign_one_is_left_out() {
    let guarded = Guarded::in_memory(policy());
    let handle = &guarded.idempotency;
    guarded.run(1, yielding(Ok(()))).await.unwrap();
    let listed = all(handle, "test.").await;
    let own = listed[0].fingerprint().to_string();
    let foreign = format!("{}{}", &own[..8], "0".repeat(24));
    let key = format!("idem:test.pay:{foreign}");
    let value = Bytes::from("foreign");
    let put = guarded.store.claim(&key, &value, secs(60));
    put.await.unwrap();

    let listed = all(handle, "test.").await;
    let digits: BTreeSet<_> = listed.iter().map(ListedCall::digits).collect();
    assert_eq!(digits.len(), 1);
    let whole: BTreeSet<_> = listed
        .iter()
        .map(|call| call.fingerprint().to_string())
        .collect();
    assert_eq!(whole, BTreeSet::from([own.clone(), foreign.clone()]));

    let found = handle.peek_digits("test.pay", &own[..8]).await.unwrap();
    let states: Vec<_> = found
        .unwrap()
        .iter()
        .map(idempotent_runtime::Peek::state)
        .collect();
    assert_eq!(states, [DuplicateState::Done]);
    let alone = handle.peek_digits("test.pay", &foreign).await.unwrap_err();
    assert!(matches!(alone, Error::ForeignRecord(_)), "{alone}");
}
