//! node runs `examples/front_end.js` against a service. An order is placed once for each fault of the network, and the page shows the
//! person the true result.

mod shop;

use std::time::Duration;

use idempotence::StoreErrorKind;
use idempotence::testkit::{Fault, Op};

use self::shop::{NetworkFault, SCRIPT, SILENT, Shop};

const PRESS: &str = r#"await press({ item: "tea" });"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_double_click_is_one_request() {
    let shop = Shop::new();
    let seen = shop
        .visited(r#"press({ item: "tea" }); await press({ item: "tea" });"#)
        .await;
    seen.has_a_receipt();
    assert_eq!((shop.orders(), shop.requests()), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_submits_at_once_are_one_order_and_both_get_its_receipt() {
    let shop = Shop::new();
    let seen = shop
        .visited(
            r#"const order = { item: "slow" };
            seen.shown = await Promise.all([submit(order), submit(order), submit(order)]);"#,
        )
        .await;
    assert_eq!(seen.orders(), [Some(1); 3], "{seen:?}");
    assert_eq!((shop.orders(), seen.id), (1, None));
    let hint = 1000.0..=10_000.0;
    let pauses = &seen.pauses;
    assert!(
        pauses.len() > 1 && pauses.iter().all(|ms| hint.contains(ms)),
        "{pauses:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_press_after_a_receipt_is_another_order() {
    let shop = Shop::new();
    let seen = shop.visited(&PRESS.repeat(2)).await;
    assert_eq!(seen.orders(), [Some(1), Some(2)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_stops_asking_for_an_endless_order_and_shows_no_error() {
    let shop = Shop::new();
    let seen = shop
        .visited(
            r#"submit({ item: "endless" }).catch(() => {});
            await press({ item: "endless" });"#,
        )
        .await;
    assert_eq!(
        (seen.orders(), &*seen.messages),
        (vec![None], &[][..]),
        "{seen:?}"
    );
    assert!(
        seen.id.is_some(),
        "the order may still fail, so the next press must send the same id"
    );
    let paused: f64 = seen.pauses.iter().sum();
    assert!(
        (30_000.0..=120_000.0).contains(&paused),
        "{:?}",
        seen.pauses
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_waits_for_a_store_that_recovers() {
    let shop = Shop::new();
    shop.store
        .always_all(Fault::Fail(StoreErrorKind::NotApplied));
    shop.heals_at(3);
    shop.visited(PRESS).await.has_a_receipt();
    assert_eq!((shop.orders(), shop.requests()), (1, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_reports_a_long_outage_and_the_next_press_is_the_same_order() {
    let shop = Shop::new();
    shop.store
        .always(Op::Claim, Fault::Fail(StoreErrorKind::NotApplied));
    let seen = shop.visited(PRESS).await;
    assert_eq!(
        seen.messages,
        ["The service is busy. Please try again in a moment."]
    );
    assert!(seen.shown.is_empty() && seen.id.is_some(), "{seen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_repeats_a_request_without_an_answer_of_the_service() {
    for fault in [
        NetworkFault::BadGateway,
        NetworkFault::GatewayTimeout,
        NetworkFault::Lost,
        NetworkFault::Login,
    ] {
        let shop = Shop::meeting([fault]);
        shop.visited(PRESS).await.has_a_receipt();
        assert_eq!((shop.orders(), shop.requests()), (1, 2), "{fault:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_does_not_show_the_answer_of_a_proxy() {
    let shop = Shop::meeting([NetworkFault::BadGateway; 9]);
    let seen = shop.visited(PRESS).await;
    assert_eq!(
        seen.messages,
        ["The service is not available. Please try again."]
    );
    assert!(seen.shown.is_empty() && seen.id.is_some(), "{seen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_order_after_a_lost_answer_is_placed_once_the_person_has_seen_the_first() {
    let shop = Shop::meeting([NetworkFault::Lost; 6]);
    let cup = r#"await press({ item: "cup" });"#;
    let presses = format!("{PRESS} {cup} {cup} renew(intent()); {cup}");
    let seen = shop.visited(&presses).await;
    let changed =
        "Your request was changed after it was first sent. Please start again with a new one.";
    let messages = ["No connection. Please try again.", changed, changed];
    assert_eq!(seen.messages, messages);
    assert_eq!((seen.orders(), shop.orders()), (vec![Some(2)], 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_in_plain_text_is_shown_at_once_and_a_corrected_order_is_new() {
    let shop = Shop::new();
    let press = format!(r#"await press({{ item: "unicorn" }}); seen.first = id(); {PRESS}"#);
    let seen = shop.visited(&press).await;
    assert_eq!(seen.messages, ["There are no unicorns left."]);
    assert_eq!((seen.orders(), seen.tokens), (vec![Some(1)], 1));
    assert_eq!((shop.requests(), seen.pauses.len()), (2, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_error_is_shown_without_its_text_and_keeps_the_id() {
    let shop = Shop::new();
    let seen = shop.visited(r#"await press({ item: "bug" });"#).await;
    assert_eq!(
        seen.messages,
        ["The service is not available. Please try again."]
    );
    assert!(seen.id.is_some(), "{seen:?}");

    // The order may be placed: its answer was lost, and then the server failed.
    let shop = Shop::meeting([NetworkFault::Lost]);
    shop.store.next(Op::Claim, Fault::Delay(Duration::ZERO));
    shop.store
        .always(Op::Claim, Fault::Fail(StoreErrorKind::Misconfigured));
    let seen = shop.visited(PRESS).await;
    assert_eq!(
        seen.messages,
        ["Your request cannot be processed. Please contact support."]
    );
    assert!(seen.id.is_some() && shop.orders() == 1, "{seen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_outcome_keeps_the_id_until_the_page_has_seen_the_state() {
    for (item, tokens, keeps_the_id) in [
        ("lease_lost: refresh", 0, true),
        ("outcome_unknown: refresh", 0, true),
        ("taken: refresh", 0, true),
        ("token_used: new_token", 1, true),
        ("token_unknown: new_token", 1, true),
        ("scope_missing: fix", 0, true),
        ("payload_mismatch: fix", 0, true),
        ("payload_malformed: fix", 0, false),
        ("already_done: ignore", 0, false),
        ("result_unavailable: refresh", 0, false),
    ] {
        let press = format!(r#"await press({{ item: "{item}" }});"#);
        let seen = Shop::new().visited(&press).await;
        let (code, _) = item.split_once(": ").unwrap();
        let (orders, messages) = if SILENT.contains(&code) {
            (vec![None], vec![])
        } else {
            (vec![], vec![code])
        };
        assert_eq!((seen.orders(), seen.tokens), (orders, tokens), "{item}");
        assert_eq!(seen.messages, messages, "{item}");
        assert_eq!(seen.id.is_some(), keeps_the_id, "{item}");
        assert!(seen.pauses.is_empty(), "{item}: {:?}", seen.pauses);

        // The loaded state shows the order, so the next press is a new order.
        let seen = Shop::new()
            .visited(&format!("{press} renew(intent());"))
            .await;
        assert_eq!(seen.id, None, "{item}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_front_end_with_a_new_id_for_each_try_places_two_orders() {
    let mutant = SCRIPT.replace(
        "await send(id, body)",
        "await send(crypto.randomUUID(), body)",
    );
    assert_ne!(mutant, SCRIPT);
    let shop = Shop::meeting([NetworkFault::Lost]);
    shop.visited_with(&mutant, PRESS).await;
    assert_eq!(shop.orders(), 2);
}
