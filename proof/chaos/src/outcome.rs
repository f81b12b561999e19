//! The result of a run or a storm, and its histories.

use std::path::PathBuf;
use std::{fs, io};

/// The result of a run or a storm. The folder of its histories remains until [`remove_histories`](Self::remove_histories).
#[derive(Debug)]
pub struct Outcome<V, S> {
    /// The result of the check.
    pub verdict: V,
    /// The folder of the histories.
    pub folder: PathBuf,
    pub(crate) setup: S,
}

impl<V, S> Outcome<V, S> {
    /// Removes the histories.
    ///
    /// # Errors
    ///
    /// If they cannot be removed.
    pub fn remove_histories(&self) -> io::Result<()> {
        fs::remove_dir_all(&self.folder)
    }
}
