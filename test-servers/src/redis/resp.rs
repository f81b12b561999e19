//! A minimal Redis client for the setup of servers: one command, one answer, as text.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// How long a server may take to answer. A paused server never answers.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// Sends one command to the server behind `socket`. Returns the strings of its answer; nested arrays
/// are flattened. An error of the server is an [`io::Error`] with its text.
///
/// It uses the socket, because another program may answer on the port.
pub(super) fn ask<S: AsRef<str>>(socket: &Path, command: &[S]) -> io::Result<Vec<String>> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(READ_TIMEOUT))?;
    let mut request = Vec::new();
    write!(request, "*{}\r\n", command.len())?;
    for word in command {
        let word = word.as_ref();
        write!(request, "${}\r\n{word}\r\n", word.len())?;
    }
    stream.write_all(&request)?;
    let mut strings = Vec::new();
    read(&mut BufReader::new(stream), &mut strings)?;
    Ok(strings)
}

fn read(reader: &mut impl BufRead, strings: &mut Vec<String>) -> io::Result<()> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let line = line.trim_end();
    let (kind, rest) = line
        .split_at_checked(1)
        .ok_or(io::ErrorKind::UnexpectedEof)?;
    match kind {
        "+" | ":" => strings.push(rest.to_owned()),
        "-" => return Err(io::Error::other(rest)),
        // A length of -1 means that there is no string.
        "$" => {
            if let Ok(length) = rest.parse::<usize>() {
                let mut bytes = vec![0; length + 2];
                reader.read_exact(&mut bytes)?;
                strings.push(String::from_utf8_lossy(&bytes[..length]).into_owned());
            }
        }
        "*" => {
            for _ in 0..rest.parse().unwrap_or(0) {
                read(reader, strings)?;
            }
        }
        _ => return Err(io::ErrorKind::InvalidData.into()),
    }
    Ok(())
}
