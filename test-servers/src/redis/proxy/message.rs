//! Finds the end of a message in the Redis protocol.

use std::io::{self, BufRead, Read};

/// Reads the bytes of one request or reply; `None` at the end of the stream.
pub(super) fn read(reader: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut message = Vec::new();
    if reader.fill_buf()?.is_empty() {
        return Ok(None);
    }
    // How many values are still missing. A value may announce more values.
    let mut missing = 1_u64;
    while missing > 0 {
        let start = message.len();
        reader.read_until(b'\n', &mut message)?;
        missing -= 1;
        let line = &message[start..];
        if !line.ends_with(b"\n") {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match line[0] {
            b'*' | b'~' | b'>' => missing += count(line)?,
            b'%' => missing += 2 * count(line)?,
            // Attributes of the value that follows them.
            b'|' => missing += 2 * count(line)? + 1,
            b'$' | b'=' | b'!' if !line.starts_with(b"$-1") => {
                let length = count(line)? + 2;
                let read = reader.take(length).read_to_end(&mut message)?;
                if u64::try_from(read) != Ok(length) {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            _ => {}
        }
    }
    Ok(Some(message))
}

/// Whether the message is a push, which answers no request.
pub(super) fn is_push(message: &[u8]) -> bool {
    message.starts_with(b">")
}

/// The number in a line such as `*3`; 0 for `*-1`.
fn count(line: &[u8]) -> io::Result<u64> {
    let number = str::from_utf8(&line[1..]).ok();
    let number = number.and_then(|number| number.trim_end().parse::<i64>().ok());
    let number = number.ok_or(io::ErrorKind::InvalidData)?;
    Ok(number.try_into().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_ends_where_its_last_value_ends() {
        let messages: [&[u8]; 13] = [
            b"+OK\r\n",
            b"PING\r\n",
            b":1\r\n",
            b"$-1\r\n",
            b"$0\r\n\r\n",
            b"$4\r\n\r\n+-\r\n",
            b"*-1\r\n",
            b"*0\r\n",
            b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n",
            b"*3\r\n*1\r\n:1\r\n*2\r\n+a\r\n$-1\r\n_\r\n",
            b"%2\r\n+a\r\n:1\r\n+b\r\n*1\r\n,1.5\r\n",
            b"|1\r\n+ttl\r\n:3\r\n=7\r\ntxt:abc\r\n",
            b">2\r\n+message\r\n$1\r\nx\r\n",
        ];
        let stream = messages.concat();
        let mut stream = &stream[..];
        for message in messages {
            assert_eq!(read(&mut stream).unwrap().unwrap(), message);
            assert_eq!(is_push(message), message[0] == b'>');
        }
        assert_eq!(read(&mut stream).unwrap(), None);
    }

    #[test]
    fn half_a_message_is_an_error() {
        for message in ["+O", "$4\r\nab", "*2\r\n:1\r\n", "%1\r\n+a\r\n", "$x\r\n"] {
            assert!(read(&mut message.as_bytes()).is_err(), "{message}");
        }
    }
}
