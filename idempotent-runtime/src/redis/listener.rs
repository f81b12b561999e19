//! Listening to what the settling scripts publish: a hint for those who wait, and never more.

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

use super::link::in_time;
use super::topology::Topology;

/// Hears what is published under keys, for all clones of a store, on one connection of its own.
///
/// The connection belongs to a task, which the first listener starts on its runtime. The task ends
/// when the store is dropped, when the connection breaks, and with its runtime; the next listener
/// starts another one.
pub(super) struct Listener {
    topology: Arc<Topology>,
    task: Mutex<Option<Requests>>,
    complained: AtomicBool,
}

type Requests = UnboundedSender<Request>;

/// Somebody wants to listen.
struct Request {
    key: Arc<str>,
    answer: oneshot::Sender<RedisResult<watch::Receiver<()>>>,
}

/// After this long a call is better off without a hint.
const PATIENCE: Duration = Duration::from_secs(1);

impl Listener {
    pub(super) fn new(topology: Arc<Topology>) -> Self {
        Self {
            topology,
            task: Mutex::default(),
            complained: AtomicBool::new(false),
        }
    }

    /// Listens to the channel `key`: when this returns, the server has confirmed it.
    pub(super) async fn listen(&self, key: &str) -> Option<watch::Receiver<()>> {
        let key = Arc::from(key);
        let (answer, answered) = oneshot::channel();
        let task = self.ask(Request { key, answer });
        let listening = if let Ok(answer) = timeout(PATIENCE, answered).await {
            answer.unwrap_or_else(|_| Err(failed(io::ErrorKind::BrokenPipe)))
        } else {
            // It may live on a runtime that stands still: the next listener is not to wait for it.
            self.forget(&task);
            Err(failed(io::ErrorKind::TimedOut))
        };
        listening.inspect_err(|error| self.complain(error)).ok()
    }

    fn ask(&self, request: Request) -> Requests {
        let mut task = self.task();
        let requests = match &*task {
            Some(requests) if !requests.is_closed() => requests.clone(),
            _ => {
                let (requests, asked) = unbounded_channel();
                tokio::spawn(serve(Arc::clone(&self.topology), asked));
                task.insert(requests).clone()
            }
        };
        // A task that ended just now drops the request, which is an answer, too.
        let _ = requests.send(request);
        requests
    }

    fn forget(&self, requests: &Requests) {
        self.task().take_if(|task| task.same_channel(requests));
    }

    fn task(&self) -> MutexGuard<'_, Option<Requests>> {
        self.task.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the first failure aloud: a missing permission would be told with every call.
    fn complain(&self, error: &RedisError) {
        if self.complained.swap(true, Ordering::Relaxed) {
            tracing::debug!(%error, "cannot listen for changes of a key");
        } else {
            tracing::warn!(
                %error,
                "cannot listen for changes of a key: calls that wait ask for it again and again"
            );
        }
    }
}

async fn serve(topology: Arc<Topology>, mut requests: UnboundedReceiver<Request>) {
    match in_time(PATIENCE, topology.listen()).await {
        Ok(connection) => {
            if let Err(error) = Listening::new(connection, requests).serve().await {
                tracing::debug!(%error, "no more changes are heard on this connection");
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

/// A connection that listens. When it is dropped, all receivers end.
struct Listening {
    /// Dropped before the senders: whoever sees the end of a receiver finds the task gone, too.
    requests: UnboundedReceiver<Request>,
    sink: PubSubSink,
    messages: PubSubStream,
    /// The channels that are subscribed to.
    senders: HashMap<Arc<str>, Arc<watch::Sender<()>>>,
    /// For each channel, the departure of its last listener.
    departures: FuturesUnordered<BoxFuture<'static, Arc<str>>>,
}

enum Event {
    Asked(Vec<Request>),
    Left(Vec<Arc<str>>),
    Told(Msg),
    StoreDropped,
    Broken,
}

impl Listening {
    fn new(connection: PubSub, requests: UnboundedReceiver<Request>) -> Self {
        let (sink, messages) = connection.split();
        Self {
            requests,
            sink,
            messages,
            senders: HashMap::new(),
            departures: FuturesUnordered::new(),
        }
    }

    async fn serve(mut self) -> RedisResult<()> {
        loop {
            match poll_fn(|cx| self.poll_event(cx)).await {
                Event::Asked(requests) => self.admit(requests).await?,
                Event::Left(keys) => self.unsubscribe(keys).await?,
                Event::Told(message) => self.tell(&message),
                Event::StoreDropped => return Ok(()),
                Event::Broken => return Err(failed(io::ErrorKind::BrokenPipe)),
            }
        }
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        let mut asked = Vec::new();
        match self.requests.poll_recv_many(cx, &mut asked, AT_ONCE) {
            Poll::Ready(0) => return Poll::Ready(Event::StoreDropped),
            Poll::Ready(_) => return Poll::Ready(Event::Asked(asked)),
            Poll::Pending => {}
        }
        let mut left = Vec::new();
        while let Poll::Ready(Some(key)) = self.departures.poll_next_unpin(cx) {
            left.push(key);
        }
        if !left.is_empty() {
            return Poll::Ready(Event::Left(left));
        }
        let message = self.messages.poll_next_unpin(cx);
        message.map(|message| message.map_or(Event::Broken, Event::Told))
    }

    /// Subscribes to what is not subscribed to yet, and answers. Messages wait meanwhile.
    async fn admit(&mut self, requests: Vec<Request>) -> RedisResult<()> {
        let mut new: HashMap<_, Vec<_>> = HashMap::new();
        for Request { key, answer } in requests {
            if let Some(sender) = self.senders.get(&key) {
                let _ = answer.send(Ok(sender.subscribe()));
            } else {
                new.entry(key).or_default().push(answer);
            }
        }
        // A command each, all in one round trip: one channel that is forbidden refuses no other.
        let subscriptions = new.into_iter().map(|(key, answers)| {
            let mut sink = self.sink.clone();
            async move {
                let confirmed = sink.subscribe(&*key).await;
                (key, answers, confirmed)
            }
        });
        let confirmations = in_time(PATIENCE, join_all(subscriptions).map(Ok)).await?;
        for (key, answers, confirmed) in confirmations {
            let sender = confirmed.map(|()| self.insert(key));
            for answer in answers {
                let listening = sender.as_ref().map(|sender| sender.subscribe());
                // Who has given up meanwhile drops the receiver, and so leaves.
                let _ = answer.send(listening.map_err(RedisError::clone));
            }
        }
        Ok(())
    }

    fn insert(&mut self, key: Arc<str>) -> Arc<watch::Sender<()>> {
        let sender = Arc::new(watch::Sender::new(()));
        self.senders.insert(Arc::clone(&key), Arc::clone(&sender));
        let listened_to = Arc::clone(&sender);
        let departure = async move {
            listened_to.closed().await;
            key
        };
        self.departures.push(departure.boxed());
        sender
    }

    /// Unsubscribes from what nobody listens to. Nobody can have come back: that takes a request,
    /// and those wait meanwhile.
    async fn unsubscribe(&mut self, keys: Vec<Arc<str>>) -> RedisResult<()> {
        for key in &keys {
            self.senders.remove(key);
        }
        let channels: Vec<&str> = keys.iter().map(|key| &**key).collect();
        in_time(PATIENCE, self.sink.unsubscribe(channels)).await
    }

    fn tell(&self, message: &Msg) {
        if let Some(sender) = self.senders.get(message.get_channel_name()) {
            sender.send_replace(());
        }
    }
}

/// How many requests are answered in one round trip.
const AT_ONCE: usize = 1024;

fn failed(kind: io::ErrorKind) -> RedisError {
    RedisError::from(io::Error::from(kind))
}
