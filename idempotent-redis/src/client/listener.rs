//! Subscriptions to notifications of settled keys. A notification is only a hint to poll.

use std::collections::HashMap;
use std::future::poll_fn;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use ::redis::aio::{PubSub, PubSubSink, PubSubStream};
use ::redis::{Msg, RedisError, RedisResult};
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, join_all};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

use crate::client::failure::is_forbidden;
use crate::client::link::in_time;
use crate::client::reason::reason_for;
use crate::client::topology::Topology;

/// The subscriptions of all clones of a store, on one separate connection.
///
/// A task owns the connection. The first subscriber starts the task on its runtime. The task ends when the store is dropped,
/// when the connection breaks, and with its runtime. The next subscriber then starts a new task.
pub(crate) struct Listener {
    topology: Arc<Topology>,
    task: Mutex<Option<Requests>>,
    /// A missing permission has been logged as a warning.
    has_warned_of_permission: AtomicBool,
    /// Another failure has been logged as a warning.
    has_warned: AtomicBool,
}

type Requests = UnboundedSender<Subscribe>;

/// A request to subscribe.
struct Subscribe {
    key: Arc<str>,
    answer: oneshot::Sender<RedisResult<watch::Receiver<()>>>,
}

/// After this time a call polls without a subscription.
const TIMEOUT: Duration = Duration::from_secs(1);

impl Listener {
    pub(crate) fn new(topology: Arc<Topology>) -> Self {
        Self {
            topology,
            task: Mutex::default(),
            has_warned_of_permission: AtomicBool::new(false),
            has_warned: AtomicBool::new(false),
        }
    }

    /// Subscribes to the channel `key`. When this returns, the server has confirmed the subscription.
    pub(crate) async fn subscribe(&self, key: &str) -> Option<watch::Receiver<()>> {
        let key = Arc::from(key);
        let (answer, answered) = oneshot::channel();
        let task = self.send(Subscribe { key, answer });
        let listening = if let Ok(answer) = timeout(TIMEOUT, answered).await {
            answer.unwrap_or_else(|_| Err(io_failure(io::ErrorKind::BrokenPipe)))
        } else {
            // The task may be on a runtime that does not run. The next subscriber must not wait for it.
            self.forget(&task);
            Err(io_failure(io::ErrorKind::TimedOut))
        };
        listening.inspect_err(|error| self.report(error)).ok()
    }

    fn send(&self, request: Subscribe) -> Requests {
        let mut task = self.task();
        let requests = match &*task {
            Some(requests) if !requests.is_closed() => requests.clone(),
            _ => {
                let (requests, inbox) = unbounded_channel();
                tokio::spawn(serve(Arc::clone(&self.topology), inbox));
                task.insert(requests).clone()
            }
        };
        // A task that has just ended drops the request. The subscriber gets the drop as an answer.
        let _ = requests.send(request);
        requests
    }

    fn forget(&self, requests: &Requests) {
        self.task().take_if(|task| task.same_channel(requests));
    }

    fn task(&self) -> MutexGuard<'_, Option<Requests>> {
        self.task.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Logs a warning only for the first failure of each cause, because a missing permission fails with every call, and an outage
    /// with each of many calls.
    fn report(&self, error: &RedisError) {
        let is_forbidden = is_forbidden(error);
        let has_warned = if is_forbidden {
            &self.has_warned_of_permission
        } else {
            &self.has_warned
        };
        let why = match reason_for(error) {
            Some(reason) => format!("the server {reason}"),
            None => error.to_string(),
        };
        if has_warned.swap(true, Ordering::Relaxed) {
            tracing::debug!(
                target: "idempotence",
                "cannot subscribe to changes of a key: {why}"
            );
        } else if is_forbidden {
            tracing::warn!(
                target: "idempotence",
                "cannot subscribe to changes of a key, so waiting calls poll: {why}; allow `+subscribe \
                 +unsubscribe` and the channels of the prefix"
            );
        } else {
            tracing::warn!(
                target: "idempotence",
                "cannot subscribe to changes of a key now, so waiting calls poll: {why}"
            );
        }
    }
}

async fn serve(topology: Arc<Topology>, mut requests: UnboundedReceiver<Subscribe>) {
    match in_time(TIMEOUT, topology.connect_pubsub()).await {
        Ok(connection) => {
            if let Err(error) = Subscriptions::new(connection, requests).serve().await {
                tracing::debug!(
                    target: "idempotence",
                    %error,
                    "the connection for subscriptions is closed"
                );
            }
        }
        Err(error) => {
            requests.close();
            while let Some(request) = requests.recv().await {
                let _ = request.answer.send(Err(error.clone()));
            }
        }
    }
}

/// A connection with subscriptions. Dropping it ends all receivers.
struct Subscriptions {
    /// This is dropped before the senders, so that after the end of a receiver the next request starts a new task.
    requests: UnboundedReceiver<Subscribe>,
    sink: PubSubSink,
    messages: PubSubStream,
    /// The subscribed channels.
    senders: HashMap<Arc<str>, Arc<watch::Sender<()>>>,
    /// For each channel a future that ends when its last receiver is dropped.
    closed: FuturesUnordered<BoxFuture<'static, Arc<str>>>,
}

enum ListenerEvent {
    Requested(Vec<Subscribe>),
    Closed(Vec<Arc<str>>),
    Published(Msg),
    StoreDropped,
    Broken,
}

impl Subscriptions {
    fn new(connection: PubSub, requests: UnboundedReceiver<Subscribe>) -> Self {
        let (sink, messages) = connection.split();
        Self {
            requests,
            sink,
            messages,
            senders: HashMap::new(),
            closed: FuturesUnordered::new(),
        }
    }

    async fn serve(mut self) -> RedisResult<()> {
        loop {
            match poll_fn(|cx| self.poll_event(cx)).await {
                ListenerEvent::Requested(requests) => self.add(requests).await?,
                ListenerEvent::Closed(keys) => self.unsubscribe(keys).await?,
                ListenerEvent::Published(message) => self.notify(&message),
                ListenerEvent::StoreDropped => return Ok(()),
                ListenerEvent::Broken => return Err(io_failure(io::ErrorKind::BrokenPipe)),
            }
        }
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<ListenerEvent> {
        let mut requests = Vec::new();
        match self.requests.poll_recv_many(cx, &mut requests, BATCH) {
            Poll::Ready(0) => return Poll::Ready(ListenerEvent::StoreDropped),
            Poll::Ready(_) => return Poll::Ready(ListenerEvent::Requested(requests)),
            Poll::Pending => {}
        }
        let mut keys = Vec::new();
        while let Poll::Ready(Some(key)) = self.closed.poll_next_unpin(cx) {
            keys.push(key);
        }
        if !keys.is_empty() {
            return Poll::Ready(ListenerEvent::Closed(keys));
        }
        let message = self.messages.poll_next_unpin(cx);
        message.map(|message| message.map_or(ListenerEvent::Broken, ListenerEvent::Published))
    }

    /// Subscribes to new channels and answers. Messages wait in the meantime.
    async fn add(&mut self, requests: Vec<Subscribe>) -> RedisResult<()> {
        let mut new: HashMap<_, Vec<_>> = HashMap::new();
        for Subscribe { key, answer } in requests {
            if let Some(sender) = self.senders.get(&key) {
                let _ = answer.send(Ok(sender.subscribe()));
            } else {
                new.entry(key).or_default().push(answer);
            }
        }
        // One command per channel, all in one round trip: a forbidden channel must not refuse the others.
        let subscriptions = new.into_iter().map(|(key, answers)| {
            let mut sink = self.sink.clone();
            async move {
                let confirmed = sink.subscribe(&*key).await;
                (key, answers, confirmed)
            }
        });
        let confirmations = in_time(TIMEOUT, join_all(subscriptions).map(Ok)).await?;
        for (key, answers, confirmed) in confirmations {
            let sender = confirmed.map(|()| self.insert(key));
            for answer in answers {
                let listening = sender.as_ref().map(|sender| sender.subscribe());
                // A subscriber that has given up in the meantime drops the receiver. This ends its subscription.
                let _ = answer.send(listening.map_err(RedisError::clone));
            }
        }
        Ok(())
    }

    fn insert(&mut self, key: Arc<str>) -> Arc<watch::Sender<()>> {
        let sender = Arc::new(watch::Sender::new(()));
        self.senders.insert(Arc::clone(&key), Arc::clone(&sender));
        let receivers = Arc::clone(&sender);
        let closed = async move {
            receivers.closed().await;
            key
        };
        self.closed.push(closed.boxed());
        sender
    }

    /// Unsubscribes from channels without receivers. No new receiver can exist: it needs a request, and requests wait in the
    /// meantime.
    async fn unsubscribe(&mut self, keys: Vec<Arc<str>>) -> RedisResult<()> {
        for key in &keys {
            self.senders.remove(key);
        }
        let channels: Vec<&str> = keys.iter().map(|key| &**key).collect();
        in_time(TIMEOUT, self.sink.unsubscribe(channels)).await
    }

    fn notify(&self, message: &Msg) {
        if let Some(sender) = self.senders.get(message.get_channel_name()) {
            sender.send_replace(());
        }
    }
}

/// The largest number of requests in one round trip.
const BATCH: usize = 1024;

fn io_failure(kind: io::ErrorKind) -> RedisError {
    RedisError::from(io::Error::from(kind))
}
