//! Functions with the attribute, as a user writes them.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use idempotence::{Error, Idempotency, idempotent};
use serde::{Deserialize, Serialize};

/// The second part of each key.
const FILE: &str = "9e107d9d372bb6826bd81d3542a419d6";

/// What a function returns whose result is stored.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Receipt {
    number: u64,
    paid: bool,
    cents: u64,
    currency: String,
    pub(crate) text: String,
}

/// The texts of receipts begin as this one. It exists before the calls, so that no call is charged for making it.
static LONG_TEXT: LazyLock<String> = LazyLock::new(|| "Paid in full. ".repeat(5000));

impl Receipt {
    /// A receipt with a text of this length.
    fn of(length: usize) -> Self {
        Self {
            number: 1,
            paid: true,
            cents: 12_99,
            currency: "EUR".to_owned(),
            text: LONG_TEXT[..length].to_owned(),
        }
    }
}

/// A call that releases its key.
pub(crate) async fn release(handle: &Idempotency, number: u64) -> Result<usize, Error> {
    #[idempotent(
        key = "number, file",
        ttl = "30s",
        release = true,
        name = "counts.release",
        using = handle
    )]
    async fn release(handle: &Idempotency, number: u64, file: &str) -> Result<usize, Error> {
        Ok(file.len())
    }

    release(handle, number, FILE).await
}

/// A call with two further keys, which it releases.
pub(crate) async fn several(handle: &Idempotency, number: u64) -> Result<u64, Error> {
    #[idempotent(
        key = "number",
        also = ["second", "third"],
        ttl = "30s",
        release = true,
        name = "counts.several",
        using = handle
    )]
    async fn several(
        handle: &Idempotency,
        number: u64,
        second: u64,
        third: u64,
    ) -> Result<u64, Error> {
        Ok(number)
    }

    several(handle, number, number + (1 << 32), number + (1 << 33)).await
}

/// A call that keeps its key.
pub(crate) async fn keep(handle: &Idempotency, number: u64) -> Result<usize, Error> {
    #[idempotent(key = "number, file", ttl = "1h", name = "counts.keep", using = handle)]
    async fn keep(handle: &Idempotency, number: u64, file: &str) -> Result<usize, Error> {
        Ok(file.len())
    }

    keep(handle, number, FILE).await
}

/// A call that stores its result, with a text of this length.
pub(crate) async fn replay(
    handle: &Idempotency,
    number: u64,
    length: usize,
) -> Result<Receipt, Error> {
    #[idempotent(
        key = "number, file",
        ttl = "1h",
        replay = true,
        name = "counts.replay",
        using = handle
    )]
    async fn replay(
        handle: &Idempotency,
        number: u64,
        file: &str,
        length: usize,
    ) -> Result<Receipt, Error> {
        Ok(Receipt::of(length))
    }

    replay(handle, number, FILE, length).await
}

/// Lets a body end. The body is polled by hand, so it needs no waker.
#[derive(Debug, Default)]
pub(crate) struct Gate(AtomicBool);

impl Gate {
    pub(crate) fn open(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(crate) fn close(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    async fn pass(&self) {
        std::future::poll_fn(|_| {
            if self.0.load(Ordering::Relaxed) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }
}

/// A call that stores its result. Duplicates wait for the result.
pub(crate) async fn share(
    handle: &Idempotency,
    number: u64,
    gate: &Gate,
) -> Result<Receipt, Error> {
    #[idempotent(
        key = "number, file",
        ttl = "1h",
        replay = true,
        wait = "10s",
        name = "counts.share",
        using = handle
    )]
    async fn share(
        handle: &Idempotency,
        number: u64,
        file: &str,
        gate: &Gate,
    ) -> Result<Receipt, Error> {
        gate.pass().await;
        Ok(Receipt::of(1000))
    }

    share(handle, number, FILE, gate).await
}

/// A call that releases its key when the gate opens. Duplicates are refused.
pub(crate) async fn alone(handle: &Idempotency, number: u64, gate: &Gate) -> Result<usize, Error> {
    #[idempotent(
        key = "number, file",
        ttl = "30s",
        release = true,
        name = "counts.alone",
        using = handle
    )]
    async fn alone(
        handle: &Idempotency,
        number: u64,
        file: &str,
        gate: &Gate,
    ) -> Result<usize, Error> {
        gate.pass().await;
        Ok(file.len())
    }

    alone(handle, number, FILE, gate).await
}
