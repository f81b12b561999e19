//! The guarded functions that are known before their first call: those with the option `name`.

use crate::policy::Policy;

/// A guarded function with the option `name`, collected when the program is linked.
#[derive(Debug)]
pub struct Registered {
    pub(super) name: &'static str,
    /// None if the attribute has expressions, which are evaluated in each call.
    pub(super) policy: Option<fn() -> Policy>,
}

impl Registered {
    /// What [`register`](crate::private::register) submits.
    pub const fn new(name: &'static str, policy: Option<fn() -> Policy>) -> Self {
        Self { name, policy }
    }

    /// All of this program.
    pub(super) fn all() -> impl Iterator<Item = &'static Self> {
        inventory::iter::<Self>.into_iter()
    }
}

inventory::collect!(Registered);

/// Makes an endpoint known to [`endpoints`](crate::endpoints()) before its first call: its name, and its policy if no
/// part of it is an expression.
#[doc(hidden)]
#[macro_export]
macro_rules! __idempotence_register {
    ($name:expr, $policy:expr) => {
        $crate::private::inventory::submit! { $crate::private::Registered::new($name, $policy) }
    };
}
