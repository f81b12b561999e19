//! The processes of a run: the slots, and the handle of each process.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;
use std::time::Duration;

use super::batch_in_flight::Batch;
use super::history::{CallId, Kind, OPERATOR};
use super::link::{Link, number_of};
use super::mutant_store::MutantStore;
use super::net::{Net, Next};
use super::source::{self, Polled};
use crate::handle::Idempotency;
use crate::observe::{Event as EngineEvent, EventKind};

/// What the network knows about a process.
#[derive(Default)]
pub(super) struct Process {
    pub(super) crashed: bool,
    pub(super) paused: bool,
    /// Messages from it and to it that wait until the pause ends.
    pub(super) held_up: Vec<Next>,
    pub(super) tasks: BTreeMap<(CallId, bool), Waker>,
    /// The batches on their way to the store, by connection. They arrive in their order.
    pub(super) connections: [VecDeque<Batch>; 2],
}

/// The processes. Each slot has the handle of its latest process.
pub(super) struct Slots {
    pub(super) net: Arc<Net>,
    latest: Mutex<Vec<Option<(usize, Idempotency)>>>,
    /// The handles of all processes, also of dead ones, whose tasks still run.
    all: Mutex<Vec<Idempotency>>,
}

impl Slots {
    pub(super) fn new(net: &Arc<Net>) -> Self {
        Self {
            net: Arc::clone(net),
            latest: Mutex::new(vec![None; net.plan.ahead.len()]),
            all: Mutex::default(),
        }
    }

    pub(super) fn start(&self, slot: usize) {
        let process = self.net.process();
        let idempotency = handle(&self.net, process);
        self.all
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(idempotency.clone());
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)[slot] =
            Some((process, idempotency));
    }

    pub(super) fn latest(&self, slot: usize) -> Option<(usize, Idempotency)> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)[slot].clone()
    }

    pub(super) fn stop(&self, slot: usize) -> Option<usize> {
        let stopped = self.latest.lock().unwrap_or_else(PoisonError::into_inner)[slot].take();
        stopped.map(|(process, _)| process)
    }

    /// The handles of all processes until now.
    pub(super) fn take_all(&self) -> Vec<Idempotency> {
        std::mem::take(&mut *self.all.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn handle(net: &Arc<Net>, process: usize) -> Idempotency {
    let link = Link::new(net, process);
    let builder = match net.mutant {
        Some(mutant) => Idempotency::builder(MutantStore::new(link, mutant)),
        None => Idempotency::builder(link),
    };
    let weak = Arc::downgrade(net);
    let observer = move |event: &EngineEvent<'_>| {
        let Some(net) = weak.upgrade() else { return };
        let polled = source::polled();
        match event.kind() {
            EventKind::Unguarded => {
                if let Some(Polled { call, .. }) = polled.filter(|polled| polled.call != OPERATOR) {
                    net.record(Some(net.plan.calls[call.0].key), Kind::Unguarded { call });
                }
            }
            EventKind::Unrecorded | EventKind::NotKept => {
                net.record(key_of(event), Kind::Unrecorded { process });
            }
            EventKind::NotWithdrawn => {
                net.record(key_of(event), Kind::NotWithdrawn { process });
            }
            EventKind::Overrun => net.record(key_of(event), Kind::Overrun { process }),
            _ => {}
        }
    };
    builder
        .deadline(Duration::from_millis(net.plan.deadline))
        .observer(observer)
        .build()
        .expect("the options are valid")
}

fn key_of(event: &EngineEvent<'_>) -> Option<usize> {
    number_of(&event.key()?.to_string())
}
