//! The subject of a number, and how long the number is valid.

use std::time::Duration;

use idempotence::testkit::CountingStore;
use idempotent_runtime::{Error, Idempotency, MemoryStore, OrderNumbers, Placed, SetupError};
use tokio::time::{advance, sleep};

use crate::numbers::{MILLISECOND, SECRET, USER, builder, numbers};

const DAY: Duration = Duration::from_hours(24);

fn is_unknown<T>(checked: &Result<T, Error>) -> bool {
    matches!(checked, Err(Error::TokenUnknown(_)))
}

#[tokio::test(start_paused = true)]
async fn a_number_is_valid_on_every_machine_but_only_for_its_subject() {
    let store = MemoryStore::new();
    let (here, there) = (numbers(store.clone()).await, numbers(store).await);
    let number = here.issue(&USER).unwrap();
    assert_eq!(there.check(number.as_str(), &USER).unwrap(), number);
    let another_user = USER + 1;
    assert!(is_unknown(&there.check(number.as_str(), &another_user)));
    assert!(is_unknown(&there.check(number.as_str(), &USER.to_string())));
    assert!(is_unknown(&there.check(number.as_str(), &(USER, "tenant"))));
    assert!(
        there.check(number.as_str(), &USER).is_ok(),
        "the number stays valid"
    );
}

#[tokio::test(start_paused = true)]
async fn a_number_with_a_changed_missing_or_added_character_is_refused() {
    let numbers = numbers(MemoryStore::new()).await;
    let number = numbers.issue(&USER).unwrap();
    let text = number.as_str();
    let refused = |text: &str| {
        let error = numbers.check(text, &USER).unwrap_err();
        assert!(
            matches!(error, Error::TokenMalformed(_) | Error::TokenUnknown(_)),
            "{text}: {error}"
        );
    };
    for at in 0..text.len() {
        for other in "0123456789abcdefABCDEF-+ \0é".chars() {
            let mut other = other.to_string();
            if text[at..].starts_with(&*other) {
                continue;
            }
            other.insert_str(0, &text[..at]);
            refused(&(other.clone() + &text[at + 1..]));
            refused(&(other + &text[at..]));
        }
        refused(&format!("{}{}", &text[..at], &text[at + 1..]));
    }
    for end in ["0", " ", "\n", "-"] {
        refused(&format!("{text}{end}"));
    }
    assert!(numbers.check(text, &USER).is_ok());
}

#[tokio::test(start_paused = true)]
async fn the_proof_of_one_number_is_refused_for_another_number() {
    let numbers = numbers(MemoryStore::new()).await;
    let (one, two) = (numbers.issue(&USER).unwrap(), numbers.issue(&USER).unwrap());
    let (_, proof) = one.as_str().split_once('-').unwrap();
    let forged = format!("{}-{proof}", two.value());
    assert!(is_unknown(&numbers.check(&forged, &USER)));
}

#[tokio::test(start_paused = true)]
async fn a_malformed_number_is_refused_before_anything_is_sent() {
    let store = CountingStore::new(MemoryStore::new());
    let numbers = numbers(store.clone()).await;
    store.reset();
    let whole = numbers.issue(&USER).unwrap().to_string();
    let upper = whole.to_uppercase();
    let long = "1".repeat(1_000_000);
    for text in [
        "",
        "-",
        "1",
        "1-",
        "-1",
        "1-0",
        "one-00000000000000000000",
        "session:42",
        &long,
        "1-0000000000000000000g",
        "1-000000000000000000000",
        "01-00000000000000000000",
        "9223372036854775808-00000000000000000000",
        "١-00000000000000000000",
        "1-é0000000000000000",
        "+1-00000000000000000000",
        &whole[..whole.len() - 1],
    ] {
        let shown = &text[..text.len().min(50)];
        let checked = numbers.check(text, &USER);
        assert!(matches!(checked, Err(Error::TokenMalformed(_))), "{shown}");
        let placed = numbers.redeem(text, &USER, async |_, _| -> Result<Placed, Error> {
            panic!("no order may be inserted");
        });
        assert!(
            matches!(placed.await, Err(Error::TokenMalformed(_))),
            "{shown}"
        );
    }
    if upper != whole {
        assert!(matches!(
            numbers.check(&upper, &USER),
            Err(Error::TokenMalformed(_))
        ));
    }
    let made_up = numbers.redeem(
        "1-00000000000000000000",
        &USER,
        async |_, _| -> Result<Placed, Error> { panic!("no order may be inserted") },
    );
    assert!(is_unknown(&made_up.await));
    assert_eq!(store.counts().total(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_number_is_valid_for_exactly_its_max_age() {
    let numbers = numbers(MemoryStore::new()).await;
    let number = numbers.issue(&USER).unwrap().to_string();
    sleep(DAY).await;
    assert!(numbers.check(&number, &USER).is_ok());
    advance(MILLISECOND).await;
    let error = numbers.check(&number, &USER).unwrap_err();
    assert!(matches!(error, Error::TokenUnknown(_)));
    assert_eq!(
        error.to_string(),
        "order numbers `orders`: the order number has expired"
    );
}

#[tokio::test(start_paused = true)]
async fn an_accepted_old_secret_is_valid_and_a_wrong_secret_is_not() {
    const NEW: &str = "another secret of many bytes";
    let store = MemoryStore::new();
    let old = numbers(store.clone()).await;
    let idempotency = Idempotency::new(store.clone());
    let both = OrderNumbers::builder(&idempotency, "orders", NEW).accept(SECRET);
    let both = both.build().await.unwrap();
    let new = OrderNumbers::new(&idempotency, "orders", NEW)
        .await
        .unwrap();

    let of_old = old.issue(&USER).unwrap();
    let of_both = both.issue(&USER).unwrap();
    assert!(both.check(of_old.as_str(), &USER).is_ok());
    assert!(is_unknown(&new.check(of_old.as_str(), &USER)));
    assert!(
        new.check(of_both.as_str(), &USER).is_ok(),
        "the first secret issues"
    );
    assert!(is_unknown(&old.check(of_both.as_str(), &USER)));
    assert!(is_unknown(&both.check(of_old.as_str(), &(USER + 1))));

    let ready = builder(store).accept(NEW).build().await.unwrap();
    assert!(ready.check(of_both.as_str(), &USER).is_ok());
    assert!(
        old.check(ready.issue(&USER).unwrap().as_str(), &USER)
            .is_ok()
    );
}

#[tokio::test(start_paused = true)]
async fn a_number_of_another_name_is_unknown() {
    let idempotency = Idempotency::new(MemoryStore::new());
    let orders = OrderNumbers::new(&idempotency, "orders", SECRET)
        .await
        .unwrap();
    let invoices = OrderNumbers::new(&idempotency, "invoices", SECRET)
        .await
        .unwrap();
    let number = orders.issue(&USER).unwrap();
    assert!(is_unknown(&invoices.check(number.as_str(), &USER)));
}

#[tokio::test(start_paused = true)]
async fn invalid_settings_are_refused_with_all_their_mistakes() {
    let idempotency = Idempotency::new(MemoryStore::new());
    let builder = || OrderNumbers::builder(&idempotency, "orders", SECRET);
    let text = |built: Result<OrderNumbers, SetupError>| built.unwrap_err().to_string();
    let short = "invalid order numbers `orders`: a secret must have at least 16 bytes, got 15, so it can be guessed";
    let fifteen = &SECRET[1..];
    assert_eq!(
        text(OrderNumbers::new(&idempotency, "orders", fifteen).await),
        short
    );
    assert_eq!(text(builder().accept(fifteen).build().await), short);
    let name = text(OrderNumbers::new(&idempotency, "orders:1", SECRET).await);
    assert_eq!(
        name,
        "invalid order numbers `orders:1`: the name has the character ':'; use 1 to 128 of `A-Z a-z 0-9 . _ -`"
    );
    for (built, expected) in [
        (
            builder().max_age(Duration::ZERO),
            "invalid order numbers `orders`: `max_age` must be between 1 s and 30 days, got 0ns",
        ),
        (
            builder().lease(Duration::MAX),
            "invalid order numbers `orders`: `lease` must be between 1 s and 1 h, got ",
        ),
        (
            builder().skew(MILLISECOND),
            "invalid order numbers `orders`: `skew` must be between 1 s and 1 h, got 1ms",
        ),
    ] {
        let text = text(built.build().await);
        assert!(text.contains(expected), "{text}");
    }
    let all = builder()
        .accept("short")
        .max_age(Duration::ZERO)
        .skew(MILLISECOND);
    assert_eq!(
        text(all.build().await),
        "invalid order numbers `orders`: a secret must have at least 16 bytes, got 5, so it can be guessed; \
         `max_age` must be between 1 s and 30 days, got 0ns; `skew` must be between 1 s and 1 h, got 1ms"
    );
}

#[tokio::test(start_paused = true)]
async fn no_output_has_the_secret_or_a_proof() {
    let built = builder(MemoryStore::new());
    assert!(!format!("{built:?}").contains("0123"), "{built:?}");
    let numbers = built.build().await.unwrap();
    let number = numbers.issue(&USER).unwrap();
    let (value, proof) = number.as_str().split_once('-').unwrap();
    assert_eq!(format!("{number:?}"), format!("OrderNumber({value}-…)"));
    assert!(!format!("{numbers:?}").contains("0123"), "{numbers:?}");
    let error = numbers.check(number.as_str(), &0).unwrap_err();
    assert!(!format!("{error:?} {error}").contains(proof));
    assert_eq!(
        serde_json::to_string(&number).unwrap(),
        format!("\"{number}\"")
    );
}
