//! Finds programs on this machine.

use std::env;
use std::path::{Path, PathBuf};

/// The path of `program` in the first of these folders that has it.
pub(crate) fn find(program: impl AsRef<Path>, folders: &[PathBuf]) -> Option<PathBuf> {
    let mut paths = folders.iter().map(|folder| folder.join(&program));
    paths.find(|path| path.is_file())
}

/// The folders of `PATH`.
pub(crate) fn path() -> Vec<PathBuf> {
    env::var_os("PATH")
        .map(|path| env::split_paths(&path).collect())
        .unwrap_or_default()
}
