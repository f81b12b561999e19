//! `google.rpc.RetryInfo` in the details of a status, by hand: it is one small message, so no library for protobuf is needed.

use std::time::Duration;

use crate::error::wait::in_whole;

const TYPE: &str = "type.googleapis.com/google.rpc.RetryInfo";

/// The wire type of a number of variable length.
const NUMBER: u8 = 0;
/// The wire type of bytes with their length before them.
const BYTES: u8 = 2;

/// A `google.rpc.Status` whose only detail is a `google.rpc.RetryInfo`. The delay is rounded up to milliseconds.
///
/// ```text
/// Status    { code: int32 = 1, message: string = 2, details: Any = 3 }
/// Any       { type_url: string = 1, value: bytes = 2 }
/// RetryInfo { retry_delay: Duration = 1 }
/// Duration  { seconds: int64 = 1, nanos: int32 = 2 }
/// ```
pub(super) fn details(code: u8, message: &str, delay: Duration) -> Vec<u8> {
    let delay = Duration::from_millis(in_whole(Duration::from_millis(1), delay));
    let mut duration = Vec::new();
    // The longest delay of `google.protobuf.Duration` is 10,000 years.
    put_number(&mut duration, 1, delay.as_secs().min(315_576_000_000));
    put_number(&mut duration, 2, delay.subsec_nanos().into());
    let (mut retry_info, mut any, mut status) = (Vec::new(), Vec::new(), Vec::new());
    put_bytes(&mut retry_info, 1, &duration);
    put_bytes(&mut any, 1, TYPE.as_bytes());
    put_bytes(&mut any, 2, &retry_info);
    put_number(&mut status, 1, code.into());
    put_bytes(&mut status, 2, message.as_bytes());
    put_bytes(&mut status, 3, &any);
    status
}

fn put_number(message: &mut Vec<u8>, field: u8, number: u64) {
    // Zero is the default of a field, which is not written.
    if number != 0 {
        message.push(field << 3 | NUMBER);
        put_varint(message, number);
    }
}

fn put_bytes(message: &mut Vec<u8>, field: u8, bytes: &[u8]) {
    message.push(field << 3 | BYTES);
    put_varint(message, bytes.len() as u64);
    message.extend_from_slice(bytes);
}

fn put_varint(message: &mut Vec<u8>, mut number: u64) {
    loop {
        let [low, ..] = number.to_le_bytes();
        number >>= 7;
        if number == 0 {
            message.push(low & 0x7f);
            return;
        }
        message.push(low | 0x80);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tests of tonic in `proof/frameworks` decode such bytes with `prost`.
    #[test]
    fn the_bytes_are_the_bytes_of_protobuf() {
        let bytes = details(10, "wait", Duration::from_millis(1_500));
        let expected = b"\x08\x0a\x12\x04wait\x1a\x36\x0a\x28type.googleapis.com/google.rpc.RetryInfo\x12\x0a\x0a\x08\x08\x01\x10\x80\xca\xb5\xee\x01";
        assert_eq!(
            bytes.escape_ascii().to_string(),
            expected.escape_ascii().to_string()
        );
    }

    #[test]
    fn a_delay_is_rounded_up_to_milliseconds() {
        let of = |delay| details(10, "", delay);
        assert_eq!(of(Duration::ZERO), of(Duration::from_millis(1)));
        assert_eq!(
            of(Duration::from_nanos(1_000_001)),
            of(Duration::from_millis(2))
        );
        assert!(of(Duration::MAX).len() < 100);
    }
}
