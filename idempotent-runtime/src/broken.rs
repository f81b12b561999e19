//! Deliberate mistakes. Only tests make them, to prove that they would find them.
//!
//! A mistake is a variant of a type that exists only in tests: `broken!(Broken::SendsDropped)` is true while a test of this thread
//! runs this variant.

/// Whether this mistake is made on this thread. Outside of tests it never is, and the mistake is not compiled.
macro_rules! broken {
    ($mistake:expr) => {{
        #[cfg(any(test, feature = "shuttle"))]
        let is_made = $crate::broken::is_made(&$mistake);
        #[cfg(not(any(test, feature = "shuttle")))]
        let is_made = false;
        is_made
    }};
}
pub(crate) use broken;

#[cfg(test)]
pub(crate) use self::on_this_thread::assert_kept;
#[cfg(any(test, feature = "shuttle"))]
pub(crate) use self::on_this_thread::{is_made, make};

#[cfg(any(test, feature = "shuttle"))]
mod on_this_thread {
    use std::any::Any;
    use std::cell::RefCell;
    #[cfg(test)]
    use std::fmt::Debug;

    thread_local! {
        static MISTAKE: RefCell<Option<Box<dyn Any>>> = const { RefCell::new(None) };
    }

    pub(crate) fn is_made<M: PartialEq + 'static>(mistake: &M) -> bool {
        MISTAKE.with_borrow(|made| {
            let made = made.as_ref().and_then(|made| made.downcast_ref::<M>());
            made == Some(mistake)
        })
    }

    /// Makes a mistake on this thread from now on, or none.
    pub(crate) fn make<M: 'static>(mistake: Option<M>) {
        let mistake = mistake.map(|mistake| Box::new(mistake) as Box<dyn Any>);
        MISTAKE.set(mistake);
    }

    #[cfg(test)]
    /// Checks that a rule is kept, and that it is not kept with any of these mistakes.
    pub(crate) fn assert_kept<M: Debug + Copy + 'static>(
        is_kept: impl Fn() -> bool,
        mistakes: &[M],
    ) {
        assert!(is_kept(), "the rule is broken without a mistake");
        for mistake in mistakes {
            make(Some(*mistake));
            let is_kept = is_kept();
            make(None::<M>);
            assert!(!is_kept, "the test does not find {mistake:?}");
        }
    }
}
