//! A result, and whether the body ran for it.

/// A value, and whether the body ran for it: the return type `Result<Once<T>, E>` of a function with `replay = true`.
///
/// The body returns `Ok(Once::Executed(value))`. A duplicate gets `Ok(Once::Replayed(value))`.
///
/// ```
/// # use idempotent_runtime as idempotence;
/// use idempotence::Once;
///
/// let once = Once::from(42);
/// assert!(!once.is_replayed());
/// assert_eq!(once.map(|number| number + 1), Once::Executed(43));
/// assert_eq!(once.into_inner(), 42);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Once<T> {
    /// The body ran in this call.
    Executed(T),
    /// The body ran in an earlier equal call. This is the stored result.
    Replayed(T),
}

impl<T> Once<T> {
    /// Whether the value is the stored result of an earlier call.
    pub fn is_replayed(&self) -> bool {
        matches!(self, Self::Replayed(_))
    }

    /// The value.
    pub fn get(&self) -> &T {
        match self {
            Self::Executed(value) | Self::Replayed(value) => value,
        }
    }

    /// The same with another value, for example a response made of it.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Once<U> {
        match self {
            Self::Executed(value) => Once::Executed(f(value)),
            Self::Replayed(value) => Once::Replayed(f(value)),
        }
    }

    /// The value, without the information whether it was replayed.
    pub fn into_inner(self) -> T {
        match self {
            Self::Executed(value) | Self::Replayed(value) => value,
        }
    }
}

impl<T> From<T> for Once<T> {
    fn from(value: T) -> Self {
        Self::Executed(value)
    }
}
