//! Child processes of this program.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::{fs, io};

/// Starts this program in a role. Its standard error is in the file `stderr` of the folder.
pub(crate) fn start(
    program: &Path,
    role: &str,
    args: impl IntoIterator<Item = String>,
    folder: &Path,
    stdin: impl Into<Stdio>,
) -> io::Result<Child> {
    let mut stderr = fs::OpenOptions::new();
    let stderr = stderr
        .create(true)
        .append(true)
        .open(folder.join("stderr"))?;
    Command::new(program)
        .arg(role)
        .args(args)
        .stdin(stdin)
        .stdout(Stdio::null())
        .stderr(stderr)
        .spawn()
}
