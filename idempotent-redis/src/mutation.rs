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
pub(crate) use self::on_this_thread::{Mutation, assert_kept, is_made, make};

#[cfg(test)]
mod on_this_thread {
    use std::cell::Cell;
    use std::time::Duration;

    use tokio::runtime::Builder;
    use tokio::time::timeout;

    thread_local! {
        static MUTATION: Cell<Option<Mutation>> = const { Cell::new(None) };
    }

    /// One mistake in how batches are sent.
    #[allow(dead_code, reason = "some servers run only on Unix")]
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) enum Mutation {
        /// An operation gets the reply to the next command.
        ShiftsReplies,
        /// The error of one removal is the answer to all removals.
        SharesError,
        /// A removal by an unknown script is not repeated.
        ForgetsSource,
        /// The reply to a notification is the answer to the next operation.
        ReadsNotification,
        /// Writes are acknowledged without a wait for the replicas.
        AcknowledgesAtOnce,
        // Of the batches of a cluster.
        /// The caller gets the redirection of a node.
        ReturnsRedirection,
        /// A batch goes to another node.
        WrongNode,
        /// The fault of one operation is the answer to all operations of its batch.
        OneFaultForAll,
        /// All operations of a batch are sent again if one of them was redirected.
        RepeatsBatch,
        /// An operation is sent again after its answer was lost.
        RepeatsLost,
    }

    pub(crate) fn is_made(mistake: Mutation) -> bool {
        MUTATION.get() == Some(mistake)
    }

    /// Makes a mistake on this thread from now on, or none.
    pub(crate) fn make(mistake: Option<Mutation>) {
        MUTATION.set(mistake);
    }

    /// Checks that a rule is kept, and that it is not kept with this mistake.
    pub(crate) fn assert_kept<F: Future<Output = bool>>(rule: impl Fn() -> F, mistake: Mutation) {
        let is_kept = || {
            let mut runtime = Builder::new_current_thread();
            let runtime = runtime.enable_time().start_paused(true).build();
            // A mistake may make the rule wait forever.
            let kept = async { timeout(Duration::from_hours(1), rule()).await };
            runtime.expect("a runtime").block_on(kept)
        };
        assert_eq!(is_kept(), Ok(true), "the rule is broken without a mistake");
        make(Some(mistake));
        let is_kept = is_kept();
        make(None);
        assert_ne!(is_kept, Ok(true), "the test does not find {mistake:?}");
    }
}
