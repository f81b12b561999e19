//! Whether an order was inserted.

/// Whether redeeming a number has inserted an order. Both variants are a success: the order exists.
///
/// The `Insertion` of `sql::insert_once` converts into it with `into`.
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
#[must_use = "a duplicate has inserted nothing"]
pub enum Placed<R = ()> {
    /// The order was inserted.
    New(R),
    /// An order with this number existed; nothing was inserted.
    Again,
}
