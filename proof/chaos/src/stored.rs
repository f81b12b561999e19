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
    /// Adds the records of the Redis at `url`. Reads them without the crate.
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
                self.note(key, &record, remaining, remaining != -1);
            }
            cursor = next;
            if cursor == 0 {
                return Ok(());
            }
        }
    }

    /// Adds a record. `remaining`: its time to live.
    pub(crate) fn note(&mut self, key: String, record: &str, remaining: i64, expires: bool) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{key} {remaining} {}", record.escape_debug());
        self.results.extend(result(record));
        if !expires {
            self.without_expiry.push(key);
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
    let done = line.starts_with("idem2 D ");
    done.then(|| result.parse().ok().map(Call::of)).flatten()
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
        let done = format!("idem2 D a 1 1 web:1 - json:ok:0:1\n{}", call.value());
        assert_eq!(result(&done), Some(call));
        assert_eq!(result(&done.replace(" D ", " R ")), None);
        assert_eq!(result("idem2 D a 1 1 web:1\n"), None);
    }
}
