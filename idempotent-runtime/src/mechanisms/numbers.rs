//! Order numbers that are issued before there is an order. A unique index on the number prevents a second order.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub(crate) mod builder;
mod issuer;
mod machine;
pub(crate) mod number;
mod sequence;
#[cfg(test)]
mod tests;

use self::issuer::Issuer;
use self::machine::Machine;
use self::number::{OrderNumber, Proof, parse};
use crate::error::{Error, Failure};
use crate::key::fingerprint::{KeyPart, Keying, UnencodablePart};
use crate::mechanisms::placed::Placed;
use crate::observe::{Event, EventKind};
use crate::store::Hint;

/// Order numbers that are issued before there is an order: a page gets a number, and sends it with the form. Cheap to clone.
///
/// If the form is sent several times, there is still one order, because the order is inserted under a unique index on its number.
/// Issuing a number stores nothing, so unused numbers cost nothing.
///
/// ```
/// # use idempotent_runtime as idempotence;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::collections::HashSet;
///
/// use idempotence::{Error, Idempotency, MemoryStore, OrderNumbers, Placed};
///
/// let idempotency = Idempotency::new(MemoryStore::new());
/// let numbers = OrderNumbers::new(&idempotency, "orders", "a secret of 16 bytes at least").await?;
///
/// let (user, mallory) = (42, 66);
/// let number = numbers.issue(&user)?.to_string(); // goes into the page
///
/// let mut orders = HashSet::new(); // in a real program, a table with a unique index
/// for click in 1..=2 {
///     let placed = numbers.redeem(&number, &user, async |number, _| {
///         Ok::<_, Error>(if orders.insert(number) { Placed::New(()) } else { Placed::Again })
///     });
///     // For the user both results mean "your order is placed".
///     assert_eq!(placed.await?, if click == 1 { Placed::New(()) } else { Placed::Again });
/// }
/// assert!(matches!(numbers.check(&number, &mallory), Err(Error::TokenUnknown(_))));
/// # Ok(()) }
/// ```
///
/// # With a database
///
/// [`redeem`](Self::redeem) accepts the result of [`sql::insert_once`], for which a duplicate is a row with the same key. Any
/// other conflict stays an error. The conversion of its `Insertion` into [`Placed`] has an example.
///
/// [`sql::insert_once`]: https://docs.rs/idempotence/latest/idempotence/sql/fn.insert_once.html
///
/// # Unique
///
/// A number has 63 bits: 41 bits for the milliseconds since 2025, 10 for a machine id, and a counter of 12. The numbers of one
/// handle grow. No two handles with one name make the same number:
///
/// * A machine id is leased through the store, so only one handle has it. The time in a number is before the end of the
///   lease, by the same clock. A process that was suspended for longer issues nothing until it has renewed its lease.
/// * The store reserves the id for [`skew`](crate::OrderNumbersBuilder::skew) after that end, or after the last number if the
///   id was given back.
/// * So if the two clocks differ by less than `skew`, the next handle with the id reads a later time than any time in an
///   earlier number. A later time makes a greater number.
///
/// A handle reads the time of day when it leases a machine id, and then uses the monotonic clock. So setting the clock during a
/// lease has no effect, and a clock that was set back before the next lease is ignored. If there are more than 4096 numbers in
/// a millisecond, they take the times of later milliseconds, up to the end of the lease.
///
/// A store that loses the leases, by a flush, an eviction or a fail-over, may lease one id to two handles until the next renewal,
/// a third of the lease later. Then two customers may get one number. So after [`Placed::Again`] read the order with this number
/// *and* this customer.
#[derive(Clone)]
pub struct OrderNumbers(Arc<Issuer>);

impl OrderNumbers {
    /// Issues a number to `subject`, for example to a user. Only this subject can redeem it.
    ///
    /// Round trips: none. Nothing is stored.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if no machine id is leased, because the store did not answer in time. The next id is leased as soon
    /// as possible, by a task on the runtime where the handle was built. After a `fork()` only the parent has the lease, so build
    /// the handle in the child. [`Error::InvalidKey`] if the subject cannot be serialized.
    pub fn issue<S: KeyPart + ?Sized>(&self, subject: &S) -> Result<OrderNumber, Error> {
        let Machine { shared, site, .. } = &*self.0.machine;
        let operation = shared.observers().begin(site);
        let issued = self.generate(subject);
        operation.finish(&issued, EventKind::NumberIssued);
        issued
    }

    fn generate<S: KeyPart + ?Sized>(&self, subject: &S) -> Result<OrderNumber, Error> {
        let Some(number) = self.0.machine.next() else {
            return Err(self.failure(Error::Unavailable, NO_MACHINE));
        };
        let proof = self.proof(&self.0.secrets[0], number, subject);
        let proof = proof.map_err(|_| self.failure(Error::InvalidKey, UNENCODABLE))?;
        Ok(OrderNumber::new(number, proof))
    }

    /// Checks that `text` is a number that was issued to `subject`, and is not too old.
    ///
    /// Round trips: none. It does not check whether an order with the number exists; only [`redeem`](Self::redeem) does. An
    /// event is emitted only for a rejected number. The age follows from the time in the number: the time on the machine that
    /// issued it.
    ///
    /// # Errors
    ///
    /// [`Error::TokenMalformed`] if the text cannot be an order number; [`Error::TokenUnknown`] if the number was made up, was
    /// issued to another subject or with another name or secret, or has expired; [`Error::InvalidKey`] if the subject cannot be
    /// serialized.
    pub fn check<S: KeyPart + ?Sized>(
        &self,
        text: &str,
        subject: &S,
    ) -> Result<OrderNumber, Error> {
        let observers = self.0.machine.shared.observers();
        let began = observers.start_time();
        self.checked(text, subject)
            .inspect_err(|error| observers.emit_since(began, Event::of_operation(error)))
    }

    fn checked<S: KeyPart + ?Sized>(&self, text: &str, subject: &S) -> Result<OrderNumber, Error> {
        let Some((number, claimed)) = parse(text) else {
            return Err(self.failure(Error::TokenMalformed, MALFORMED));
        };
        let mut known = false;
        for secret in &self.0.secrets {
            let proof = self.proof(secret, number, subject);
            let proof = proof.map_err(|_| self.failure(Error::InvalidKey, UNENCODABLE))?;
            known |= proof == claimed;
        }
        if !known {
            return Err(self.failure(Error::TokenUnknown, NOT_ISSUED));
        }
        let age = self
            .0
            .machine
            .millis()
            .saturating_sub(sequence::millis_of(number));
        if Duration::from_millis(age) > self.0.max_age {
            return Err(self.failure(Error::TokenUnknown, EXPIRED));
        }
        Ok(OrderNumber::new(number, claimed))
    }

    /// Inserts an order with a number that was issued to `subject`.
    ///
    /// `insert` gets the number, and inserts the order under a unique index on the number. This index decides whether the order
    /// exists. `insert` also gets a hint. [`Hint::PerhapsSeen`] means that an earlier call tried to redeem the number, so a
    /// look-up before the insert may be cheaper. The hint proves nothing; only the insert decides.
    ///
    /// Round trips: one for the hint, which adds the number to a [`SeenSet`](crate::SeenSet), and the round trips of `insert`.
    /// The hint waits for at most a quarter of the handle's deadline. Without an answer it is [`Hint::Unseen`], and the order
    /// is inserted.
    ///
    /// # Errors
    ///
    /// The errors of [`check`](Self::check), before anything is sent, and the errors of `insert`. After an error of `insert` the
    /// number can be redeemed again.
    ///
    /// # Cancellation
    ///
    /// A dropped call drops `insert`. The number may count as perhaps seen in the next call.
    pub async fn redeem<S, R, E>(
        &self,
        text: &str,
        subject: &S,
        insert: impl AsyncFnOnce(i64, Hint) -> Result<Placed<R>, E>,
    ) -> Result<Placed<R>, E>
    where
        S: KeyPart + ?Sized,
        E: From<Error>,
    {
        let number = self.check(text, subject)?.value();
        let hint = self.0.seen.hint(&number).await;
        insert(number, hint).await
    }

    fn proof<S: KeyPart + ?Sized>(
        &self,
        secret: &Keying,
        number: u64,
        subject: &S,
    ) -> Result<Proof, UnencodablePart> {
        let mut mac = secret.hasher();
        // This part distinguishes these proofs from other uses of the same secret.
        mac.part("order number")?;
        mac.part(self.name())?;
        mac.part(&number)?;
        mac.part(subject)?;
        Ok(Proof::from_mac(mac.finish().as_bytes()))
    }

    fn failure(&self, error: fn(Failure) -> Error, why: &'static str) -> Error {
        error(Failure::new(self.0.machine.site.clone(), why, None))
    }

    fn name(&self) -> &str {
        self.0.machine.site.endpoint.as_str()
    }
}

impl fmt::Debug for OrderNumbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OrderNumbers")
            .field("name", &self.name())
            .field("max_age", &self.0.max_age)
            .finish_non_exhaustive()
    }
}

const NO_MACHINE: &str = "no machine id is leased, so no number was issued; try again later";
const UNENCODABLE: &str = "the subject of an order number could not be serialized";
const MALFORMED: &str = "the text is not an order number, which is `<number>-<proof>`";
const NOT_ISSUED: &str = "the order number was not issued to this subject";
const EXPIRED: &str = "the order number has expired";
