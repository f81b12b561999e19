//! Leases that claims share.
//!
//! A record of etcd expires with its lease. A lease for each claim would cost a second write, and etcd ends only a thousand leases in a
//! second. So all records of about one time to live share a lease for a while: a lease outlives the time to live by this while.
//! No lease is ever prolonged for a claim, so a lease never ends earlier than it was granted for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use idempotent_runtime::store::{StoreError, StoreErrorKind};
use tokio::time::{Instant, timeout};
use tonic::Status;

use crate::client::Client;
use crate::failure::error;
use crate::shared::SharedAnswer;
use crate::wire::Grant;

/// How much longer than `ttl` a record may live: etcd counts in seconds, has no lease below two seconds, and looks for ended leases
/// twice in a second; and a lease is shared.
pub(crate) fn expiry_slack(ttl: Duration) -> Duration {
    Duration::from_millis(2500) + 2 * ttl / SHARE
}

/// A lease is shared for this part of its time to live, and at least for a second. So a process has at most twice as many leases at
/// once for each time to live.
const SHARE: u32 = 7200;
/// How many milliseconds the members have to grant a lease, one after the other.
const PATIENCE: [u64; 4] = [200, 400, 800, 1600];
/// The longest lease of etcd, in seconds.
const LONGEST: u64 = 9_000_000_000;
/// If there are more times to live than this, the leases that no call needs now are forgotten.
const MANY: usize = 256;

/// The leases of a store.
pub(crate) struct Leases {
    client: Arc<Client>,
    shared: Mutex<HashMap<u64, Slot>>,
}

/// The leases for a time to live.
#[derive(Default)]
struct Slot {
    newest: Option<Granted>,
    /// The lease that a task asks for.
    next: Option<SharedAnswer<Granted>>,
}

impl Slot {
    /// Whether a claim with this time to live may wait for the next lease, and has not read the answer.
    fn is_awaited(&self, ttl: Duration) -> bool {
        let is_useful = |answer: Result<Granted, _>| answer.is_ok_and(|next| next.remains() >= ttl);
        let next = self.next.as_ref();
        next.is_some_and(|next| next.peek().is_none_or(is_useful))
    }
}

#[derive(Clone, Copy)]
struct Granted {
    id: i64,
    lasts: Duration,
    /// Before the lease was asked for. The clock of the day also counts the time that a machine sleeps.
    asked: (Instant, SystemTime),
}

impl Granted {
    /// How long the lease lasts at least from now on.
    fn remains(&self) -> Duration {
        let (instant, day) = self.asked;
        let age = instant.elapsed().max(day.elapsed().unwrap_or_default());
        self.lasts.saturating_sub(age)
    }
}

impl Leases {
    pub(crate) fn new(client: Arc<Client>) -> Self {
        let shared = Mutex::default();
        Self { client, shared }
    }

    /// A lease that lasts at least `ttl` from now on. Costs a round trip if there is none, or none is granted ahead.
    pub(crate) async fn lasting(&self, ttl: Duration) -> Result<i64, StoreError> {
        let ttl = ttl.min(Duration::from_secs(LONGEST / 2));
        loop {
            match self.granted(ttl) {
                Ok(id) => return Ok(id),
                Err(next) => next.wait().await.map_err(|status| unsent(&status))?,
            };
        }
    }

    /// A lease that lasts at least `ttl`, or the lease to wait for. The next one is asked for ahead.
    fn granted(&self, ttl: Duration) -> Result<i64, SharedAnswer<Granted>> {
        let (window, seconds) = times(ttl);
        let mut slots = self.slots();
        if slots.len() > MANY {
            slots.retain(|seconds, slot| slot.is_awaited(Duration::from_secs(*seconds)));
        }
        let slot = slots.entry(seconds).or_default();
        if let Some(answer) = slot.next.as_ref().and_then(SharedAnswer::peek) {
            // A failure shows again when a claim needs the lease.
            slot.newest = answer.ok().or(slot.newest);
            slot.next = None;
        }
        let newest = slot.newest.map(|newest| (newest.id, newest.remains()));
        let newest = newest.filter(|(_, remains)| *remains >= ttl);
        let ahead = ttl + Duration::from_secs(window) / 2;
        if let Some((id, remains)) = newest
            && remains >= ahead
        {
            return Ok(id);
        }
        let next = slot.next.get_or_insert_with(|| {
            let lease = grant(Arc::clone(&self.client), seconds + window);
            SharedAnswer::ask(&self.client.runtime, lease)
        });
        newest.map_or_else(|| Err(next.clone()), |(id, _)| Ok(id))
    }

    /// Forgets leases of which the server no longer has one. Newer leases stay.
    pub(crate) fn forget(&self, gone: &[i64]) {
        for slot in self.slots().values_mut() {
            slot.newest.take_if(|newest| gone.contains(&newest.id));
        }
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<u64, Slot>> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// For how many seconds a lease for `ttl` is shared, and `ttl` in whole seconds, or in whole windows if they are longer.
fn times(ttl: Duration) -> (u64, u64) {
    let window = (ttl / SHARE).as_secs().max(1);
    let seconds = ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0);
    (window, seconds.div_ceil(window) * window)
}

/// Grants a lease. A member that does not answer soon is left for the next: a lease that nobody uses does no harm.
async fn grant(client: Arc<Client>, seconds: u64) -> Result<Granted, Status> {
    let ttl = i64::try_from(seconds).unwrap_or(i64::MAX);
    for patience in PATIENCE {
        let asked = (Instant::now(), SystemTime::now());
        let lease = client.call(Grant { ttl });
        if let Ok(lease) = timeout(Duration::from_millis(patience), lease).await {
            return lease.map(|lease| Granted {
                id: lease.id,
                lasts: lease.lasts(),
                asked,
            });
        }
    }
    Err(Status::deadline_exceeded("no lease in time"))
}

/// Without a lease the operation itself was not sent.
fn unsent(status: &Status) -> StoreError {
    let error = error(status);
    match error.kind() {
        StoreErrorKind::Unknown => error
            .with_kind(StoreErrorKind::NotApplied)
            .reason("did not grant a lease"),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use super::*;
    use crate::scripted;

    /// Leases of so many days are shared for many minutes.
    fn days(days: u64) -> Duration {
        Duration::from_hours(24 * days)
    }

    fn granted(id: i64, ttl: Duration) -> Granted {
        Granted {
            id,
            lasts: 2 * ttl,
            asked: (Instant::now(), SystemTime::now()),
        }
    }

    async fn leases() -> Leases {
        let (client, _) = scripted::client(None).await;
        Leases::new(Arc::new(client))
    }

    impl Leases {
        fn put(&self, ttl: Duration, slot: Slot) {
            self.slots().insert(times(ttl).1, slot);
        }

        fn newest(&self, id: i64, ttl: Duration) {
            let newest = Some(granted(id, ttl));
            self.put(ttl, Slot { newest, next: None });
        }
    }

    #[tokio::test]
    async fn only_a_lease_that_the_server_no_longer_has_is_forgotten() {
        let leases = leases().await;
        leases.newest(1, days(100));
        leases.newest(2, days(200));
        leases.forget(&[1]);
        assert!(leases.granted(days(100)).is_err());
        assert_eq!(leases.granted(days(200)).ok(), Some(2));

        // Another claim learns late that the first lease is gone.
        leases.newest(3, days(100));
        leases.forget(&[1]);
        assert_eq!(leases.granted(days(100)).ok(), Some(3));
    }

    #[tokio::test]
    async fn a_lease_is_kept_until_the_claim_that_waits_for_it_has_read_it() {
        let leases = leases().await;
        let all = || (1..).map(days).skip(100).take(2 * MANY);
        for ttl in all() {
            let lease = ready(Ok(granted(1, ttl)));
            let next = SharedAnswer::ask(&leases.client.runtime, lease);
            next.clone().wait().await.expect("a lease");
            let next = Some(next);
            leases.put(ttl, Slot { newest: None, next });
        }
        for ttl in all() {
            assert_eq!(leases.granted(ttl).ok(), Some(1), "{ttl:?}");
        }
        assert!(leases.slots().len() <= MANY + 1);
    }

    #[test]
    fn a_lease_lasts_at_least_as_long_as_the_record_and_not_longer_than_the_slack_says() {
        let times_to_live = (0..100_000).map(|step| Duration::from_millis(1 + step * step / 10));
        for ttl in times_to_live {
            let (window, seconds) = times(ttl);
            let lease = Duration::from_secs(seconds + window);
            assert!(lease >= ttl + Duration::from_secs(window), "{ttl:?}");
            // etcd looks for ended leases twice in a second.
            assert!(
                lease + Duration::from_millis(500) <= ttl + expiry_slack(ttl),
                "{ttl:?}"
            );
        }
    }
}
