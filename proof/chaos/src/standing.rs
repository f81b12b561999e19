//! What stands in the store when all is over.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io;
use std::path::Path;

use idempotence::store::redis::redis::{Client, RedisResult, cmd, pipe};

use crate::history::Call;

/// What stands in the store when all is over.
#[derive(Debug, Default)]
pub struct Standing {
    /// The calls whose results are there.
    pub results: BTreeSet<Call>,
    /// The keys that never expire.
    pub endless: Vec<String>,
    /// Everything, for people.
    pub text: String,
}

impl Standing {
    /// Adds what stands on the server at `url`. Reads the records as they are, without the crate.
    ///
    /// # Errors
    ///
    /// If the server does not answer.
    pub fn add(&mut self, url: &str) -> RedisResult<()> {
        let mut connection = Client::open(url)?.get_connection()?;
        let mut cursor = 0_u64;
        loop {
            let mut scan = cmd("SCAN");
            scan.arg(cursor).arg("COUNT").arg(1000);
            let (next, keys): (u64, Vec<String>) = scan.query(&mut connection)?;
            for key in keys {
                let (record, left): (Option<Vec<u8>>, i64) =
                    pipe().get(&key).pttl(&key).query(&mut connection)?;
                let record = String::from_utf8_lossy(&record.unwrap_or_default()).into_owned();
                // Writing to a string cannot fail.
                let _ = writeln!(self.text, "{key} {left} {}", record.escape_debug());
                self.results.extend(result(&record));
                if left == -1 {
                    self.endless.push(key);
                }
            }
            cursor = next;
            if cursor == 0 {
                return Ok(());
            }
        }
    }

    /// Writes everything to a file, for people.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        std::fs::write(path, &self.text)
    }
}

/// The call whose result a record has.
fn result(record: &str) -> Option<Call> {
    let (line, result) = record.split_once('\n')?;
    let done = line.starts_with("idem1 D ");
    done.then(|| result.parse().ok().map(Call::of)).flatten()
}

/// Has the server at `url` forget its scripts.
///
/// # Errors
///
/// If the server does not answer.
pub fn flush_scripts(url: &str) -> RedisResult<()> {
    let mut connection = Client::open(url)?.get_connection()?;
    cmd("SCRIPT").arg("FLUSH").query(&mut connection)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_done_record_has_a_result() {
        let call = Call {
            process: 2,
            number: 5,
        };
        let done = format!("idem1 D owner=1 codec=json:ok:0:1\n{}", call.value());
        assert_eq!(result(&done), Some(call));
        assert_eq!(result(&done.replace(" D ", " R ")), None);
        assert_eq!(result("idem1 D owner=1 codec=-\n"), None);
    }
}
