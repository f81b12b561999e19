//! The duplicates of one call that wait for its next phase: their wakers, and the timers that end their wait.

use std::sync::Arc;
use std::task::Waker;

use tokio::time::Instant;

use crate::protocol::scheduler::{Scheduled, Scheduler, TimerId};

/// The duplicates that wait for the next phase of a call.
///
/// All followers on one runtime share one timer, which is set to the earliest instant at which one of them stops waiting.
#[derive(Default)]
pub(crate) struct Followers {
    places: Vec<FollowerPlace>,
    /// The places that are free again.
    free: Vec<usize>,
    /// One for each runtime that has followers.
    alarms: Vec<FollowerAlarm>,
    /// How many phases the call had announced before its first follower could have a place here.
    since: u32,
}

/// The place of one follower. It keeps its place until it stops following.
struct FollowerPlace {
    /// `None` after the follower was woken.
    waker: Option<Waker>,
    until: Instant,
    wakes_at: WakesAt,
    /// The index of the alarm.
    alarm: usize,
}

struct FollowerAlarm {
    scheduler: Arc<Scheduler>,
    timer: Option<TimerId>,
}

/// The limits of a follower's wait.
pub(crate) struct Waits<'a> {
    pub(crate) waker: &'a Waker,
    /// The follower is woken at this instant, if not earlier.
    pub(crate) until: Instant,
    pub(crate) wakes_at: WakesAt,
}

/// The phases that wake a follower.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum WakesAt {
    /// The end of the call, and a change of the call of another process that it waits for.
    End,
    /// Also when the call gets its key.
    Running,
    /// Also when the call asks the store again.
    Asking,
}

/// Followers to wake. The caller wakes them after it has released the lock.
#[must_use = "followers sleep until they are woken"]
pub(crate) struct Woken(Vec<Waker>);

impl Woken {
    pub(crate) fn wake(self) {
        for waker in self.0 {
            waker.wake();
        }
    }
}

impl Followers {
    /// The followers of a call that has dismissed its earlier followers.
    pub(crate) fn since(announced: u32) -> Self {
        Self {
            places: Vec::new(),
            free: Vec::new(),
            alarms: Vec::new(),
            since: announced,
        }
    }

    /// Whether a follower that has last looked after so many announced phases has its place here.
    pub(crate) fn has_place_since(&self, announced: u32) -> bool {
        announced >= self.since
    }

    /// Lets a follower wait. Returns its place, which is `place` if it has one already, and its earlier waker, which must be dropped
    /// outside of the lock.
    pub(crate) fn wait(
        &mut self,
        place: Option<usize>,
        waits: &Waits<'_>,
        scheduler: &Arc<Scheduler>,
        ring: impl FnOnce() -> Arc<dyn Scheduled>,
    ) -> (usize, Option<Waker>) {
        let Waits {
            waker,
            until,
            wakes_at,
        } = *waits;
        let alarm = self.alarm_of(scheduler);
        self.alarms[alarm].ring_at(until, ring);
        let place = place.or_else(|| self.free.pop());
        if let Some(place) = place
            && let Some(known) = self.places.get_mut(place)
        {
            (known.until, known.wakes_at, known.alarm) = (until, wakes_at, alarm);
            return (place, known.set_waker(waker));
        }
        self.places.push(FollowerPlace {
            waker: Some(waker.clone()),
            until,
            wakes_at,
            alarm,
        });
        (self.places.len() - 1, None)
    }

    /// Frees the place of a follower that stops following. Returns its waker, which must be dropped outside of the lock.
    pub(crate) fn leave(&mut self, place: usize) -> Option<Waker> {
        let waker = self.places.get_mut(place)?.waker.take();
        self.free.push(place);
        if self.free.len() == self.places.len() {
            self.silence();
        }
        waker
    }

    /// The followers that this phase wakes.
    pub(crate) fn take_those_at(&mut self, phase: WakesAt) -> Woken {
        let woken = self.places.iter_mut();
        let woken = woken.filter(|place| place.wakes_at >= phase);
        Woken(woken.filter_map(|place| place.waker.take()).collect())
    }

    /// Takes all followers.
    pub(crate) fn take_all(&mut self) -> Woken {
        let waiting = self.places.iter_mut();
        Woken(waiting.filter_map(|place| place.waker.take()).collect())
    }

    /// Takes all followers of a call that has ended for them.
    pub(crate) fn end(mut self) -> Woken {
        self.take_all()
    }

    /// Takes the followers on `scheduler` that stop waiting now. Sets the alarm for the next follower.
    pub(crate) fn take_due(
        &mut self,
        now: Instant,
        scheduler: &Arc<Scheduler>,
        ring: impl FnOnce() -> Arc<dyn Scheduled>,
    ) -> Woken {
        let index = self.alarm_of(scheduler);
        let mut due = Vec::new();
        let mut next: Option<Instant> = None;
        let here = self.places.iter_mut().filter(|place| place.alarm == index);
        for place in here.filter(|place| place.waker.is_some()) {
            if place.until <= now {
                due.extend(place.waker.take());
            } else {
                next = Some(next.map_or(place.until, |next| next.min(place.until)));
            }
        }
        let alarm = &mut self.alarms[index];
        // An earlier instant may have set a new timer meanwhile.
        alarm.timer = alarm.timer.filter(|timer| timer.0 > now);
        if let Some(next) = next {
            alarm.ring_at(next, ring);
        }
        Woken(due)
    }

    fn alarm_of(&mut self, scheduler: &Arc<Scheduler>) -> usize {
        let mut alarms = self.alarms.iter();
        if let Some(known) = alarms.position(|alarm| Arc::ptr_eq(&alarm.scheduler, scheduler)) {
            return known;
        }
        let alarm = FollowerAlarm {
            scheduler: Arc::clone(scheduler),
            timer: None,
        };
        let mut alarms = self.alarms.iter();
        if let Some(unused) = alarms.position(|alarm| alarm.scheduler.is_shut_down()) {
            self.alarms[unused] = alarm;
            return unused;
        }
        self.alarms.push(alarm);
        self.alarms.len() - 1
    }

    /// Cancels all timers, because no follower waits.
    fn silence(&mut self) {
        for FollowerAlarm { scheduler, timer } in &mut self.alarms {
            if let Some(timer) = timer.take() {
                scheduler.cancel(timer);
            }
        }
    }
}

impl Drop for Followers {
    fn drop(&mut self) {
        self.silence();
    }
}

impl FollowerPlace {
    /// Returns the earlier waker if it is another.
    fn set_waker(&mut self, waker: &Waker) -> Option<Waker> {
        match &self.waker {
            Some(known) if known.will_wake(waker) => None,
            _ => self.waker.replace(waker.clone()),
        }
    }
}

impl FollowerAlarm {
    /// Sets the timer to `until`, unless it is set to an earlier instant.
    fn ring_at(&mut self, until: Instant, ring: impl FnOnce() -> Arc<dyn Scheduled>) {
        if let Some(timer) = self.timer {
            if timer.0 <= until {
                return;
            }
            self.scheduler.cancel(timer);
        }
        self.timer = Some(self.scheduler.schedule(until, ring()));
    }
}
