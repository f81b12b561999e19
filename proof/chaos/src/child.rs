//! Child processes of this program.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::{env, fs, io};

/// Starts this program in a role, with `setting` as its only setting. Its standard error is in the file `stderr` of the folder.
pub(crate) fn start(
    program: &Path,
    role: &str,
    args: impl IntoIterator<Item = String>,
    folder: &Path,
    setting: Option<(&str, &str)>,
    stdin: impl Into<Stdio>,
) -> io::Result<Child> {
    let mut stderr = fs::OpenOptions::new();
    let stderr = stderr
        .create(true)
        .append(true)
        .open(folder.join("stderr"))?;
    let mut command = Command::new(program);
    let others = env::vars_os().map(|(name, _)| name);
    for name in others.filter(|name| name.as_encoded_bytes().starts_with(b"IDEMPOTENCE_")) {
        command.env_remove(name);
    }
    command
        .arg(role)
        .args(args)
        .envs(setting)
        .stdin(stdin)
        .stdout(Stdio::null())
        .stderr(stderr)
        .spawn()
}
