//! Settings of endpoints, from a file and the environment, as calls and listings show them.
#![allow(clippy::unwrap_used, missing_docs)]

mod calls;
mod disabled;
mod disabled_fence;
mod environment;
mod file;
mod listing;
mod permits;
mod reload;
mod seal_keys;
mod watch;

use std::future::{Future, poll_fn, ready};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use std::{env, fs, process};

use idempotent_runtime::fingerprint::Fingerprint;
use idempotent_runtime::private::{Call, Endpoint, Refusal};
use idempotent_runtime::{Error, Idempotency, MemoryStore, Policy, Settings, SetupError, Store};

/// A settings file that is removed at the end of the test.
struct File(PathBuf);

impl File {
    fn new(text: &str) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("idempotence-{}-{count}.toml", process::id());
        let file = Self(env::temp_dir().join(name));
        file.write(text);
        file
    }

    /// Replaces the file in one step, as an operator should.
    fn write(&self, text: &str) {
        let new = self.0.with_extension("new");
        fs::write(&new, text).unwrap();
        fs::rename(new, &self.0).unwrap();
    }

    fn path(&self) -> &Path {
        &self.0
    }

    /// The name of a line of the file in messages.
    fn at(&self, line: usize) -> String {
        format!("{}:{line}", self.0.display())
    }

    fn handle(&self) -> Result<Idempotency, SetupError> {
        self.handle_on(MemoryStore::new())
    }

    fn handle_on(&self, store: impl Store) -> Result<Idempotency, SetupError> {
        Idempotency::builder(store)
            .settings(Settings::file(self.path()))
            .build()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Makes a call that succeeds at once.
async fn call(
    idempotency: &Idempotency,
    endpoint: &'static str,
    policy: Policy,
    id: u64,
) -> Result<(), Error> {
    call_with(idempotency, endpoint, policy, id, ready(())).await
}

async fn call_with(
    idempotency: &Idempotency,
    endpoint: &'static str,
    policy: Policy,
    id: u64,
    body: impl Future<Output = ()>,
) -> Result<(), Error> {
    let mut call = Call::new(Endpoint::named(endpoint), policy, Some(idempotency));
    call.part(&id);
    let mut held = call.claim().await.map_err(Refusal::into_error)?;
    let mut body = pin!(body);
    poll_fn(|context| held.poll_body(context, body.as_mut())).await?;
    held.settle(true).await;
    Ok(())
}

/// How long the record of a call is stored.
async fn taken_for(store: &MemoryStore, endpoint: &str, id: u64) -> Duration {
    let fingerprint = Fingerprint::of(&(id,)).unwrap();
    let key = format!("idem:{endpoint}:{fingerprint}");
    store.get(&key).await.unwrap().unwrap().ttl.unwrap()
}

/// The line of an endpoint in the listing.
fn listed(idempotency: &Idempotency, endpoint: &str) -> Option<String> {
    let endpoints = idempotency.endpoints();
    let found = endpoints.iter().find(|info| info.name() == endpoint)?;
    Some(found.to_string())
}

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}
