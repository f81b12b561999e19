//! The settings of order numbers.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::OrderNumbers;
use super::issuer::Issuer;
use super::machine::Machine;
use crate::error::{SetupError, Site, Subject};
use crate::handle::Idempotency;
use crate::key::fingerprint::{Digest, Keying};
use crate::key::kind::RecordKind;
use crate::mechanisms::mistakes::Mistakes;

/// The settings of [`OrderNumbers`], before they are built: [`OrderNumbers::builder`].
#[must_use = "a builder does nothing until `build`"]
pub struct OrderNumbersBuilder {
    idempotency: Idempotency,
    name: Cow<'static, str>,
    secrets: Vec<Vec<u8>>,
    max_age: Duration,
    lease: Duration,
    skew: Duration,
}

impl OrderNumbers {
    /// Order numbers with this name, with every setting at its default. Leases a machine id.
    ///
    /// All processes that issue or redeem numbers with this name need the same secret, of at least 16 bytes.
    ///
    /// Round trips and errors: as [`build`](OrderNumbersBuilder::build).
    ///
    /// # Errors
    ///
    /// As [`build`](OrderNumbersBuilder::build).
    pub async fn new(
        idempotency: &Idempotency,
        name: impl Into<Cow<'static, str>>,
        secret: impl AsRef<[u8]>,
    ) -> Result<Self, SetupError> {
        Self::builder(idempotency, name, secret).build().await
    }

    /// Starts order numbers with settings other than the defaults.
    ///
    /// ```
    /// # use idempotent_runtime as idempotence;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use idempotence::{Idempotency, MemoryStore, OrderNumbers};
    ///
    /// let idempotency = Idempotency::new(MemoryStore::new());
    /// let numbers = OrderNumbers::builder(&idempotency, "orders", "this year's secret")
    ///     .accept("last year's secret")
    ///     .max_age(Duration::from_hours(1))
    ///     .build()
    ///     .await?;
    /// # Ok(()) }
    /// ```
    pub fn builder(
        idempotency: &Idempotency,
        name: impl Into<Cow<'static, str>>,
        secret: impl AsRef<[u8]>,
    ) -> OrderNumbersBuilder {
        OrderNumbersBuilder::new(idempotency, name.into(), secret.as_ref())
    }
}

impl OrderNumbersBuilder {
    fn new(idempotency: &Idempotency, name: Cow<'static, str>, secret: &[u8]) -> Self {
        Self {
            idempotency: idempotency.clone(),
            name,
            secrets: vec![secret.to_vec()],
            max_age: Duration::from_hours(24),
            lease: Duration::from_secs(30),
            skew: Duration::from_mins(1),
        }
    }

    /// Also accepts numbers that were issued with this secret. May be called several times.
    ///
    /// To change the secret, first deploy processes that also accept the new secret. Then deploy processes that issue with the
    /// new secret and accept the old secret. After `max_age` the old secret can be removed.
    pub fn accept(mut self, secret: impl AsRef<[u8]>) -> Self {
        self.secrets.push(secret.as_ref().to_vec());
        self
    }

    /// Sets how old a number may be when it is redeemed, by the clocks of the machines that issue and redeem it. From 1 s to
    /// 30 days. Default: 24 h.
    pub fn max_age(mut self, max_age: Duration) -> Self {
        self.max_age = max_age;
        self
    }

    /// Sets how long a machine id is leased. The lease is renewed after a third of this time. While the store is unavailable,
    /// numbers are issued until the lease ends. From 1 s to 1 h. Default: 30 s.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Sets the largest difference between the clocks of two machines, plus the largest jump of the store's clock. After a
    /// lease, a machine id stays unused for this time. All processes need the same value. From 1 s to 1 h. Default: 1 min.
    pub fn skew(mut self, skew: Duration) -> Self {
        self.skew = skew;
        self
    }

    /// Leases a machine id, and starts a task on this runtime that renews the lease.
    ///
    /// Round trips: one, and one more for each machine id that is taken.
    ///
    /// # Errors
    ///
    /// All mistakes in the settings at once: the name is not 1 to 128 of `A-Z a-z 0-9 . _ -`; a secret has fewer than 16
    /// bytes; `max_age` is not between 1 s and 30 days; `lease` or `skew` is not between 1 s and 1 h.
    ///
    /// If the settings are valid: there is no tokio runtime; the store does not answer; all 1024 machine ids are taken; the
    /// clock of this machine shows a time before 2025.
    ///
    /// # Cancellation
    ///
    /// If a dropped call has leased a machine id, the id is free again after its lease and the `skew`.
    pub async fn build(self) -> Result<OrderNumbers, SetupError> {
        let (endpoint, mut mistakes) = Mistakes::check_name("order numbers", self.name.clone());
        for secret in &self.secrets {
            if secret.len() < SHORTEST_SECRET {
                mistakes.add(format_args!(
                    "a secret must have at least {SHORTEST_SECRET} bytes, got {}, so it can be guessed",
                    secret.len()
                ));
            }
        }
        let (second, hour) = (Duration::from_secs(1), Duration::from_hours(1));
        for (setting, value, longest, written) in [
            ("max_age", self.max_age, LONGEST_AGE, "30 days"),
            ("lease", self.lease, hour, "1 h"),
            ("skew", self.skew, hour, "1 h"),
        ] {
            if !(second..=longest).contains(&value) {
                mistakes.add(format_args!(
                    "`{setting}` must be between 1 s and {written}, got {value:?}"
                ));
            }
        }
        let endpoint = mistakes.finish(endpoint)?;
        let runtime = Handle::try_current()
            .map_err(|_| SetupError::new("order numbers need a tokio runtime, which renews the lease of their machine id: call `build` in a runtime"))?;
        let seen = self
            .idempotency
            .seen_set(endpoint.as_str().to_owned(), self.max_age)?
            .with_kind(RecordKind::Number);
        let site = Site::of(Subject::OrderNumbers, endpoint);
        let machine = Machine::new(
            Arc::clone(self.idempotency.shared()),
            site,
            self.lease,
            self.skew,
        )
        .await;
        let (machine, leased) = machine.map_err(|error| {
            SetupError::caused(
                format!("no machine id for the order numbers `{}`", self.name),
                error,
            )
        })?;
        let machine = Arc::new(machine);
        let (on_drop, shutdown) = oneshot::channel();
        runtime.spawn(Arc::clone(&machine).run(leased, shutdown));
        let keying = |secret: &Vec<u8>| Keying::with_secret(Digest::Sha256, secret);
        Ok(OrderNumbers(Arc::new(Issuer {
            machine,
            secrets: self.secrets.iter().map(keying).collect(),
            max_age: self.max_age,
            seen,
            on_drop: Some(on_drop),
        })))
    }
}

impl fmt::Debug for OrderNumbersBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OrderNumbersBuilder")
            .field("name", &self.name)
            .field("max_age", &self.max_age)
            .field("lease", &self.lease)
            .field("skew", &self.skew)
            .finish_non_exhaustive()
    }
}

const SHORTEST_SECRET: usize = 16;
const LONGEST_AGE: Duration = Duration::from_hours(30 * 24);
