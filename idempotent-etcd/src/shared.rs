//! An answer that several calls wait for.

use tokio::runtime::Handle;
use tokio::sync::watch;
use tonic::Status;

/// An answer that several calls wait for.
#[derive(Clone)]
pub(crate) struct SharedAnswer<T>(watch::Receiver<Option<Result<T, Status>>>);

impl<T: Clone + Send + Sync + 'static> SharedAnswer<T> {
    /// Asks in a task, because each of the calls may give up, and later calls need the answer.
    pub(crate) fn ask(
        runtime: &Handle,
        answer: impl Future<Output = Result<T, Status>> + Send + 'static,
    ) -> Self {
        let (sender, receiver) = watch::channel(None);
        runtime.spawn(async move { sender.send_replace(Some(answer.await)) });
        Self(receiver)
    }

    /// The answer, if it is known.
    pub(crate) fn peek(&self) -> Option<Result<T, Status>> {
        self.0.borrow().clone()
    }

    pub(crate) async fn wait(mut self) -> Result<T, Status> {
        let answer = self.0.wait_for(Option::is_some).await;
        let answer = answer.ok().and_then(|answer| answer.clone());
        answer.unwrap_or_else(|| Err(Status::cancelled("the runtime ends")))
    }
}
