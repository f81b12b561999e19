//! A queue for each key: in this process, those who count under one key come to the store one after the other.
//!
//! A store that decides by comparing, or by the lock of a row, serves one of them at a time, whatever is sent to it. In a queue they come
//! in their order, none is refused because of the others, and what the first one needed, such as a connection, serves them all.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Mutex as Place, OwnedMutexGuard};

/// The queues of a store, in which each leaves a `T` to the next one, or nothing.
#[derive(Debug)]
pub(super) struct Queues<T>(Mutex<HashMap<String, Queue<T>>>);

#[derive(Debug)]
struct Queue<T> {
    first: Arc<Place<Option<T>>>,
    /// How many there are in the queue, the first one included.
    length: usize,
}

/// A place in a queue, and the turn once it has come. Dropped, the next one has it.
#[derive(Debug)]
pub(super) struct Turn<'a, T> {
    queues: &'a Queues<T>,
    key: String,
    left: Option<OwnedMutexGuard<Option<T>>>,
}

impl<T> Queues<T> {
    /// Waits until nobody who came before wants the same key.
    pub(super) async fn turn(&self, key: String) -> Turn<'_, T> {
        let first = {
            let mut queues = self.lock();
            let queue = queues.entry(key.clone()).or_insert_with(|| Queue {
                first: Arc::new(Place::new(None)),
                length: 0,
            });
            queue.length += 1;
            Arc::clone(&queue.first)
        };
        let mut turn = Turn {
            queues: self,
            key,
            left: None,
        };
        turn.left = Some(first.lock_owned().await);
        turn
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Queue<T>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Default for Queues<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
impl<T> Turn<'_, T> {
    /// What the one before has left.
    pub(super) fn take(&mut self) -> Option<T> {
        self.left.as_mut()?.take()
    }

    /// Leaves something to the next one. It is dropped if there is none.
    pub(super) fn leave(&mut self, what: Option<T>) {
        if let Some(left) = &mut self.left {
            **left = what;
        }
    }
}

impl<T> Drop for Turn<'_, T> {
    fn drop(&mut self) {
        let mut queues = self.queues.lock();
        if let Some(queue) = queues.get_mut(&self.key) {
            queue.length -= 1;
            if queue.length == 0 {
                queues.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

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

    #[test]
    #[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
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
