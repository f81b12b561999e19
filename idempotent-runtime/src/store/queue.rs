//! A queue for each key: in this process, those who count under one key come to the store one after the other.
//!
//! A store that decides by comparing, or by the lock of a row, serves one of them at a time, whatever is sent to it. In a queue they come
//! in their order, none is refused because of the others, and what the first one needed, such as a connection, serves them all.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Mutex as First, OwnedMutexGuard};
use tokio::time::timeout;

/// The queues of a store, in which each leaves a `T` to the next one, or nothing.
#[derive(Debug)]
pub(crate) struct Queues<T>(Mutex<HashMap<String, Arc<Queue<T>>>>);

#[derive(Debug)]
struct Queue<T> {
    first: Arc<First<Option<T>>>,
    /// How many there are in the queue, the first one included. Changed under the lock of all queues.
    length: AtomicUsize,
    /// How many had their turn, and have left. Those who pass over the first one, or give up, do not move the queue.
    gone: AtomicUsize,
}

/// A place in a queue, and the turn once it has come. Dropped, the next one has it.
#[derive(Debug)]
pub(crate) struct Turn<'a, T> {
    queues: &'a Queues<T>,
    queue: Arc<Queue<T>>,
    key: String,
    left: Option<OwnedMutexGuard<Option<T>>>,
}

/// If nobody ends a turn for so long, the first one has no answer, or is a future that is not polled. It is not waited for: nothing
/// depends on the order, and the store is right without it.
const STUCK: Duration = Duration::from_millis(100);

impl<T> Queues<T> {
    /// Waits until nobody who came before wants the same key, or the queue does not move.
    pub(crate) async fn turn(&self, key: String) -> Turn<'_, T> {
        let mut turn = self.place(key);
        let mut gone = turn.queue.gone.load(Ordering::Relaxed);
        let mut first = pin!(Arc::clone(&turn.queue.first).lock_owned());
        if Handle::try_current().is_err() {
            turn.left = Some(first.await);
            return turn;
        }
        loop {
            if let Ok(left) = timeout(STUCK, &mut first).await {
                turn.left = Some(left);
                return turn;
            }
            let before = gone;
            gone = turn.queue.gone.load(Ordering::Relaxed);
            if gone == before {
                return turn;
            }
        }
    }

    fn place(&self, key: String) -> Turn<'_, T> {
        let mut queues = self.lock();
        let queue = queues.entry(key.clone()).or_insert_with(|| {
            Arc::new(Queue {
                first: Arc::new(First::new(None)),
                length: AtomicUsize::new(0),
                gone: AtomicUsize::new(0),
            })
        });
        queue.length.fetch_add(1, Ordering::Relaxed);
        Turn {
            queues: self,
            queue: Arc::clone(queue),
            key,
            left: None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Queue<T>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Default for Queues<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

#[cfg_attr(
    not(any(test, feature = "mysql", feature = "postgres", feature = "sqlite")),
    expect(dead_code, reason = "for the connections of databases")
)]
impl<T> Turn<'_, T> {
    /// What the one before has left.
    pub(crate) fn take(&mut self) -> Option<T> {
        self.left.as_mut()?.take()
    }

    /// Leaves something to the next one. It is dropped if there is none.
    pub(crate) fn leave(&mut self, what: Option<T>) {
        if let Some(left) = &mut self.left {
            **left = what;
        }
    }
}

impl<T> Drop for Turn<'_, T> {
    fn drop(&mut self) {
        let mut queues = self.queues.lock();
        if self.left.is_some() {
            self.queue.gone.fetch_add(1, Ordering::Relaxed);
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

    fn at_once<'a, T>(queues: &'a Queues<T>, key: &str) -> Option<Turn<'a, T>> {
        queues.turn(key.to_owned()).now_or_never()
    }

    #[test]
    fn one_has_the_turn_and_those_of_other_keys_do_not_wait_for_it() {
        let queues = Queues::<()>::default();
        let first = at_once(&queues, "key");
        assert!(first.is_some());
        assert!(at_once(&queues, "key").is_none());
        assert!(at_once(&queues, "another").is_some());
        drop(first);
        assert!(at_once(&queues, "key").is_some());
    }

    #[test]
    fn turns_come_in_the_order_of_asking_and_pass_over_who_has_gone() {
        let queues = Queues::<()>::default();
        let first = at_once(&queues, "key");
        let mut waiting: Vec<_> = (0..3)
            .map(|_| Box::pin(queues.turn("key".to_owned())))
            .collect();
        for turn in &mut waiting {
            assert!(turn.as_mut().now_or_never().is_none());
        }
        let [second, third, fourth] = &mut waiting[..] else {
            panic!("three wait");
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
    fn a_queue_without_people_takes_no_room() {
        let queues = Queues::<()>::default();
        let first = at_once(&queues, "key");
        assert!(at_once(&queues, "key").is_none());
        assert_eq!(queues.lock().len(), 1);
        drop(first);
        assert_eq!(queues.lock().len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn who_does_not_go_on_holds_up_the_others_for_a_moment_only() {
        let queues = Queues::<Arc<()>>::default();
        let mut stuck = at_once(&queues, "key").expect("nobody is there");
        let began = Instant::now();
        let mut others = Vec::new();
        for _ in 0..3 {
            others.push(queues.turn("key".to_owned()).await);
        }
        assert_eq!(began.elapsed(), STUCK * 3);
        // What it leaves is not theirs.
        stuck.leave(Some(Arc::default()));
        assert!(others.iter_mut().all(|turn| turn.take().is_none()));
        drop((others, stuck));
        assert_eq!(queues.lock().len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn who_passes_over_the_first_one_or_gives_up_does_not_hold_up_the_others() {
        let queues = Queues::<()>::default();
        let stuck = at_once(&queues, "key");
        let others = (0..50).map(async |number| {
            sleep(STUCK / 10 * number).await;
            let turn = queues.turn("key".to_owned());
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
    async fn a_queue_that_moves_is_waited_for_however_long_it_is() {
        let queues = Queues::<()>::default();
        let began = Instant::now();
        let turns = (0..50).map(async |_| {
            let turn = queues.turn("key".to_owned()).await;
            sleep(STUCK / 2).await;
            assert!(turn.left.is_some());
        });
        join_all(turns).await;
        assert_eq!(began.elapsed(), STUCK / 2 * 50);
    }

    #[test]
    fn what_is_left_is_for_the_next_one_or_nobody() {
        let queues = Queues::<Arc<()>>::default();
        let left = Arc::new(());
        let mut first = at_once(&queues, "key").expect("nobody is there");
        assert!(first.take().is_none());
        let mut second = Box::pin(queues.turn("key".to_owned()));
        assert!(second.as_mut().now_or_never().is_none());
        first.leave(Some(Arc::clone(&left)));
        drop(first);
        let mut second = second.now_or_never().expect("its turn has come");
        assert!(second.take().is_some());
        second.leave(Some(Arc::clone(&left)));
        drop(second);
        assert_eq!(Arc::strong_count(&left), 1);
    }
}
