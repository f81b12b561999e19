//! The recorded expansions compile without the attribute. The crate of the macro records and compares them.

#![deny(warnings)]
#![allow(
    dead_code,
    unreachable_pub,
    unused_braces,
    clippy::all,
    clippy::pedantic
)]

/// A module for each recorded expansion.
macro_rules! expanded {
    ($($name:ident)*) => {$(
        mod $name {
            include!(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/../idempotent-macro/src/tests/expand/expanded/",
                stringify!($name),
                ".rs"
            ));
        }
    )*};
}

expanded! {
    also async_fn async_trait begin context expressions finish future generic method permits replay token tx when
}
