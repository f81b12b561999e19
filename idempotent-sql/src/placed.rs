//! An insertion as the answer to an order number.

use idempotent_runtime::Placed;

use crate::block::insert::Insertion;

/// An order is inserted once for a number:
///
/// ```
/// # mod example {
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
///             // The order probably exists, and a `SELECT` is cheaper than an insert that fails.
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
impl<R> From<Insertion<R>> for Placed<R> {
    fn from(insertion: Insertion<R>) -> Self {
        match insertion {
            Insertion::Inserted(row) => Self::New(row),
            Insertion::AlreadyThere(_) => Self::Again,
        }
    }
}
