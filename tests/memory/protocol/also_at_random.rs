//! Calls with several keys, with faults, drops and keys at random.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use futures_util::future::join_all;
use idempotence::testkit::{Fault, FaultyStore, Op};
use idempotent_runtime::{MemoryStore, OnCancel, Policy, Release, StoreErrorKind};
use tokio::time::{sleep, timeout};

use crate::protocol::guarded::{Failed, Guarded, millis, run, secs};

const SEEDS: u64 = 150;
const CALLS: u64 = 12;
const ACCOUNTS: u64 = 5;

/// Random numbers (xorshift).
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end
    }
}

/// The accounts that bodies use. A body that is dropped uses none.
struct Uses<'a> {
    used: &'a RefCell<HashSet<u64>>,
    accounts: HashSet<u64>,
}

impl<'a> Uses<'a> {
    fn begin(used: &'a RefCell<HashSet<u64>>, accounts: &HashSet<u64>) -> Self {
        for account in accounts {
            let is_free = used.borrow_mut().insert(*account);
            assert!(is_free, "two bodies use account {account}");
        }
        Self {
            used,
            accounts: accounts.clone(),
        }
    }
}

impl Drop for Uses<'_> {
    fn drop(&mut self) {
        let mut used = self.used.borrow_mut();
        used.retain(|account| !self.accounts.contains(account));
    }
}

fn fault(dice: &mut Dice) -> Fault {
    match dice.below(6) {
        0 => Fault::Fail(StoreErrorKind::NotApplied),
        1 => Fault::LoseReply,
        2 => Fault::ApplyThenHang,
        3 => Fault::Hang,
        4 => Fault::ApplyLate(millis(dice.below(3000))),
        _ => Fault::Delay(millis(dice.below(700))),
    }
}

/// Makes some calls at once. Returns how they ended.
async fn ends(seed: u64) -> Vec<&'static str> {
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let store = FaultyStore::new(MemoryStore::new());
    store.always_all(Fault::Delay(millis(1 + dice.below(5))));
    for _ in 0..dice.below(12) {
        let ops = [Op::Claim, Op::ClaimAll, Op::Remove, Op::Replace];
        store.next(
            ops[usize::try_from(dice.below(4)).unwrap()],
            fault(&mut dice),
        );
    }
    let policy = Policy::new(secs(3)).release(Release::Always);
    let here = Guarded::on(store.clone(), policy);
    let handles = [here.clone(), here.elsewhere()];
    let used = RefCell::default();
    let calls = (0..CALLS).map(|_| {
        let mut guarded = handles[usize::try_from(dice.below(2)).unwrap()].clone();
        if dice.below(2) == 0 {
            guarded.policy = guarded.policy.wait(secs(60));
        }
        if dice.below(2) == 0 {
            guarded.policy = guarded.policy.on_cancel(OnCancel::Release);
        }
        let keys: Vec<_> = (0..=dice.below(3)).map(|_| dice.below(ACCOUNTS)).collect();
        let mut call = guarded.call(keys[0]);
        for key in &keys[1..] {
            call.also();
            call.also_part(key);
        }
        let [starts, lasts, fails, dropped] = [200, 5000, 4, 4].map(|end| dice.below(end));
        let drops = if dropped == 0 {
            dice.below(4000)
        } else {
            600_000
        };
        let used = &used;
        async move {
            sleep(millis(starts)).await;
            let body = async {
                let _uses = Uses::begin(used, &keys.iter().copied().collect());
                sleep(millis(lasts)).await;
                if fails == 0 { Err(()) } else { Ok(()) }
            };
            match timeout(millis(drops), run(call, body)).await {
                Ok(Ok(())) => "done",
                Ok(Err(Failed::Body)) => "failed",
                Ok(Err(Failed::Refused(error))) => error.code(),
                Err(_) => "dropped",
            }
        }
    });
    let ended = timeout(secs(900), join_all(calls.collect::<Vec<_>>())).await;
    let ended = ended.unwrap_or_else(|_| panic!("seed {seed}: a call waits for ever"));
    for guarded in &handles {
        guarded.settled().await;
    }
    sleep(secs(8)).await;
    for account in 0..ACCOUNTS {
        let left = here.entry(account).await;
        assert!(left.is_none(), "seed {seed}: {account} stays taken");
    }
    ended
}

#[tokio::test(start_paused = true)]
async fn whatever_happens_no_account_is_used_twice_and_every_call_ends() {
    let mut counts = HashMap::new();
    for seed in 0..SEEDS {
        for end in ends(seed).await {
            *counts.entry(end).or_insert(0) += 1;
        }
    }
    for end in [
        "done",
        "failed",
        "in_progress",
        "dropped",
        "store_unavailable",
    ] {
        assert!(
            counts.get(end).is_some_and(|count| *count > 20),
            "{counts:?}"
        );
    }
}
