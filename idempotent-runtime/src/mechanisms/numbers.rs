//! Order numbers that are issued ahead, to one subject each, and judged by the unique index they are inserted under.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub(crate) mod builder;
mod issuer;
mod machine;
pub(crate) mod number;
pub(crate) mod placed;
mod sequence;
#[cfg(test)]
mod tests;

use self::issuer::Issuer;
use self::machine::Machine;
use self::number::{OrderNumber, Proof, parse};
use self::placed::Placed;
use crate::error::{Error, Failure};
use crate::key::fingerprint::{KeyPart, Keying, UnencodablePart};
use crate::observe::{Event, EventKind};
use crate::store::Hint;

/// Order numbers that are issued ahead: a page has its number before there is an order, and sends it along. Cheap to clone.
///
/// However often the page is sent, there is one order: the number is inserted under a unique index, which judges. Issuing
/// stores nothing, so numbers that are never used cost nothing.
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
/// let number = numbers.issue(&user)?.to_string(); // into the page
///
/// let mut orders = HashSet::new(); // in truth, a table with a unique index
/// for click in 1..=2 {
///     let placed = numbers.redeem(&number, &user, async |number, _| {
///         Ok::<_, Error>(if orders.insert(number) { Placed::New(()) } else { Placed::Again })
///     });
///     // To the user, both are «your order is placed».
///     assert_eq!(placed.await?, if click == 1 { Placed::New(()) } else { Placed::Again });
/// }
/// assert!(matches!(numbers.check(&number, &mallory), Err(Error::TokenUnknown(_))));
/// # Ok(()) }
/// ```
///
/// # With a database
///
/// [`redeem`](Self::redeem) takes what [`sql::insert_once`] answers. To that a duplicate is a row with the same key; any other
/// conflict is an error, and stays one.
///
/// ```
/// # #[cfg(feature = "postgres")] mod example {
/// # use idempotent_runtime as idempotence;
/// use idempotence::sql::{self, sqlx};
/// use idempotence::store::Hint;
/// use idempotence::{OrderNumbers, Placed};
/// # #[derive(Debug, thiserror::Error)]
/// # enum AppError {
/// #     #[error(transparent)]
/// #     Refused(#[from] idempotence::Error),
/// #     #[error(transparent)]
/// #     Database(#[from] sqlx::Error),
/// # }
///
/// async fn submit(pool: &sqlx::PgPool, numbers: &OrderNumbers, user: i64, number: &str) -> Result<(), AppError> {
///     let placed = numbers.redeem(number, &user, async |number, hint| {
///         if hint == Hint::PerhapsSeen {
///             // Probably there: a look is cheaper than an insert that fails.
///             let order = sqlx::query("SELECT 1 FROM orders WHERE no = $1").bind(number);
///             if order.fetch_optional(pool).await?.is_some() {
///                 return Ok(Placed::Again);
///             }
///         }
///         let mut tx = pool.begin().await?;
///         let insertion = sql::insert_once("orders").key("no", number).set("customer", user).run(&mut tx).await?;
///         tx.commit().await?;
///         Ok::<Placed<_>, AppError>(insertion.into())
///     });
///     match placed.await? {
///         Placed::New(_) | Placed::Again => println!("your order is placed"),
///     }
///     Ok(())
/// }
/// # }
/// ```
///
/// [`sql::insert_once`]: https://docs.rs/idempotence/latest/idempotence/sql/fn.insert_once.html
///
/// # Unique
///
/// A number is 63 bits: 41 of the milliseconds since 2025, 10 of a machine id, and 12 that count. Those of one handle grow.
/// Among the handles of one name no number is made twice:
///
/// * A machine id is leased through the store, so that one handle has it, and a number's time lies before the end of that
///   lease, both by the same clock; a process that was frozen for longer issues nothing until it has renewed its lease.
/// * The store keeps the id for [`skew`](crate::OrderNumbersBuilder::skew) beyond that end, or beyond the last
///   number if it was given back.
/// * So who has the id next reads a later time than any of its numbers has, if the clocks of the two differ by less
///   than `skew`; and later times make greater numbers.
///
/// A handle reads the time of day when it leases a machine id, and goes on by the monotonic clock: a clock that is set while
/// the id is held changes nothing, and one that was set back when the next id is leased is not followed. More than 4096
/// numbers in a millisecond take their time from the ones after it, up to the end of the lease.
///
/// A store that forgets the leases (it was flushed, it evicts, it failed over) may give an id to two until the
/// next renewal, a third of the lease later. Then two customers may have one number: when the index says
/// [`Placed::Again`], read the order of this number *and* this customer.
#[derive(Clone)]
pub struct OrderNumbers(Arc<Issuer>);

impl OrderNumbers {
    /// Issues a number to `subject`: whoever is to redeem it, such as a user.
    ///
    /// Round trips: none; nothing is stored.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if no machine id is leased, because the store could not be asked in time; a new one is
    /// leased as soon as it can be, for as long as the runtime lasts on which the handle was built. After a `fork()` the lease is the parent's alone: build
    /// the handle in the child. [`Error::InvalidKey`] if the subject cannot be serialized.
    pub fn issue<S: KeyPart + ?Sized>(&self, subject: &S) -> Result<OrderNumber, Error> {
        let Machine { shared, site, .. } = &*self.0.machine;
        let operation = shared.observers().begin(site);
        let issued = self.fresh(subject);
        operation.finish(&issued, EventKind::NumberIssued);
        issued
    }

    fn fresh<S: KeyPart + ?Sized>(&self, subject: &S) -> Result<OrderNumber, Error> {
        let Some(number) = self.0.machine.next() else {
            return Err(self.failure(Error::Unavailable, NO_MACHINE));
        };
        let proof = self.proof(&self.0.secrets[0], number, subject);
        let proof = proof.map_err(|_| self.failure(Error::InvalidKey, UNENCODABLE))?;
        Ok(OrderNumber::new(number, proof))
    }

    /// Says whether `text` is a number that was issued to `subject`, and is not too old.
    ///
    /// Round trips: none. Whether there is an order with it, only [`redeem`](Self::redeem) knows; so it is an event only if it is rejected. The age is read off the number,
    /// whose time is that of the machine that issued it: it may be wrong by as much as two clocks differ.
    ///
    /// # Errors
    ///
    /// [`Error::TokenMalformed`] if the text is no number of any name; [`Error::TokenUnknown`] if it is made up, was issued to another
    /// subject, under another name or secret, or has expired; [`Error::InvalidKey`] if the subject cannot be serialized.
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

    /// Places an order under a number that was issued to `subject`.
    ///
    /// `insert` gets the number, and inserts the order under it: the unique index of that column decides whether there is
    /// one. It gets a hint, too: with [`Hint::PerhapsSeen`] the number was redeemed before, or was tried to, so that
    /// looking for the order first may be cheaper. The hint proves nothing, neither way: only an insert does.
    ///
    /// Round trips: one, for the hint, which adds the number to a [`SeenSet`](crate::SeenSet) and is waited for a quarter of the handle's
    /// deadline at most; and those of `insert`. Without an answer it is [`Hint::Unseen`], and the order is placed all the same.
    ///
    /// # Errors
    ///
    /// Those of [`check`](Self::check), before anything is sent, and those of `insert`: then the number may be redeemed again.
    ///
    /// # Cancellation
    ///
    /// A dropped call leaves what `insert` left, and perhaps a hint that makes the next one look first.
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
        // Else the secret could prove something else that it is used for.
        mac.part("order number")?;
        mac.part(self.name())?;
        mac.part(&number)?;
        mac.part(subject)?;
        Ok(Proof::of(mac.finish().as_bytes()))
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
const MALFORMED: &str = "this is no order number";
const NOT_ISSUED: &str = "this order number was not issued to this subject";
const EXPIRED: &str = "this order number has expired";
