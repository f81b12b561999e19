//! What each layer between a store and a connection does.

use idempotent_runtime::port::redis::Transport;

use crate::send::op::{Op, Reply};
use crate::send::request::Request;

/// Sends an operation, itself or through the layer below.
pub(crate) trait Layer: Send + Sync + 'static {
    /// Returns the server's answer. A dropped future may have sent the operation.
    fn run(&self, op: &Op<'_>) -> impl Future<Output = Reply> + Send;
}

/// The lowest layer: sends an operation or a batch over one connection.
pub(crate) trait BaseLayer: Layer + Transport<Operation = Request, Reply = Reply> {}

impl<S: Layer + Transport<Operation = Request, Reply = Reply>> BaseLayer for S {}
