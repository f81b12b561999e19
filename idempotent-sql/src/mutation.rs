//! Deliberate mistakes. Only tests make them, to prove that they would find them.

/// Whether this mistake is made on this thread. Outside of tests it never is, and the mistake is not compiled.
macro_rules! mutation {
    ($mistake:ident) => {{
        #[cfg(test)]
        let is_made = $crate::mutation::is_made($crate::mutation::Mutation::$mistake);
        #[cfg(not(test))]
        let is_made = false;
        is_made
    }};
}
pub(crate) use mutation;

#[cfg(test)]
pub(crate) use self::on_this_thread::{Mutation, assert_kept, is_made};

#[cfg(test)]
mod on_this_thread {
    use std::cell::Cell;

    thread_local! {
        static MUTATION: Cell<Option<Mutation>> = const { Cell::new(None) };
    }

    /// One mistake of a store.
    #[allow(dead_code, reason = "some databases need a feature")]
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) enum Mutation {
        // Of batches of a database.
        /// A change is sent although its caller withdrew it while the batch waited for a connection.
        SendsWithdrawn,
        /// If one change fails, the others count as done.
        AnswersForAll,
        /// A batch has two changes of a key, the later change first.
        LosesOrder,
        /// A batch that waits for a connection does not count.
        HidesExhaustedPool,
        /// A database that cannot make batches gets one after the other.
        SendsRefused,
        // Of batches of MySQL.
        /// A batch waits for rows that other transactions have locked.
        WaitsForLocked,
        /// A batch waits for rows that other transactions have inserted, or claims expired rows that they have locked.
        InsertsLocked,
        /// The stored values are read before the commit.
        ReadsInTransaction,
        /// All changes count as done.
        AnswersForAllRows,
        /// An attempt that was counted before is counted again.
        RepeatsCounts,
        /// The counters are read after the commit.
        ReadsCountsLate,
        /// A batch that fails does not end its transaction.
        LeavesTransaction,
        // Of the attempts of a database.
        /// An operation may lose only as many races as it may be sent after failures.
        GivesUpEarly,
    }

    pub(crate) fn is_made(mistake: Mutation) -> bool {
        MUTATION.get() == Some(mistake)
    }

    /// Checks that a rule is kept, and that it is not kept with any of these mistakes.
    pub(crate) fn assert_kept(is_kept: impl Fn() -> bool, mistakes: &[Mutation]) {
        assert!(is_kept(), "the rule is broken without a mistake");
        for mistake in mistakes {
            MUTATION.set(Some(*mistake));
            let is_kept = is_kept();
            MUTATION.set(None);
            assert!(!is_kept, "the test does not find {mistake:?}");
        }
    }
}
