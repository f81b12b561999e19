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
use crate::error::{SetupError, Site};
use crate::handle::Idempotency;
use crate::key::endpoint::Endpoint;
use crate::key::fingerprint::{Digest, Keying};
use crate::key::kind::Kind;

/// [`OrderNumbers`] in the making: [`OrderNumbers::builder`].
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
    /// Leases a machine id for the numbers of this name, with every setting at its default.
    ///
    /// All processes that issue or redeem numbers of the name need the same secret, of 16 bytes at least.
    ///
    /// # Errors
    ///
    /// Those of [`build`](OrderNumbersBuilder::build).
    pub async fn new(
        idempotency: &Idempotency,
        name: impl Into<Cow<'static, str>>,
        secret: impl AsRef<[u8]>,
    ) -> Result<Self, SetupError> {
        Self::builder(idempotency, name, secret).build().await
    }

    /// Starts order numbers with settings of your own.
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

    /// Accepts numbers that were issued under this secret, too. Several may be added.
    ///
    /// To change the secret, first have every process accept the new one, then issue with it and accept the old one, which
    /// may be forgotten when `max_age` has passed.
    pub fn accept(mut self, secret: impl AsRef<[u8]>) -> Self {
        self.secrets.push(secret.as_ref().to_vec());
        self
    }

    /// Sets how old a number may be when it is redeemed, by the clocks of the machines that issue and redeem it.
    /// Default: 24 h.
    pub fn max_age(mut self, max_age: Duration) -> Self {
        self.max_age = max_age;
        self
    }

    /// Sets how long a machine id is leased for. It is renewed at a third of that; without a store, numbers are issued
    /// until its end. Default: 30 s.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Sets by how much the clocks of two machines may differ, and the store's may jump meanwhile; all processes need the
    /// same. So long a machine id rests between two that have it. Default: 1 min.
    pub fn skew(mut self, skew: Duration) -> Self {
        self.skew = skew;
        self
    }

    /// Leases a machine id, and begins to renew it, in a task of this runtime.
    ///
    /// Round trips: one for each id that it finds taken, and one more.
    ///
    /// # Errors
    ///
    /// If the name is not 1 to 128 of `A-Z a-z 0-9 . _ -`, a secret has fewer than 16 bytes, `max_age` is not between
    /// 1 s and 30 days, or `lease` or `skew` is not between 1 s and 1 h; if the store cannot be asked, all 1024 machine
    /// ids are taken, or the clock of this machine says a time before 2025. Also outside of a tokio runtime.
    ///
    /// # Cancellation
    ///
    /// A machine id that a dropped call has leased is free again when its lease and its rest are over.
    pub async fn build(self) -> Result<OrderNumbers, SetupError> {
        let endpoint = Endpoint::try_new(self.name.clone())?;
        if self
            .secrets
            .iter()
            .any(|secret| secret.len() < SHORTEST_SECRET)
        {
            return Err(SetupError::new(format!(
                "a secret of `{endpoint}` has fewer than {SHORTEST_SECRET} bytes, so it can be guessed"
            )));
        }
        let (second, hour) = (Duration::from_secs(1), Duration::from_hours(1));
        for (what, set, longest) in [
            ("max_age", self.max_age, LONGEST_AGE),
            ("lease", self.lease, hour),
            ("skew", self.skew, hour),
        ] {
            if !(second..=longest).contains(&set) {
                return Err(SetupError::new(format!(
                    "`{what} = {set:?}` of `{endpoint}` makes no sense: use between {second:?} and {longest:?}"
                )));
            }
        }
        let runtime = Handle::try_current()
            .map_err(|_| SetupError::new("a machine id can only be leased on a tokio runtime"))?;
        let seen = self
            .idempotency
            .seen_set(endpoint.as_str().to_owned(), self.max_age)?
            .with_kind(Kind::Number);
        let site = Site::without_key(endpoint);
        let machine = Machine::new(
            Arc::clone(self.idempotency.shared()),
            site,
            self.lease,
            self.skew,
        )
        .await;
        let (machine, leased) = machine.map_err(|error| {
            SetupError::caused(format!("no machine id for `{}`", self.name), error)
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
