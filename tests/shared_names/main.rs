//! Functions with the same literal `name` share their records: the log and the doctor report them.
//!
//! A program of its own, because it installs a handle and lists all functions of the program.

#![deny(warnings, clippy::pedantic)]
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)]

use idempotence::store::Level;
use idempotence::{Error, Idempotency, MemoryStore, idempotent};

use support::log_capture::LogCapture;

mod orders {
    use super::*;

    pub(super) const CHARGE: u32 = line!() + 3;

    #[idempotent(name = "shared.orders", key = "id", ttl = "1d", replay = true)]
    pub(super) async fn charge(id: u64) -> Result<String, Error> {
        Ok(format!("charged {id}"))
    }
}

mod refunds {
    use std::time::Duration;

    use super::*;

    pub(super) const REFUND: u32 = line!() + 3;

    #[idempotent(name = "shared.orders", key = "id", ttl = ttl, replay = true)]
    pub(super) async fn refund(id: u64, ttl: Duration) -> Result<String, Error> {
        Ok(format!("refunded {id}"))
    }
}

/// One place, for all type arguments.
#[idempotent(name = "shared.generic", key = "id", ttl = "1d")]
async fn generic<T: serde::Serialize + Sync>(id: &T) -> Result<(), Error> {
    let _ = id;
    Ok(())
}

/// One place: the macro.
macro_rules! both {
    ($($module:ident)*) => {
        $(mod $module {
            use super::*;

            #[idempotent(name = "shared.by_macro", key = "id", ttl = "1d")]
            pub(super) async fn pay(id: u64) -> Result<u64, Error> {
                Ok(id)
            }
        })*
    };
}

both! { first second }
both! { third }

/// Two places in one use of a macro.
macro_rules! as_written {
    ($($written:item)*) => { $($written)* };
}

const PASSED_ON: [u32; 2] = [line!() + 4, line!() + 9];

as_written! {
    #[idempotent(name = "shared.passed_on", key = "id", ttl = "1d")]
    async fn passed_on(id: u64) -> Result<u64, Error> {
        Ok(id)
    }

    #[idempotent(name = "shared.passed_on", key = "id", ttl = "1d")]
    async fn also_passed_on(id: u64) -> Result<u64, Error> {
        Ok(id)
    }
}

/// Two places: the user of the macro writes each name.
macro_rules! named {
    ($($function:ident)*) => {
        $(#[idempotent(name = "shared.named", key = "id", ttl = "1d")]
        async fn $function(id: u64) -> Result<u64, Error> {
            Ok(id)
        })*
    };
}

const NAMED: [u32; 2] = [line!() + 2, line!() + 3];
named!(
    one_name
    another_name
);

/// One name on purpose: an outer call, and inside it the call in the transaction.
mod in_a_transaction {
    use idempotence::sql::sqlx::SqliteConnection;

    use super::*;

    #[expect(dead_code)]
    #[idempotent(name = "shared.in_tx", key = "id", ttl = "1d")]
    async fn outside(id: u64, tx: &mut SqliteConnection) -> Result<u64, Error> {
        inside(id, tx).await
    }

    #[idempotent(name = "shared.in_tx", key = "id", ttl = "1d", tx = tx)]
    async fn inside(id: u64, tx: &mut SqliteConnection) -> Result<u64, Error> {
        let _ = tx;
        Ok(id)
    }
}

#[tokio::test]
async fn two_functions_with_one_name_are_reported_once_in_the_log_and_by_the_doctor() {
    let log = LogCapture::start();
    let idempotency = Idempotency::new(MemoryStore::new());
    let other = Idempotency::builder(MemoryStore::new()).build().unwrap();
    other.install().unwrap();
    let shared = [
        ("shared.named", NAMED),
        ("shared.orders", [orders::CHARGE, refunds::REFUND]),
        ("shared.passed_on", PASSED_ON),
    ];
    let shared = shared.map(|(name, [first, second])| {
        let file = file!();
        format!(
            "2 functions have the name `{name}`, so equal calls of them are duplicates of each other: \
             {file}:{first} and {file}:{second}"
        )
    });
    let advice = "give each function its own `name`, or let all of them call one guarded function";
    let expected = shared
        .each_ref()
        .map(|shared| format!("ERROR {shared}; {advice}"));
    assert_eq!(log.events(), expected);

    for handle in [&idempotency, &other] {
        let diagnosis = handle.doctor().await;
        let problems = diagnosis.findings().iter();
        let problems: Vec<_> = problems
            .filter(|finding| finding.level() == Level::Problem)
            // Another test of this program makes it.
            .filter(|finding| !finding.found().contains("have the path"))
            .map(|finding| (finding.found(), finding.advice()))
            .collect();
        assert_eq!(
            problems,
            shared.each_ref().map(|shared| (&**shared, Some(advice)))
        );
    }

    // They are reported because both functions share one record.
    assert_eq!(orders::charge(1).await.unwrap(), "charged 1");
    let day = std::time::Duration::from_hours(24);
    assert_eq!(refunds::refund(1, day).await.unwrap(), "charged 1");
    generic(&1).await.unwrap();
    generic(&"a").await.unwrap();
    first::pay(1).await.unwrap();
    second::pay(2).await.unwrap();
    third::pay(3).await.unwrap();
    passed_on(1).await.unwrap();
    also_passed_on(2).await.unwrap();
    one_name(1).await.unwrap();
    another_name(2).await.unwrap();
}
