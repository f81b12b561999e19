//! The slot of a key or a command.

use ::redis::{Arg, Cmd};
use crc16::{State, XMODEM};

/// The slot of a key: the CRC of the key, or of its part in the first braces if this is not empty (Redis Cluster specification,
/// "Hash tags").
pub(crate) fn slot_of_key(key: &[u8]) -> u16 {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        let close = rest.iter().position(|byte| *byte == b'}')?;
        (close > 0).then_some(&rest[..close])
    });
    State::<XMODEM>::calculate(tag.unwrap_or(key)) % 16_384
}

/// The slot of a command on a record; `None` for other commands.
pub(crate) fn slot_of(command: &Cmd) -> Option<u16> {
    let mut args = command.args_iter();
    let key = match args.next()? {
        Arg::Simple(b"EVALSHA" | b"EVAL") => args.nth(2),
        Arg::Simple(b"SET" | b"DELIFEQ" | b"DELEX") => args.next(),
        _ => None,
    };
    match key? {
        Arg::Simple(key) => Some(slot_of_key(key)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use ::redis::cluster_routing::Slot;
    use ::redis::cmd;

    use super::*;

    #[test]
    fn the_slot_of_a_key_is_the_slot_of_the_client() {
        let mut keys = vec![
            String::new(),
            "123456789".to_owned(),
            "{}".to_owned(),
            "{}key".to_owned(),
            "{tag}key".to_owned(),
            "a{tag}{other}".to_owned(),
            "a{{tag}}".to_owned(),
            "}{tag".to_owned(),
            "}{tag}".to_owned(),
        ];
        keys.extend((0..10_000).map(|number: u64| format!("idem:{:x}", number.pow(3))));
        for key in keys {
            let slot = Slot::new(slot_of_key(key.as_bytes()));
            assert_eq!(slot, Some(Slot::for_key(&key)), "{key}");
        }
        assert_eq!(slot_of_key(b"123456789"), 0x31c3);
    }

    #[test]
    fn only_commands_on_records_have_a_slot() {
        let slot = Some(slot_of_key(b"key"));
        for command in [
            cmd("SET").arg("key").arg("value"),
            cmd("DELIFEQ").arg("key").arg("value"),
            cmd("DELEX").arg("key").arg("IFEQ").arg("value"),
            cmd("EVALSHA").arg("hash").arg(1).arg("key").arg("value"),
            cmd("EVAL").arg("return").arg(1).arg("{key}other"),
        ] {
            assert_eq!(slot_of(command), slot);
        }
        for command in [
            &cmd("INFO"),
            cmd("CONFIG").arg("GET").arg("key"),
            cmd("CLUSTER").arg("SLOTS"),
        ] {
            assert_eq!(slot_of(command), None);
        }
    }
}
