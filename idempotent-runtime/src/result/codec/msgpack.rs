//! `MessagePack` as records have it.

use std::io::Write;

use rmp_serde::config::{DefaultConfig, HumanReadableConfig, StructMapConfig};
use rmp_serde::decode::ReadRefReader;
use rmp_serde::{Deserializer, Serializer};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::encoded::LEVELS;

// As for people, because `serde` reads flattened fields and the like so with every codec: an `IpAddr` among them, written
// for machines, could not be read again.
type Written = HumanReadableConfig<StructMapConfig<DefaultConfig>>;
type Read = HumanReadableConfig<DefaultConfig>;

pub(super) fn writer<W: Write>(out: W) -> Serializer<W, Written> {
    Serializer::new(out).with_struct_map().with_human_readable()
}

pub(super) fn reader(bytes: &[u8]) -> Deserializer<ReadRefReader<'_, [u8]>, Read> {
    Deserializer::from_read_ref(bytes).with_human_readable()
}

/// Whether `bytes` are one whole value, that is not nested too deep.
///
/// Reading it into its type does not ask: what follows the value is left there, and enums in enums may take the whole
/// stack.
pub(super) fn is_one_value(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    let mut msgpack = Deserializer::new(&mut rest);
    // It is counted down, and fails when it arrives at zero.
    msgpack.set_max_depth(LEVELS as usize + 1);
    IgnoredAny::deserialize(&mut msgpack).is_ok() && rest.is_empty()
}
