//! Steps that do not fit each other, or their call: each is an error, and no record is lost.

use std::cell::Cell;
use std::error::Error as _;

use super::*;
use crate::{GuardedCall, Release};

fn idempotency() -> Idempotency {
    Idempotency::new(MemoryStore::new())
}

fn trip(idempotency: &Idempotency) -> GuardedCall {
    idempotency.call("trip").key(&1).ttl(TTL)
}

/// Makes the call with these steps, and then fails. Returns what the last step returned.
async fn steps(call: GuardedCall, names: &[&'static str]) -> Result<u32, Error> {
    let mut got = Ok(0);
    let failed: Result<(), Failed> = call
        .run_with(async |cx: Cx| {
            for name in names {
                got = cx.step(name, async || Ok(7)).await;
                if got.is_err() {
                    break;
                }
            }
            Err(Failed::Body)
        })
        .await;
    match failed {
        Err(Failed::Refused(error)) => Err(error),
        _ => got,
    }
}

/// Whether the error says what is wrong, and its source names two places in this file.
fn names_two_places(error: &Error, what: &str) -> bool {
    let source = error.source().map(ToString::to_string).unwrap_or_default();
    let places = source.matches("misuse.rs:").count();
    matches!(error, Error::InvalidPolicy(_)) && error.to_string().contains(what) && places == 2
}

#[test]
fn a_name_that_is_used_twice_is_an_error_that_names_both_places() {
    let is_kept = || {
        on_paused_clock(async {
            let got = steps(trip(&idempotency()), &["flight", "flight"]).await;
            got.is_err_and(|error| names_two_places(&error, "two steps of the call have the name"))
        })
    };
    assert_kept(is_kept, &[Mutation::AllowsSameName]);
}

#[test]
fn another_order_is_an_error_that_names_both_places() {
    let is_kept = || {
        on_paused_clock(async {
            let idempotency = idempotency();
            let all_differ = [["hotel", "flight"], ["flight", "car"]];
            steps(trip(&idempotency), &["flight", "hotel"])
                .await
                .expect("two steps");
            for names in all_differ {
                let got = steps(trip(&idempotency), &names).await;
                let fails = |error: Error| names_two_places(&error, "another order");
                if !got.is_err_and(fails) {
                    return false;
                }
            }
            // No record is lost.
            steps(trip(&idempotency), &["flight", "hotel", "car"])
                .await
                .is_ok()
        })
    };
    assert_kept(is_kept, &[Mutation::IgnoresOrder]);
}

#[test]
fn another_payload_is_refused_at_the_first_step() {
    let is_kept = || {
        on_paused_clock(async {
            let idempotency = idempotency();
            let call = |amount| trip(&idempotency).payload(&amount);
            steps(call(500), &["flight"]).await.expect("a step");
            let other = steps(call(900), &["flight"]).await;
            matches!(other, Err(Error::PayloadMismatch(_)))
                && steps(call(500), &["flight"]).await.is_ok()
        })
    };
    assert_kept(is_kept, &[Mutation::IgnoresPayload]);
}

#[test]
fn a_result_of_another_type_is_an_error_that_names_both_places() {
    on_paused_clock(async {
        let idempotency = idempotency();
        steps(trip(&idempotency), &["flight"])
            .await
            .expect("a step");
        let read = trip(&idempotency).run_with(async |cx: Cx| {
            cx.step("flight", async || -> Result<String, Error> {
                panic!("it is done")
            })
            .await
        });
        let error = read.await.expect_err("a number is no text");
        assert!(
            names_two_places(&error, "cannot be read as the type"),
            "{error:?}"
        );
    });
}

#[test]
fn a_result_that_is_too_large_is_an_error_and_the_step_does_not_run_again() {
    on_paused_clock(async {
        let builder = Idempotency::builder(MemoryStore::new()).largest_result(100);
        let idempotency = builder.build().expect("a handle");
        for run in 0..3 {
            let mut ran = 0;
            let call = trip(&idempotency).run_with(async |cx: Cx| {
                cx.step("flight", async || Ok::<_, Error>("f".repeat(60)))
                    .await?;
                cx.step("hotel", async || {
                    ran += 1;
                    Ok::<_, Error>("h".repeat(60)) // fits alone
                })
                .await
            });
            let error = call.await.expect_err("both results are too large together");
            assert!(error.to_string().contains("largest_result"), "{error}");
            assert_eq!(ran, u32::from(run == 0));
        }
    });
}

#[test]
fn only_a_call_with_release_on_error_has_steps() {
    on_paused_clock(async {
        let idempotency = idempotency();
        for release in [Release::Always, Release::Never] {
            let call = idempotency
                .call("trip")
                .key(&(release == Release::Never))
                .ttl(TTL);
            let got = steps(call.release(release), &["flight"]).await;
            assert!(matches!(got, Err(Error::InvalidPolicy(_))), "{got:?}");
        }
    });
}

#[test]
fn an_invalid_name_and_a_step_after_its_call_are_errors() {
    on_paused_clock(async {
        let idempotency = idempotency();
        for name in ["", "a b", "a\n1", "ä"] {
            let got = steps(trip(&idempotency), &[name]).await;
            assert!(matches!(got, Err(Error::InvalidPolicy(_))), "{got:?}");
        }
        let mut kept = None;
        let call = trip(&idempotency).run_with(async |cx: Cx| {
            kept = Some(cx);
            Ok::<_, Error>(())
        });
        call.await.expect("the call succeeds");
        let late = kept.expect("a context");
        let late = late.step("flight", async || Ok::<_, Error>(1)).await;
        assert!(matches!(late, Err(Error::LeaseLost(_))), "{late:?}");
    });
}

#[test]
fn steps_that_run_at_once_are_all_recorded() {
    on_paused_clock(async {
        let idempotency = idempotency();
        let runs = Cell::new(0);
        for _ in 0..2 {
            let failed: Result<(), Failed> = trip(&idempotency)
                .run_with(async |cx: Cx| {
                    let step = async |name, takes| {
                        cx.step(name, async || {
                            runs.set(runs.get() + 1);
                            sleep(Duration::from_secs(takes)).await;
                            Ok::<_, Failed>(takes)
                        })
                        .await
                    };
                    let (slow, quick) = tokio::join!(step("slow", 2), step("quick", 1));
                    assert_eq!((slow?, quick?), (2, 1));
                    Err(Failed::Body)
                })
                .await;
            assert!(matches!(failed, Err(Failed::Body)), "{failed:?}");
        }
        assert_eq!(runs.get(), 2);
    });
}
