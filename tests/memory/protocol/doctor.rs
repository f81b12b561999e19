//! The findings of the doctor for any store.

use std::time::Duration;

use idempotence::testkit::{Fault, FaultyStore, Op};
use idempotent_runtime::store::{
    Bytes, Claim, Entry, Finding, Level, Store, StoreError, Swap, Wrap, async_trait,
};
use idempotent_runtime::{Builder, Diagnosis, Digest, Idempotency, MemoryStore, StoreErrorKind};

use crate::protocol::guarded::{millis, secs};

async fn diagnosis(store: impl Store) -> Diagnosis {
    Idempotency::new(store).doctor().await
}

#[track_caller]
fn assert_found(diagnosis: &Diagnosis, level: Level, text: &str) {
    let found = |finding: &Finding| finding.level() == level && finding.to_string().contains(text);
    let is_found = diagnosis.findings().iter().any(found);
    assert!(is_found, "no {level} {text:?} in\n{diagnosis}");
}

#[tokio::test(start_paused = true)]
async fn the_doctor_notes_that_a_memory_store_ends_with_the_process() {
    let store = MemoryStore::new();
    let diagnosis = diagnosis(store.clone()).await;
    assert_eq!(diagnosis.worst(), Level::Note, "{diagnosis}");
    assert_found(&diagnosis, Level::Fine, "every operation works");
    assert_found(
        &diagnosis,
        Level::Fine,
        "a claim takes 0.0ns, of a deadline of 1s",
    );
    assert_found(
        &diagnosis,
        Level::Fine,
        "the clock of the store is as fast as the clock of this host",
    );
    assert_found(&diagnosis, Level::Note, "are lost when the process ends");
    assert_eq!(store.len(), 0, "the probes are removed");
    let text = diagnosis.to_string();
    assert!(text.starts_with("fine     every operation works"), "{text}");
    assert!(
        text.contains("\n         -> use a store that processes share"),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_doctor_names_the_failing_operation() {
    for (op, named) in [
        (Op::Claim, "cannot claim"),
        (Op::Replace, "cannot renew"),
        (Op::Remove, "cannot remove"),
        (Op::Get, "cannot read"),
    ] {
        for (kind, advice) in [
            (StoreErrorKind::Full, "make room"),
            (StoreErrorKind::Misconfigured, "check the credentials"),
            (StoreErrorKind::Unknown, "check that the store runs"),
        ] {
            let store = FaultyStore::new(MemoryStore::new());
            store.next(op, Fault::Fail(kind));
            let diagnosis = diagnosis(store.clone()).await;
            assert_found(&diagnosis, Level::Problem, named);
            assert_found(&diagnosis, Level::Problem, advice);
            assert_found(&diagnosis, Level::Problem, "a fault that the test injected");
            assert_eq!(store.inner().len(), 0, "{named}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_doctor_reports_silent_and_slow_stores() {
    let store = FaultyStore::new(MemoryStore::new());
    store.always_all(Fault::Hang);
    let silent = diagnosis(store.clone()).await;
    assert_found(
        &silent,
        Level::Problem,
        "the store did not answer within 1s",
    );
    store.always_all(Fault::Delay(millis(300)));
    let slow = diagnosis(store.clone()).await;
    assert_found(
        &slow,
        Level::Warning,
        "a claim takes 300.0ms, of a deadline of 1s",
    );
    store.always_all(Fault::Delay(millis(200)));
    let quick = diagnosis(store).await;
    assert_found(&quick, Level::Fine, "a claim takes 200.0ms");
}

#[tokio::test(start_paused = true)]
async fn the_doctor_reports_the_digest_of_keys() {
    let diagnose = async |builder: Builder| builder.build().unwrap().doctor().await;
    let plain = || Idempotency::builder(MemoryStore::new());
    let by_default = diagnose(plain()).await;
    assert_found(
        &by_default,
        Level::Note,
        "keys are made by MD5: call `.digest(Digest::Sha256)`",
    );
    let sha256 = diagnose(plain().digest(Digest::Sha256)).await;
    assert_found(&sha256, Level::Fine, "keys are made by SHA-256");
    // An attacker without the secret cannot make two inputs collide.
    let secret = diagnose(plain().secret("a secret")).await;
    assert_found(&secret, Level::Fine, "keys are made by HMAC-MD5");
    let predicted = "can compute its `downstream_key`: call `.secret(…)`";
    for diagnosis in [by_default, sha256] {
        assert_found(&diagnosis, Level::Note, predicted);
    }
    assert!(!secret.to_string().contains("downstream_key"), "{secret}");
}

/// A memory store that changes the reported remaining time to live.
#[derive(Debug)]
struct Clock(MemoryStore, fn(Duration) -> Option<Duration>);

#[async_trait]
impl Wrap for Clock {
    type Inner = MemoryStore;

    fn inner(&self) -> &MemoryStore {
        &self.0
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        let entry = self.0.get(key).await?;
        Ok(entry.map(|entry| Entry {
            ttl: entry.ttl.and_then(self.1),
            ..entry
        }))
    }

    async fn examine(&self, _: &str, _: Duration) -> Vec<Finding> {
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn clocks_that_differ_are_found() {
    let right: fn(Duration) -> Option<Duration> = Some;
    let rounded = |remaining: Duration| remaining.checked_sub(millis(10));
    let fast = |remaining: Duration| remaining.checked_sub(secs(1));
    let stopped = |_: Duration| Some(secs(60));
    let back = |remaining: Duration| Some(remaining + secs(1));
    for (clock, level, text) in [
        (right, Level::Fine, "is as fast as the clock of this host"),
        (rounded, Level::Fine, "is as fast as the clock of this host"),
        (
            fast,
            Level::Warning,
            "a record has used 1.3s of its time to live",
        ),
        (
            stopped,
            Level::Warning,
            "a record has used 0ns of its time to live",
        ),
        (
            back,
            Level::Warning,
            "a record has used 0ns of its time to live",
        ),
        (|_| None, Level::Problem, "or never expires"),
    ] {
        let diagnosis = diagnosis(Clock(MemoryStore::new(), clock)).await;
        assert_found(&diagnosis, level, text);
        assert_found(
            &diagnosis,
            Level::Problem,
            "did not report its configuration within 5s",
        );
    }
}

#[derive(Debug)]
struct TakesAll;

#[async_trait]
impl Store for TakesAll {
    async fn claim(&self, _: &str, _: &Bytes, _: Duration) -> Result<Claim, StoreError> {
        Ok(Claim::Claimed)
    }

    async fn replace(
        &self,
        _: &str,
        _: &Bytes,
        _: &Bytes,
        _: Duration,
    ) -> Result<Swap, StoreError> {
        Ok(Swap::Done)
    }

    async fn remove(&self, _: &str, _: &Bytes) -> Result<Swap, StoreError> {
        Ok(Swap::Done)
    }

    async fn get(&self, _: &str) -> Result<Option<Entry>, StoreError> {
        Ok(None)
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_answers_wrongly_is_found() {
    let diagnosis = diagnosis(TakesAll).await;
    assert_found(
        &diagnosis,
        Level::Problem,
        "cannot claim a taken key: the store answered Claimed",
    );
}
