//! The records in the store at the end of a run.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io;
use std::path::Path;

use idempotence::store::redis::redis::{Client, RedisResult, cmd, pipe};

use crate::history::Call;

/// The records in the store at the end of a run.
#[derive(Debug, Default)]
pub struct Stored {
    /// The calls whose results are stored.
    pub results: BTreeSet<Call>,
    /// The keys that never expire.
    pub without_expiry: Vec<String>,
    /// A readable dump of all records.
    pub text: String,
}

impl Stored {
    /// Adds the records of the server at `url`. Reads them without the crate.
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
                let (record, remaining): (Option<Vec<u8>>, i64) =
                    pipe().get(&key).pttl(&key).query(&mut connection)?;
                let record = String::from_utf8_lossy(&record.unwrap_or_default()).into_owned();
                // Writing to a string cannot fail.
                let _ = writeln!(self.text, "{key} {remaining} {}", record.escape_debug());
                self.results.extend(result(&record));
                if remaining == -1 {
                    self.without_expiry.push(key);
                }
            }
            cursor = next;
            if cursor == 0 {
                return Ok(());
            }
        }
    }

    /// Writes the dump to a file.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        std::fs::write(path, &self.text)
    }
}

/// The call whose result is in the record.
fn result(record: &str) -> Option<Call> {
    let (line, result) = record.split_once('\n')?;
    let done = line.starts_with("idem1 D ");
    done.then(|| result.parse().ok().map(Call::of)).flatten()
}

/// Flushes the scripts of the server at `url`.
///
/// # Errors
///
/// If the server does not answer.
pub fn flush_scripts(url: &str) -> RedisResult<()> {
    let mut connection = Client::open(url)?.get_connection()?;
    cmd("SCRIPT").arg("FLUSH").query(&mut connection)
}

/// Makes the server at `url` close the connections of all its other clients.
///
/// # Errors
///
/// If the server does not answer.
pub fn cut_clients(url: &str) -> RedisResult<()> {
    let mut connection = Client::open(url)?.get_connection()?;
    let mut kill = cmd("CLIENT");
    kill.arg("KILL").arg("TYPE").arg("normal");
    kill.query::<u64>(&mut connection).map(drop)
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
