//! One call with one damaged message, and what must be true after it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use idempotence_test_servers::{Direction, ProxyFault, RedisProxy, RedisServer, Traffic};
use idempotent_redis::RedisStore;
use idempotent_runtime::fingerprint::Fingerprint;
use idempotent_runtime::store::{Entry, StoreError};
use idempotent_runtime::{Error, Idempotency, Release, Store};
use tokio::time::{sleep, timeout};

use super::call_plan::{CallPlan, Failure, Outcome, TTL, further};
use crate::store::servers::{MAX_WAIT, next};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Case {
    pub(crate) plan: CallPlan,
    pub(crate) moment: Moment,
    pub(crate) harm: Option<(Direction, usize, ProxyFault)>,
    /// The deadline of the call, before its body and after it.
    pub(crate) deadline: Duration,
}

/// The number of calls of a batch: more than callers send singly at a time.
pub(crate) const TOGETHER: usize = 8;

/// When the counting of messages begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// Before the store connects.
    SetUp,
    /// Before a call whose connection was closed.
    Reconnection,
    /// Before a call.
    Call,
    /// Before [`TOGETHER`] calls of different keys, whose operations go in batches.
    Batch,
}

/// How long after both deadlines a call may end. A machine that stands still may exceed it now and then.
const MARGIN: Duration = Duration::from_secs(7);
/// A call that is so often late in a row ignores its deadline.
const MOST_LATE: usize = 3;

/// What is wrong with a case.
pub(crate) enum Wrong {
    /// A call ended long after its deadline.
    Late(Duration),
    Broken(String),
}

impl From<String> for Wrong {
    fn from(wrong: String) -> Self {
        Self::Broken(wrong)
    }
}

impl Case {
    pub(crate) fn undamaged(plan: CallPlan, moment: Moment) -> Self {
        Self {
            plan,
            moment,
            harm: None,
            // It must succeed, also on a busy machine.
            deadline: MAX_WAIT,
        }
    }

    /// The same case with so many times the deadline. A delay that is longer than the deadline remains longer.
    pub(crate) fn with_time(self, times: u32) -> Self {
        let fault = |fault| match fault {
            ProxyFault::Delay(delay) if delay > self.deadline => ProxyFault::Delay(delay * times),
            fault => fault,
        };
        let harm = self.harm.map(|(to, index, harm)| (to, index, fault(harm)));
        let deadline = self.deadline * times;
        Self {
            harm,
            deadline,
            ..self
        }
    }

    /// The messages through the proxy, and the failure. A case with a late call is repeated.
    pub(crate) async fn in_time<S: Store>(
        self,
        make: fn(RedisStore) -> S,
    ) -> (Traffic, Option<String>) {
        let mut late = Vec::new();
        loop {
            let (traffic, wrong) = self.check(make).await;
            match wrong {
                None => return (traffic, None),
                Some(Wrong::Broken(wrong)) => return (traffic, Some(wrong)),
                Some(Wrong::Late(took)) => late.push(took),
            }
            if late.len() == MOST_LATE {
                return (traffic, Some(format!("it took {late:?}")));
            }
        }
    }

    async fn check<S: Store>(self, make: fn(RedisStore) -> S) -> (Traffic, Option<Wrong>) {
        let server = RedisServer::shared().unwrap();
        let proxy = RedisProxy::start(("127.0.0.1", server.port())).unwrap();
        let wrong = self.wrong(server, &proxy, make).await.err();
        (proxy.traffic(), wrong)
    }

    async fn wrong<S: Store>(
        self,
        server: &RedisServer,
        proxy: &RedisProxy,
        make: fn(RedisStore) -> S,
    ) -> Result<(), Wrong> {
        if self.moment == Moment::SetUp {
            self.plan_fault(proxy);
        }
        let begun = Instant::now();
        let patience = match self.moment {
            Moment::SetUp => Duration::ZERO,
            _ => MAX_WAIT,
        };
        let store = match connect(&proxy.url(), patience).await {
            Ok(store) => make(store),
            Err(_) if self.moment == Moment::SetUp => return self.not_late(begun),
            Err(error) => return Err(format!("no connection: {error}").into()),
        };
        let builder = Idempotency::builder(store).deadline(self.deadline);
        let idempotency = builder.build().unwrap();
        if self.moment != Moment::SetUp {
            self.plan_fault(proxy);
        }
        if self.moment == Moment::Reconnection {
            proxy.close_connections();
        }

        let calls = match self.moment {
            Moment::Batch => TOGETHER,
            _ => 1,
        };
        let calls = (0..calls).map(|_| self.call(server, proxy, &idempotency));
        let calls = join_all(calls).await;
        if matches!(self.harm, Some((_, _, ProxyFault::Silence))) {
            // The remaining messages would wait for the end of the silence.
            proxy.close_connections();
        }
        let drained = idempotency.drain(MAX_WAIT).await;
        drained.map_err(|error| error.to_string())?;

        let clean = connect(&server.url(), MAX_WAIT).await.unwrap();
        for called in calls {
            let Called {
                id,
                key,
                outcome,
                ran,
            } = called?;
            self.check_outcome(&outcome, id, ran)?;
            let stored = Stored::of(clean.get(&key).await.unwrap())?;
            self.check_record(&outcome, stored)?;
            // A further key may stay claimed as well.
            if !self.plan.also || !matches!(outcome, Err(Failure::Refused(_))) {
                self.check_next_call(clean.clone(), id, stored).await?;
            }
        }
        Ok(())
    }

    fn not_late(self, begun: Instant) -> Result<(), Wrong> {
        let took = begun.elapsed();
        let is_in_time = took < self.deadline * 2 + MARGIN;
        is_in_time.then_some(()).ok_or(Wrong::Late(took))
    }

    async fn call(
        self,
        server: &RedisServer,
        proxy: &RedisProxy,
        idempotency: &Idempotency,
    ) -> Result<Called, Wrong> {
        let clean = connect(&server.url(), MAX_WAIT).await.unwrap();
        let id = next() as u64;
        let key_of = |id| format!("idem:proxied.pay:{}", Fingerprint::of(&(id,)).unwrap());
        let key = key_of(id);
        let keys = [
            Some(key_of(id)),
            self.plan.also.then(|| key_of(further(id))),
        ];
        let (ran, claimed) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let body = async {
            ran.fetch_add(1, Ordering::SeqCst);
            let mut has_all = true;
            for key in keys.iter().flatten() {
                let stored = Stored::of(clean.get(key).await.unwrap());
                has_all &= stored == Ok(Stored::Running);
            }
            claimed.fetch_add(usize::from(has_all), Ordering::SeqCst);
            self.body(id, proxy).await
        };
        let begun = Instant::now();
        let call = self.plan.run(idempotency, id, body);
        let Ok(outcome) = timeout(MAX_WAIT, call).await else {
            return Err("the call never ended".to_owned().into());
        };
        self.not_late(begun)?;
        let ran = ran.into_inner();
        if claimed.into_inner() != ran {
            return Err("a body ran without a claim".to_owned().into());
        }
        Ok(Called {
            id,
            key,
            outcome,
            ran,
        })
    }

    fn plan_fault(self, proxy: &RedisProxy) {
        let (direction, index, fault) =
            self.harm
                .unwrap_or((Direction::Request, usize::MAX, ProxyFault::Close));
        proxy.plan(direction, index, fault);
    }

    async fn body(self, id: u64, proxy: &RedisProxy) -> Outcome {
        let (before, begun) = (proxy.traffic().requests, Instant::now());
        while self.plan.is_long && proxy.traffic().requests == before && begun.elapsed() < MAX_WAIT
        {
            sleep(Duration::from_millis(5)).await;
        }
        if self.plan.succeeds {
            Ok(id)
        } else {
            Err(Failure::Body)
        }
    }

    fn check_outcome(self, outcome: &Outcome, id: u64, ran: usize) -> Result<(), String> {
        let expected = match outcome {
            Ok(value) => self.plan.succeeds && *value == id && ran == 1,
            Err(Failure::Body) => !self.plan.succeeds && ran == 1,
            Err(Failure::Refused(Error::LeaseLost(_))) => self.plan.is_long && ran == 1,
            Err(Failure::Refused(error)) => {
                self.harm.is_some() && error.is_unavailable() && ran == 0
            }
        };
        let failure = || format!("the body ran {ran} times, and the caller got {outcome:?}");
        expected.then_some(()).ok_or_else(failure)
    }

    /// Checks the record against the table of `release`. If the body did not run, a claim may remain until it expires.
    fn check_record(self, outcome: &Outcome, stored: Stored) -> Result<(), String> {
        let CallPlan {
            release, replay, ..
        } = self.plan;
        let allowed = match outcome {
            Err(Failure::Refused(_)) => stored != Stored::Done,
            Ok(_) if release == Release::OnError || release == Release::Never && replay => {
                stored == Stored::Done
            }
            _ if release == Release::Never => stored != Stored::Nothing,
            Ok(_) | Err(Failure::Body) => stored == Stored::Nothing,
        };
        let failure = || format!("after {outcome:?} the record is {stored:?}");
        allowed.then_some(()).ok_or_else(failure)
    }

    async fn check_next_call(
        self,
        store: RedisStore,
        id: u64,
        stored: Stored,
    ) -> Result<(), String> {
        let builder = Idempotency::builder(store).deadline(MAX_WAIT);
        let idempotency = builder.build().unwrap();
        let ran = AtomicUsize::new(0);
        let body = async {
            ran.fetch_add(1, Ordering::SeqCst);
            Ok(0)
        };
        let outcome = self.plan.run(&idempotency, id, body).await;
        let ran = ran.into_inner() == 1;
        let expected = match &outcome {
            Ok(value) if ran => stored == Stored::Nothing && *value == 0,
            Ok(value) => stored == Stored::Done && self.plan.replay && *value == id,
            Err(Failure::Refused(Error::AlreadyDone(_))) => {
                stored == Stored::Done && !self.plan.replay
            }
            Err(Failure::Refused(error)) => error.is_duplicate() && stored != Stored::Nothing,
            Err(Failure::Body) => false,
        };
        let failure = || format!("with {stored:?} the next call (ran: {ran}) got {outcome:?}");
        expected.then_some(()).ok_or_else(failure)
    }
}

/// Connects, and tries again for so long: a slow machine answers many new connections too late.
async fn connect(url: &str, patience: Duration) -> Result<RedisStore, StoreError> {
    let begun = Instant::now();
    loop {
        // So that a few calls at once go in batches.
        let connected = RedisStore::options().batch_above(2).connect(url).await;
        if connected.is_ok() || begun.elapsed() >= patience {
            return connected;
        }
    }
}

/// A call that has ended.
struct Called {
    id: u64,
    key: String,
    outcome: Outcome,
    /// How often its body ran.
    ran: usize,
}

/// The state of the record under the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stored {
    Nothing,
    Running,
    Done,
}

impl Stored {
    fn of(entry: Option<Entry>) -> Result<Self, String> {
        let Some(Entry { value, ttl }) = entry else {
            return Ok(Self::Nothing);
        };
        let ttl = ttl.ok_or("a record without an expiry")?;
        // A `ttl` that is a lease has a grace period.
        if ttl > TTL + TTL / 10 {
            return Err(format!("a record that stays for {ttl:?}"));
        }
        match value.get(..8) {
            Some(b"idem2 R ") => Ok(Self::Running),
            Some(b"idem2 D ") => Ok(Self::Done),
            _ => Err(format!("a foreign record: {value:?}")),
        }
    }
}
