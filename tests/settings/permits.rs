//! The setting `permits`.

use idempotent_runtime::private::Release;
use idempotent_runtime::{Error, Idempotency, Policy};
use tokio::time::{sleep, timeout};

use crate::{File, call, call_with, listed, secs};

const NAME: &str = "exports.run";

fn policy() -> Policy {
    Policy::new(secs(30)).release(Release::Always).permits(3)
}

/// How many calls run at once, while this many seconds of other calls pass.
async fn busy(handle: &Idempotency, lasts: u64) {
    let body = sleep(secs(lasts));
    call_with(handle, NAME, policy(), 1, body).await.unwrap();
}

async fn holders(handle: &Idempotency) -> Option<usize> {
    match call(handle, NAME, policy(), 1).await {
        Ok(()) => None,
        Err(refused) => {
            let is_equal = refused.is_duplicate() || refused.is_silent();
            assert!(!is_equal, "it only lacks a permit, whatever their number");
            let Error::InProgress(running) = refused else {
                panic!("{refused}")
            };
            Some(running.holders())
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_smaller_number_stops_new_calls_only() {
    let file = File::new("");
    let handle = file.handle().unwrap();
    let calls = async { tokio::join!(busy(&handle, 10), busy(&handle, 20), busy(&handle, 90)) };
    let operator = async {
        sleep(secs(1)).await;
        assert_eq!(holders(&handle).await, Some(3));
        file.write("[endpoints.\"exports.run\"]\npermits = 1");
        handle.reload().await.unwrap();
        assert_eq!(holders(&handle).await, Some(1));
        sleep(secs(90)).await;
        // All three have run to their end.
        assert_eq!(holders(&handle).await, None);
        let second = async {
            sleep(secs(1)).await;
            assert_eq!(holders(&handle).await, Some(1));
        };
        tokio::join!(busy(&handle, 5), second);
        file.write("[endpoints.\"exports.run\"]\npermits = 2");
        handle.reload().await.unwrap();
        let third = async {
            sleep(secs(1)).await;
            assert_eq!(holders(&handle).await, Some(2));
        };
        tokio::join!(busy(&handle, 5), busy(&handle, 5), third);
    };
    let all = async { tokio::join!(calls, operator) };
    timeout(secs(600), all).await.unwrap();
    assert_eq!(
        listed(&handle, NAME).unwrap(),
        format!(
            "exports.run: ttl = 30s (attribute), lease = 30s (default), permits = 2 ({}), on_store_error = refuse (default)",
            file.at(2)
        )
    );
}

#[tokio::test(start_paused = true)]
async fn a_function_for_one_call_at_a_time_takes_no_number() {
    let file = File::new("[all]\npermits = 7\n[endpoints.\"orders.pay\"]\npermits = 2");
    let handle = file.handle().unwrap();
    let alone = Policy::new(secs(30)).release(Release::Always);
    let body = async {
        let second = call(&handle, "orders.pay", alone, 1).await;
        assert_eq!(second.unwrap_err().code(), "in_progress");
    };
    call_with(&handle, "orders.pay", alone, 1, body)
        .await
        .unwrap();
    let line = listed(&handle, "orders.pay").unwrap();
    let why = "ignored: permits = 2";
    assert!(
        line.contains(why) && line.contains("write the option `permits`"),
        "{line}"
    );
    call(&handle, NAME, policy(), 1).await.unwrap();
    assert!(listed(&handle, NAME).unwrap().contains("permits = 7"));
}

#[tokio::test(start_paused = true)]
async fn an_end_in_the_background_is_not_set_for_a_function_with_permits() {
    let file = File::new("[all]\nsettle = \"background\"");
    let handle = file.handle().unwrap();
    call(&handle, NAME, policy(), 1).await.unwrap();
    assert!(!listed(&handle, NAME).unwrap().contains("settle"));
    file.write("[endpoints.\"exports.run\"]\nsettle = \"background\"");
    let mistake = handle.reload().await.unwrap_err().to_string();
    let why = "`settle` does not fit the endpoint `exports.run`: with the option `permits`";
    assert!(mistake.contains(why), "{mistake}");
    call(&handle, NAME, policy(), 1).await.unwrap();
}

#[test]
fn a_number_that_is_none_is_a_mistake() {
    for (value, what) in [
        ("0", "`0` is not a number from 1 to 100"),
        ("101", "`101` is not a number from 1 to 100"),
        ("-1", "`-1` is not a number from 1 to 100"),
        ("\"3\"", "must be a number, without quotes"),
    ] {
        let file = File::new(&format!("[all]\npermits = {value}"));
        let mistake = file.handle().unwrap_err().to_string();
        assert!(mistake.contains(what), "{mistake}");
    }
}
