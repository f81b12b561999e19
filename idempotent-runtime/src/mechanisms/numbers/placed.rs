//! What became of an order.

#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
use crate::sql::Insertion;

/// What became of an order whose number was redeemed. Both are a success: tell the user that the order is created.
///
/// The `Insertion` of `sql::insert_once` turns into it by `into`.
///
/// ```
/// # use idempotent_runtime as idempotence;
/// use idempotence::Placed;
///
/// fn text(placed: Placed<i64>) -> String {
///     match placed {
///         Placed::New(row) => format!("order {row} is created"),
///         Placed::Again => "the order is created".to_owned(),
///     }
/// }
/// assert_eq!(text(Placed::New(7)), "order 7 is created");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[must_use = "a duplicate placed nothing"]
pub enum Placed<R = ()> {
    /// The order is in.
    New(R),
    /// The order with this number was there before; nothing was inserted.
    Again,
}

#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
impl<R> From<Insertion<R>> for Placed<R> {
    fn from(insertion: Insertion<R>) -> Self {
        match insertion {
            Insertion::Inserted(row) => Self::New(row),
            Insertion::AlreadyThere(_) => Self::Again,
        }
    }
}
