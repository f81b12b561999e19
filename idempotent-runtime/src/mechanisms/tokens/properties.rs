//! A redemption returns for any stored bytes, and changes only a token.

use arbtest::arbitrary::{Result, Unstructured};
use bytes::Bytes;

use super::*;
use crate::cases::cases;
use crate::key::fingerprint::Hasher;
use crate::record::owner::Owner;
use crate::record::token as record;
use crate::record::token::TokenState;
use crate::store::Store as _;
use crate::store::memory::MemoryStore;

/// Bytes that are the record of a token with a few changes, or arbitrary bytes.
fn broken(u: &mut Unstructured<'_>) -> Result<Bytes> {
    if u.ratio(1, 8)? {
        return Ok(Bytes::from(u.arbitrary::<Vec<u8>>()?));
    }
    let mut bytes = match u.int_in_range(0..=2)? {
        0 => record::FRESH,
        1 => record::used(Owner::random()),
        _ => record::returned(Owner::random()),
    }
    .to_vec();
    for _ in 0..u.int_in_range(0..=2)? {
        let at = u.choose_index(bytes.len().max(1))?;
        match u.int_in_range(0..=4)? {
            _ if bytes.is_empty() => bytes.push(u.arbitrary()?),
            0 => bytes[at] = u.arbitrary()?,
            1 => bytes[at] = *u.choose(b" \n=09afgTU\xff\0")?,
            2 => bytes.insert(at, *u.choose(b" \n=09afgTU\xff\0")?),
            3 => drop(bytes.remove(at)),
            _ => bytes.truncate(at),
        }
    }
    Ok(Bytes::from(bytes))
}

#[test]
fn a_redemption_changes_nothing_but_a_token() {
    let clock = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    let (mut free, mut used, mut foreign) = (0, 0, 0);
    cases(120, |u| {
        let bytes = broken(u)?;
        let (redeemed, stored) = clock.block_on(async {
            let store = MemoryStore::new();
            let idempotency = Idempotency::new(store.clone());
            let operation = Endpoint::named("orders.submit");
            let token = Token::random();
            let subject = |hasher: &mut Hasher| hasher.part(&42);
            let bound = binding(
                idempotency.shared(),
                &operation,
                Some(token.as_str()),
                subject,
            );
            let (_, key) = locate(idempotency.shared(), operation, bound.expect("an integer"));
            let put = store.claim(&key, &bytes, Duration::from_mins(1)).await;
            put.expect("the store is empty");
            let tokens = idempotency.tokens();
            let redeemed = tokens.redeem(token.as_str(), &42, "orders.submit").await;
            let found = store.get(&key).await.expect("the memory store answers");
            (redeemed, found.expect("the record exists").value)
        });
        match record::read(&bytes) {
            Some(TokenState::Free) => {
                assert!(redeemed.is_ok(), "{bytes:?}");
                assert_eq!(record::read(&stored), Some(TokenState::Used));
                free += 1;
            }
            Some(TokenState::Used) => {
                assert!(matches!(redeemed, Err(Error::TokenUsed(_))), "{bytes:?}");
                assert_eq!(stored, bytes);
                used += 1;
            }
            None => {
                assert!(
                    matches!(redeemed, Err(Error::ForeignRecord(_))),
                    "{bytes:?}"
                );
                assert_eq!(stored, bytes);
                foreign += 1;
            }
        }
        Ok(())
    });
    assert!(
        free > 500 && used > 200 && foreign > 1000,
        "{free} {used} {foreign}"
    );
}
