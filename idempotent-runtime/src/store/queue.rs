//! A queue for each key: attempts of this process under one key go to the store one after the other.
//!
//! A store that compares, or locks a row, serves only one attempt at a time anyway. The queue ensures their order, and no
//! attempt is refused because of the other attempts. One attempt can pass its resources, such as a connection, to the next.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};
use tokio::time::{sleep, timeout};

use crate::world;

/// The queues of a store. Each turn can pass a `T` to the next turn.
#[derive(Debug)]
pub struct Queues<T>(Mutex<HashMap<String, Arc<TurnQueue<T>>>>);

#[derive(Debug)]
struct TurnQueue<T> {
    first: Arc<AsyncMutex<Option<T>>>,
    /// The number of turns in the queue, including the first. Changed under the lock of all queues.
    length: AtomicUsize,
    /// The number of turns that ended. Turns that overtook a stuck turn, or gave up, do not count.
    finished: AtomicUsize,
}

/// A pause between two attempts. Each is longer than the last, and random, so that two processes do not collide again.
pub(super) struct Pause(Duration);

impl Pause {
    pub(super) fn first() -> Self {
        Self(FIRST_PAUSE)
    }

    pub(super) async fn sleep(&mut self) {
        if Handle::try_current().is_ok() {
            sleep(self.0.mul_f64(world::jitter() - 1.0)).await;
            self.0 = LONGEST_PAUSE.min(self.0 * 2);
        }
    }
}

const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(64);

/// A place in a queue, and later the turn. Dropping it lets the next turn begin.
#[derive(Debug)]
pub struct QueueTurn<'a, T> {
    queues: &'a Queues<T>,
    queue: Arc<TurnQueue<T>>,
    key: String,
    inherited: Option<OwnedMutexGuard<Option<T>>>,
}

/// If no turn ends for this long, the first turn has no answer, or its future is not polled. Then the other turns overtake it:
/// the order is an optimisation, and the store is correct without it.
const STUCK: Duration = Duration::from_millis(100);

impl<T> Queues<T> {
    /// Waits until all earlier turns of the key have ended, or the queue is stuck.
    pub async fn wait_turn(&self, key: String) -> QueueTurn<'_, T> {
        let mut turn = self.join(key);
        turn.inherited = turn.queue.first_or_stuck().await;
        if turn.inherited.is_none() {
            // The queue may have moved at the last moment.
            turn.inherited = Arc::clone(&turn.queue.first).try_lock_owned().ok();
        }
        turn
    }

    fn join(&self, key: String) -> QueueTurn<'_, T> {
        let mut queues = self.lock();
        let queue = queues.entry(key.clone()).or_insert_with(|| {
            Arc::new(TurnQueue {
                first: Arc::new(AsyncMutex::new(None)),
                length: AtomicUsize::new(0),
                finished: AtomicUsize::new(0),
            })
        });
        queue.length.fetch_add(1, Ordering::Relaxed);
        QueueTurn {
            queues: self,
            queue: Arc::clone(queue),
            key,
            inherited: None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<TurnQueue<T>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> TurnQueue<T> {
    /// Waits until all earlier turns have ended. `None`: the queue is stuck.
    async fn first_or_stuck(&self) -> Option<OwnedMutexGuard<Option<T>>> {
        let mut finished = self.finished.load(Ordering::Relaxed);
        let mut first = pin!(Arc::clone(&self.first).lock_owned());
        if Handle::try_current().is_err() {
            return Some(first.await);
        }
        loop {
            if let Ok(inherited) = timeout(STUCK, &mut first).await {
                return Some(inherited);
            }
            let before = finished;
            finished = self.finished.load(Ordering::Relaxed);
            if finished == before {
                return None;
            }
        }
    }
}

impl<T> Default for Queues<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> QueueTurn<'_, T> {
    /// Takes what the previous turn passed on.
    pub fn take(&mut self) -> Option<T> {
        self.inherited.as_mut()?.take()
    }

    /// Passes something to the next turn. It is dropped if there is no next turn.
    pub fn pass_on(&mut self, resource: Option<T>) {
        if let Some(inherited) = &mut self.inherited {
            **inherited = resource;
        }
    }
}

impl<T> Drop for QueueTurn<'_, T> {
    fn drop(&mut self) {
        let had_turn = self.inherited.take().is_some();
        // The turns that overtook this turn do not take what it passed on, and may wait for just this connection.
        let left = self.queue.first.try_lock();
        drop(left.ok().and_then(|mut left| left.take()));
        let mut queues = self.queues.lock();
        if had_turn {
            self.queue.finished.fetch_add(1, Ordering::Relaxed);
        }
        if self.queue.length.fetch_sub(1, Ordering::Relaxed) == 1 {
            queues.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use futures_util::future::join_all;
    use tokio::time::{Instant, sleep};

    use super::*;

    fn try_turn<'a, T>(queues: &'a Queues<T>, key: &str) -> Option<QueueTurn<'a, T>> {
        queues.wait_turn(key.to_owned()).now_or_never()
    }

    #[test]
    fn turns_of_one_key_exclude_each_other_and_not_other_keys() {
        let queues = Queues::<()>::default();
        let first = try_turn(&queues, "key");
        assert!(first.is_some());
        assert!(try_turn(&queues, "key").is_none());
        assert!(try_turn(&queues, "another").is_some());
        drop(first);
        assert!(try_turn(&queues, "key").is_some());
    }

    #[test]
    fn turns_come_in_the_order_of_waiting_and_skip_a_dropped_waiter() {
        let queues = Queues::<()>::default();
        let first = try_turn(&queues, "key");
        let mut waiting: Vec<_> = (0..3)
            .map(|_| Box::pin(queues.wait_turn("key".to_owned())))
            .collect();
        for turn in &mut waiting {
            assert!(turn.as_mut().now_or_never().is_none());
        }
        let [second, third, fourth] = &mut waiting[..] else {
            panic!("three turns wait");
        };
        drop(first);
        assert!(fourth.as_mut().now_or_never().is_none());
        let turn = second.as_mut().now_or_never();
        assert!(turn.is_some());
        assert!(third.as_mut().now_or_never().is_none());
        drop(turn);
        drop(waiting.remove(1));
        assert!(waiting[1].as_mut().now_or_never().is_some());
    }

    #[test]
    fn an_empty_queue_is_removed() {
        let queues = Queues::<()>::default();
        let first = try_turn(&queues, "key");
        assert!(try_turn(&queues, "key").is_none());
        assert_eq!(queues.lock().len(), 1);
        drop(first);
        assert_eq!(queues.lock().len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stuck_turn_delays_the_others_for_a_moment_only() {
        let queues = Queues::<Arc<()>>::default();
        let mut stuck = try_turn(&queues, "key").expect("the queue is empty");
        let began = Instant::now();
        let mut others = Vec::new();
        for _ in 0..3 {
            others.push(queues.wait_turn("key".to_owned()).await);
        }
        assert_eq!(began.elapsed(), STUCK * 3);
        // The other turns do not get what the stuck turn passes on.
        stuck.pass_on(Some(Arc::default()));
        assert!(others.iter_mut().all(|turn| turn.take().is_none()));
        drop((others, stuck));
        assert_eq!(queues.lock().len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_passed_on_is_dropped_if_all_others_have_overtaken() {
        let queues = Queues::<Arc<()>>::default();
        let mut stuck = try_turn(&queues, "key").expect("the queue is empty");
        let overtaking = queues.wait_turn("key".to_owned()).await;
        let resource = Arc::new(());
        stuck.pass_on(Some(Arc::clone(&resource)));
        drop(stuck);
        assert_eq!(Arc::strong_count(&resource), 1);
        drop(overtaking);
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_that_overtakes_or_gives_up_does_not_delay_the_others() {
        let queues = Queues::<()>::default();
        let stuck = try_turn(&queues, "key");
        let others = (0..50).map(async |number| {
            sleep(STUCK / 10 * number).await;
            let turn = queues.wait_turn("key".to_owned());
            if number % 3 == 0 {
                assert!(timeout(STUCK / 2, turn).await.is_err());
                return;
            }
            let began = Instant::now();
            drop(turn.await);
            assert_eq!(began.elapsed(), STUCK);
        });
        join_all(others).await;
        assert!(stuck.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_moving_queue_is_not_overtaken_however_long_it_is() {
        let queues = Queues::<()>::default();
        let began = Instant::now();
        let turns = (0..50).map(async |_| {
            let turn = queues.wait_turn("key".to_owned()).await;
            sleep(STUCK / 2).await;
            assert!(turn.inherited.is_some());
        });
        join_all(turns).await;
        assert_eq!(began.elapsed(), STUCK / 2 * 50);
    }

    #[test]
    fn only_the_next_turn_gets_what_is_passed_on() {
        let queues = Queues::<Arc<()>>::default();
        let resource = Arc::new(());
        let mut first = try_turn(&queues, "key").expect("the queue is empty");
        assert!(first.take().is_none());
        let mut second = Box::pin(queues.wait_turn("key".to_owned()));
        assert!(second.as_mut().now_or_never().is_none());
        first.pass_on(Some(Arc::clone(&resource)));
        drop(first);
        let mut second = second.now_or_never().expect("the first turn has ended");
        assert!(second.take().is_some());
        second.pass_on(Some(Arc::clone(&resource)));
        drop(second);
        assert_eq!(Arc::strong_count(&resource), 1);
    }
}
