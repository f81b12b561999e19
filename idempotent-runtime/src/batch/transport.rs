//! What the owner of a connection implements, so that its operations go in batches.

use std::future::{self, Future};

/// The operations that go in batches.
pub trait BatchTypes {
    /// An operation that owns its arguments, because its caller may be dropped.
    type Operation: Operation;
    /// The answer to one operation, also if this is an error.
    type Reply: Send + 'static;
}

/// Sends batches of operations over one connection.
pub trait Transport: BatchTypes + Send + Sync + 'static {
    /// Waits until the connection is usable, or an attempt to connect has failed. While this waits, all operations stay in the
    /// queue, and a dropped operation is not sent.
    fn ready(&self) -> impl Future<Output = ()> + Send {
        future::ready(())
    }

    /// Sends a batch as one request, and returns an answer for each operation, in their order.
    ///
    /// The first poll must hand the whole batch to the connection if the connection is usable: the engine sends the next batch
    /// after this poll, so this keeps the order of batches. A dropped future has no callers any more.
    fn send(
        &self,
        batch: Vec<Self::Operation>,
    ) -> impl Future<Output = Vec<Answer<Self::Operation, Self::Reply>>> + Send;

    /// A caller of a batch without an answer has stopped waiting, and others still wait: the connection may be broken.
    fn overdue(&self) {}

    /// A task that sent batches has ended. So perhaps no batch follows, until another operation is queued.
    fn on_idle(&self) {}
}

/// One operation of a batch.
pub trait Operation: Send + 'static {
    /// About how many bytes the operation adds to a request.
    fn size(&self) -> usize;

    /// A digest of the key whose operations stay in order, at most one in a batch. Two keys may have the same digest: then their
    /// operations only wait for each other.
    ///
    /// `None` if the operation may be in one batch with others of its key.
    fn digest(&self) -> Option<u64>;
}

/// The answer to one operation of a batch.
#[derive(Debug)]
pub enum Answer<O, R> {
    /// The answer for the caller.
    Reply(R),
    /// The operation was not applied. The next batch contains this operation before all others, if its caller still waits. Batches that
    /// left meanwhile may have later operations of its key.
    Again(O),
}
