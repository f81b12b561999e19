use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::join_all;
use tokio::time::{advance, sleep};

use super::*;
use crate::mutation::{Mutation, assert_kept};
use crate::store::Key;

const PATIENCE: Duration = Duration::from_secs(2);

fn answer() -> LineAnswer {
    let record = SeenRecord::new(&Key::new("key"), Bytes::new());
    LineAnswer {
        record: Arc::new(record),
        holders: 3,
        at: Instant::now(),
        holder: None,
    }
}

/// Places of calls in one line, of which the first was refused.
fn line(calls: usize) -> (Arc<Lines>, Vec<Place>) {
    let lines = Arc::new(Lines::default());
    let places: Vec<_> = (0..calls)
        .map(|_| Place::new(&lines, "key", 3, PATIENCE))
        .collect();
    assert_eq!(places[0].note_refused(answer()), Some(1));
    (lines, places)
}

type Turn<'a> = Pin<Box<dyn Future<Output = Option<Hints>> + 'a>>;

/// Lets the calls wait, each for a minute, and polls each once.
fn turns(places: &[Place]) -> Vec<Turn<'_>> {
    let until = Instant::now() + Duration::from_mins(1);
    let turns = places.iter().map(|place| {
        let mut turn: Turn<'_> = Box::pin(place.turn(until));
        assert!(turn.as_mut().now_or_never().is_none());
        turn
    });
    turns.collect()
}

#[tokio::test(start_paused = true)]
async fn the_calls_of_a_line_ask_one_after_another_in_the_order_in_which_they_were_made() {
    let (lines, mut places) = line(5);
    // The second call is refused before the third, and waits.
    assert!(places[2].note_refused(answer()).is_none());
    assert!(places[1].note_refused(answer()).is_none());
    while places.len() > 1 {
        let behind = places.split_off(1);
        let mut turns = turns(&behind);
        drop(places);
        for turn in &mut turns[1..] {
            assert!(turn.as_mut().now_or_never().is_none());
        }
        assert!(turns[0].as_mut().now_or_never().flatten().is_some());
        drop(turns);
        places = behind;
    }
    assert_eq!(lines.count(), 1);
    drop(places);
    assert_eq!(lines.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_anywhere_leaves_no_gap() {
    for dropped in 0..4 {
        let (lines, mut places) = line(4);
        drop(turns(&places[1..]));
        drop(places.remove(dropped));
        for _ in 0..3 {
            let until = Instant::now() + Duration::from_mins(1);
            let first = places.remove(0);
            assert!(first.turn(until).now_or_never().flatten().is_some());
        }
        assert_eq!(lines.count(), 0);
    }
}

#[test]
fn a_call_that_is_not_polled_does_not_hold_up_the_line() {
    let goes_on = || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build();
        runtime.expect("a runtime").block_on(async {
            // The second call is not polled either, and does not get a turn.
            let (_lines, places) = line(4);
            let mut turns = turns(&places[1..]);
            let (_unpolled, waiting) = turns.split_at_mut(1);
            for step in 0..100 {
                advance(PATIENCE / 10).await;
                if waiting[0].as_mut().now_or_never().flatten().is_some() {
                    assert!((8..11).contains(&step), "{step}");
                    assert!(waiting[1].as_mut().now_or_never().is_none());
                    // The first call is polled again, and waits behind the third by its number.
                    assert!(places[0].note_refused(answer()).is_none());
                    return true;
                }
            }
            false
        })
    };
    assert_kept(goes_on, &[Mutation::WaitsForUnpolled]);
}

#[tokio::test(start_paused = true)]
async fn a_first_call_that_gives_signs_of_life_stays_the_first() {
    let (_lines, places) = line(3);
    let mut turns = turns(&places[1..]);
    for _ in 0..20 {
        advance(PATIENCE * 9 / 10).await;
        assert_eq!(places[0].note_refused(answer()), Some(3));
        for turn in &mut turns {
            assert!(turn.as_mut().now_or_never().is_none());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_long_keeps_its_place() {
    let (_lines, mut places) = line(3);
    let (first, order) = (places.remove(0), RefCell::<Vec<_>>::default());
    let until = Instant::now() + Duration::from_mins(1);
    let waiting = places.into_iter().enumerate().map(async |(number, place)| {
        assert!(place.turn(until).await.is_some());
        order.borrow_mut().push(number);
    });
    let polls = async {
        for _ in 0..10 {
            sleep(PATIENCE * 9 / 10).await;
            first.note_refused(answer());
        }
        sleep(PATIENCE * 9 / 10).await;
        drop(first);
    };
    tokio::join!(join_all(waiting), polls);
    assert_eq!(*order.borrow(), [0, 1]);
}

#[tokio::test(start_paused = true)]
async fn all_calls_ask_when_their_line_ends() {
    let (lines, places) = line(3);
    let mut turns = turns(&places[1..]);
    // Only the first call ends it.
    places[2].end_line();
    assert!(turns[0].as_mut().now_or_never().is_none());
    places[0].end_line();
    assert_eq!(lines.count(), 0);
    for turn in &mut turns {
        assert!(turn.as_mut().now_or_never().flatten().is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_time_ends_gets_an_answer_that_was_asked_after_the_call_was_made() {
    let (lines, places) = line(1);
    let late = Place::new(&lines, "key", 3, PATIENCE);
    assert!(late.is_behind());
    let soon = Instant::now() + Duration::from_millis(10);
    assert!(late.turn(soon).await.is_none());
    for is_known in [false, true] {
        places[0].note_refused(answer());
        assert_eq!(late.last_answer().is_some(), is_known);
    }
    advance(LONGEST_PAUSE).await;
    assert!(late.last_answer().is_none(), "it is too old");
}
