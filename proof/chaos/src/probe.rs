//! Measures how long the store answers nothing. A store that is silent for a lease is an excuse for a second body. A busy machine makes
//! it silent without a planned fault.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use idempotence::store::redis::redis::{Client, Connection, RedisResult, cmd};

use crate::history::{History, HistoryEvent, NOTED, now};

/// Writes to the store again and again until it is dropped, and notes when a write took long.
#[derive(Debug)]
pub(crate) struct Probe {
    stop: Arc<AtomicBool>,
}

/// The number of the store, and of this process, as a process that did not run.
pub(crate) const STORE: u32 = 0;

impl Probe {
    pub(crate) fn start(url: String, history: Arc<History>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let is_stopped = Arc::clone(&stop);
        thread::spawn(move || {
            let mut connection = None;
            let mut last = now();
            while !is_stopped.load(Ordering::Relaxed) {
                if let Ok(open) = write(&url, connection.take()) {
                    connection = Some(open);
                    let silent = now() - last;
                    if silent > NOTED {
                        history.note(HistoryEvent::Starved(STORE, silent));
                    }
                    last = now();
                }
                thread::sleep(Duration::from_millis(10));
            }
        });
        Self { stop }
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn write(url: &str, open: Option<Connection>) -> RedisResult<Connection> {
    let timeout = Duration::from_secs(1);
    let mut connection = match open {
        Some(open) => open,
        None => Client::open(url)?.get_connection_with_timeout(timeout)?,
    };
    connection.set_read_timeout(Some(timeout))?;
    let mut set = cmd("SET");
    set.arg("probe").arg(now()).arg("EX").arg(60);
    set.query::<()>(&mut connection)?;
    Ok(connection)
}
