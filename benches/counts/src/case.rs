//! The cases: a kind of call on a store.

mod store_access;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use axum::Router;
use idempotence::{Error, Idempotency};
use tokio::runtime::{Builder, Runtime};

use self::store_access::StoreAccess;
use crate::guarded::{Gate, Receipt, alone, keep, release, replay, several, share};
use crate::requests::{self, Guard};
use crate::server::Server;

/// A kind of call on a store.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// What is called.
    pub call: &'static str,
    /// The store.
    pub store: &'static str,
    /// How many calls a lap of the driver makes.
    pub calls: u32,
    kind: Kind,
    access: StoreAccess,
}

/// A case with its store.
#[derive(Debug)]
pub struct Started {
    kind: Kind,
    runtime: Runtime,
    handle: Arc<Idempotency>,
    /// The guarded handler of HTTP.
    routes: Router,
    server: Arc<Server>,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Release,
    /// A call with two further keys, which it releases.
    Several,
    Store,
    Replay(usize),
    /// A replay on a handle that seals results.
    SealedReplay(usize),
    Done,
    /// A duplicate of a running call, which is refused.
    RefusedFollower,
    /// One running call with this many duplicates, which wait for its result.
    Storm(u32),
    /// A request of HTTP with a new key.
    Request(Guard),
    /// A request of HTTP that gets the stored response.
    ReplayedRequest(Guard),
}

const KINDS: [(&str, u32, Kind); 15] = [
    ("first call, release", 1000, Kind::Release),
    ("first call, 2 further keys", 500, Kind::Several),
    ("first call, store 1 KiB", 500, Kind::Store),
    ("replay 1 KiB", 1000, Kind::Replay(1000)),
    ("replay 64 KiB", 100, Kind::Replay(64 * 1000)),
    ("replay 1 KiB, sealed", 1000, Kind::SealedReplay(1000)),
    ("refused duplicate", 1000, Kind::Done),
    ("refused follower", 1000, Kind::RefusedFollower),
    ("first call and 1 waiting follower", 200, Kind::Storm(1)),
    ("first call and 11 waiting followers", 100, Kind::Storm(11)),
    ("request", 500, Kind::Request(Guard::Nothing)),
    ("first request", 500, Kind::Request(Guard::Layer)),
    ("first request, by hand", 500, Kind::Request(Guard::ByHand)),
    ("replayed request", 500, Kind::ReplayedRequest(Guard::Layer)),
    (
        "replayed request, by hand",
        500,
        Kind::ReplayedRequest(Guard::ByHand),
    ),
];

/// The number of equal calls.
const SAME: u64 = 1_000_000;

/// All cases.
pub fn cases() -> impl Iterator<Item = Case> {
    let scripted = |is_pending_once| StoreAccess::Scripted { is_pending_once };
    let stores = [
        ("–", StoreAccess::None),
        ("memory", StoreAccess::Memory),
        ("Redis", scripted(false)),
        ("Redis, pending once", scripted(true)),
        ("Redis, client", StoreAccess::Client),
    ];
    let all = stores.into_iter().flat_map(|(store, access)| {
        KINDS.into_iter().map(move |(call, calls, kind)| Case {
            call,
            store,
            calls,
            kind,
            access,
        })
    });
    all.filter(|case| case.access.is_counted_for(case.kind))
}

impl Case {
    /// Makes a runtime, a store and a handle for the case.
    ///
    /// # Panics
    ///
    /// If there is no port for the server.
    pub fn start(&self) -> Started {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        let stores = matches!(
            self.kind,
            Kind::Replay(_) | Kind::SealedReplay(_) | Kind::Done | Kind::ReplayedRequest(_)
        );
        let server = Server::new(stores);
        let seals = matches!(self.kind, Kind::SealedReplay(_));
        let handle = runtime.block_on(self.access.reach(&server, seals));
        let routes = match self.kind {
            Kind::Request(guard) | Kind::ReplayedRequest(guard) => {
                runtime.block_on(guard.routes(&handle, self.access.connection(&server)))
            }
            _ => Router::new(),
        };
        Started {
            kind: self.kind,
            runtime,
            handle: Arc::new(handle),
            routes,
            server,
        }
    }

    /// The name of the case as an argument and a file name.
    pub fn slug(&self) -> String {
        let name = format!("{} {}", self.store, self.call).to_lowercase();
        let words = name.split(|letter: char| !letter.is_ascii_alphanumeric());
        let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
        words.join("-")
    }

    /// How many duplicates wait in each storm; `None` for other calls.
    pub fn followers(&self) -> Option<u32> {
        match self.kind {
            Kind::Storm(followers) => Some(followers),
            _ => None,
        }
    }
}

impl Started {
    /// How many commands the server got so far. It gets none of a store in memory.
    pub fn commands(&self) -> u64 {
        self.server.commands()
    }

    /// Makes calls in a task, one after another, and runs `between` before the first call and after each call. The `number`s of laps
    /// begin with 0.
    ///
    /// # Panics
    ///
    /// If a call has another answer than its case expects.
    pub fn lap(&self, number: u32, calls: u32, between: fn()) {
        let numbers = u64::from(number + 1) * 1_000_000..;
        let numbers = numbers.take(calls as usize);
        let (handle, kind) = (Arc::clone(&self.handle), self.kind);
        let mut routes = self.routes.clone();
        let lap = async move {
            if let Kind::Request(_) | Kind::ReplayedRequest(_) = kind {
                send_requests(&mut routes, kind, numbers, between).await;
                return;
            }
            if number == 0 {
                make_first_call(&handle, kind).await;
            }
            make_calls(&handle, kind, numbers, between).await;
        };
        let lap = self.runtime.spawn(lap);
        self.runtime.block_on(lap).expect("no call panics");
    }
}

/// Stores the record that the other calls find.
async fn make_first_call(handle: &Idempotency, kind: Kind) {
    match kind {
        Kind::Replay(length) | Kind::SealedReplay(length) => {
            assert_text(replay(handle, SAME, length).await, length);
        }
        Kind::Done => assert!(keep(handle, SAME).await.is_ok()),
        _ => {}
    }
}

async fn make_calls(
    handle: &Idempotency,
    kind: Kind,
    numbers: impl Iterator<Item = u64>,
    between: fn(),
) {
    match kind {
        Kind::Release => {
            between();
            for number in numbers {
                assert!(release(handle, number).await.is_ok());
                between();
            }
        }
        Kind::Several => {
            between();
            for number in numbers {
                assert!(several(handle, number).await.is_ok());
                between();
            }
        }
        Kind::Store => {
            between();
            for number in numbers {
                assert!(replay(handle, number, 1000).await.is_ok());
                between();
            }
        }
        Kind::Replay(length) | Kind::SealedReplay(length) => {
            between();
            for _ in numbers {
                assert_text(replay(handle, SAME, length).await, length);
                between();
            }
        }
        Kind::Done => {
            between();
            for _ in numbers {
                let refused = keep(handle, SAME).await;
                assert!(matches!(refused, Err(Error::AlreadyDone(_))), "{refused:?}");
                between();
            }
        }
        Kind::RefusedFollower => {
            let gate = Gate::default();
            let mut first = Box::pin(alone(handle, SAME, &gate));
            poll_until_body(first.as_mut()).await;
            between();
            for _ in numbers {
                let refused = alone(handle, SAME, &gate).await;
                assert!(matches!(refused, Err(Error::InProgress(_))), "{refused:?}");
                between();
            }
            gate.open();
            assert!(first.await.is_ok());
        }
        Kind::Storm(followers) => storms(handle, followers, numbers, between).await,
        // `send_requests` makes them.
        Kind::Request(_) | Kind::ReplayedRequest(_) => {}
    }
}

async fn send_requests(
    routes: &mut Router,
    kind: Kind,
    numbers: impl Iterator<Item = u64>,
    between: fn(),
) {
    let is_replay = matches!(kind, Kind::ReplayedRequest(_));
    if is_replay {
        requests::send(routes, SAME).await;
    }
    between();
    for number in numbers {
        let key = if is_replay { SAME } else { number };
        assert_eq!(requests::send(routes, key).await, is_replay);
        between();
    }
}

fn assert_text(result: Result<Receipt, Error>, length: usize) {
    assert_eq!(result.expect("a result").text.len(), length);
}

/// Polls a call until its body waits at the gate.
async fn poll_until_body(mut call: Pin<&mut impl Future>) {
    for _ in 0..3 {
        assert!(poll_once(call.as_mut()).is_pending());
        tokio::task::yield_now().await;
    }
}

/// Storms of equal calls. All calls are polled by hand, and their memory is used again, so the counts are those of the calls alone.
async fn storms(
    handle: &Idempotency,
    followers: u32,
    numbers: impl Iterator<Item = u64>,
    between: fn(),
) {
    let gate = Gate::default();
    let mut calls = Vec::new();
    calls.resize_with(1 + followers as usize, || Box::pin(None));
    between();
    for number in numbers {
        gate.close();
        for call in &mut calls {
            call.set(Some(share(handle, number, &gate)));
        }
        poll_until_body(as_call(&mut calls[0])).await;
        // Pending at first, then waiting.
        for _ in 0..2 {
            for call in &mut calls[1..] {
                assert!(poll_once(as_call(call)).is_pending());
            }
        }
        gate.open();
        for call in &mut calls {
            assert_text(poll_to_end(as_call(call)).await, 1000);
            call.set(None);
        }
        between();
    }
}

fn as_call<F: Future>(call: &mut Pin<Box<Option<F>>>) -> Pin<&mut F> {
    call.as_mut().as_pin_mut().expect("a call")
}

fn poll_once<F: Future>(call: Pin<&mut F>) -> Poll<F::Output> {
    call.poll(&mut Context::from_waker(Waker::noop()))
}

async fn poll_to_end<F: Future>(mut call: Pin<&mut F>) -> F::Output {
    loop {
        if let Poll::Ready(result) = poll_once(call.as_mut()) {
            return result;
        }
        tokio::task::yield_now().await;
    }
}
