//! Functions with the options `replay`, `replay_err`, `payload` and `wait`.

mod answers;
mod endpoints;
mod hygiene;
mod payload;
mod responses;
mod sendness;
mod shapes;
mod traits;
mod values;
mod waiting;

use std::future::Future;
use std::sync::{Arc, Mutex};

use idempotence::{Error, Event, EventKind, Idempotency, MemoryStore};

/// The return type of the guarded functions here.
type Done<T> = Result<T, Error>;

async fn fresh<T>(test: impl Future<Output = T>) -> T {
    Idempotency::new(MemoryStore::new()).scope(test).await
}

/// Awaits two equal calls. One body runs, and both calls get its result.
macro_rules! replays {
    ($call:expr => $expected:expr) => {
        let calls = async {
            for _ in 0..2 {
                assert_eq!($call.await.unwrap(), $expected);
            }
        };
        assert_eq!($crate::replay::ends(calls).await, $crate::replay::REPLAYED);
    };
}

use replays;

/// The ends of two equal calls.
const REPLAYED: [EventKind; 2] = [EventKind::Executed, EventKind::Replayed];

/// The ends of the calls of `test`.
async fn ends(test: impl Future<Output = ()>) -> Vec<EventKind> {
    let ends = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&ends);
    Idempotency::builder(MemoryStore::new())
        .observer(move |event: &Event<'_>| sink.lock().unwrap().push(event.kind()))
        .build()
        .unwrap()
        .scope(test)
        .await;
    let ends = ends.lock().unwrap();
    ends.clone()
}
