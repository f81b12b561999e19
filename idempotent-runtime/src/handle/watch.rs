//! Reads the settings again when their file changes.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::sleep;

use crate::error::SetupError;
use crate::handle::endpoints::without_blocking;
use crate::settings::Settings;
use crate::settings::known::KnownEndpoints;

/// A file of settings that will be watched.
pub(super) struct Watch {
    path: PathBuf,
    interval: Duration,
    runtime: Handle,
    /// The content that was seen last. `None`: the file could not be read.
    seen: Option<Vec<u8>>,
}

impl Watch {
    /// The watch of these settings, if they ask for one. Reads the file, so that a change after this is seen.
    pub(super) fn from_settings(settings: Option<&Settings>) -> Result<Option<Self>, SetupError> {
        let Some((interval, path)) = settings.and_then(Settings::watched) else {
            return Ok(None);
        };
        if interval < Duration::from_millis(1) || interval > Duration::from_hours(1) {
            return Err(SetupError::new(format!(
                "invalid interval of `Settings::watch`: must be between 1 ms and 1 h, got {interval:?}"
            )));
        }
        let Some(path) = path else {
            let what = "`Settings::watch` has no file to look at; use it with `Settings::file`";
            return Err(SetupError::new(what));
        };
        let runtime = Handle::try_current().map_err(|_| {
            SetupError::new(
                "`Settings::watch` needs a tokio runtime; build the handle inside of a runtime, or call `reload` yourself",
            )
        })?;
        Ok(Some(Self {
            seen: fs::read(path).ok(),
            path: path.clone(),
            interval,
            runtime,
        }))
    }

    /// Watches the file until the handle is dropped.
    pub(super) fn start(self, known: &Arc<KnownEndpoints>) {
        let known = Arc::downgrade(known);
        self.runtime.clone().spawn(self.run(known));
    }

    async fn run(mut self, known: Weak<KnownEndpoints>) {
        loop {
            sleep(self.interval).await;
            let Some(known) = known.upgrade() else {
                return;
            };
            let looked = without_blocking(move || {
                self.look(&known);
                self
            });
            match looked.await {
                Ok(watch) => self = watch,
                // The runtime is shutting down.
                Err(_) => return,
            }
        }
    }

    /// Reloads the settings if the file has changed. Blocks the thread while it reads the file.
    fn look(&mut self, known: &KnownEndpoints) {
        let content = fs::read(&self.path).ok();
        if content == self.seen {
            return;
        }
        self.seen = content;
        let path = self.path.display();
        match known.reload() {
            Ok(()) => {
                tracing::info!(target: "idempotence", "the settings file {path} has changed, and its settings are in force");
            }
            Err(error) => {
                tracing::error!(
                    target: "idempotence",
                    "the settings file {path} has changed, and has mistakes, so the earlier settings stay: {error}"
                );
            }
        }
    }
}
