//! `MessagePack` as it is in records.

use std::io::Write;

use rmp_serde::config::{DefaultConfig, HumanReadableConfig, StructMapConfig};
use rmp_serde::decode::ReadRefReader;
use rmp_serde::{Deserializer, Serializer};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::encoded::LEVELS;

// Human-readable, because `serde` reads buffered values such as flattened fields in that form with every codec. An `IpAddr` in
// such a field that is written in the compact form could not be read again.
type MsgpackConfig = HumanReadableConfig<StructMapConfig<DefaultConfig>>;
type Read = HumanReadableConfig<DefaultConfig>;

pub(super) fn writer<W: Write>(out: W) -> Serializer<W, MsgpackConfig> {
    Serializer::new(out).with_struct_map().with_human_readable()
}

pub(super) fn reader(bytes: &[u8]) -> Deserializer<ReadRefReader<'_, [u8]>, Read> {
    Deserializer::from_read_ref(bytes).with_human_readable()
}

/// Whether `bytes` are exactly one value that is not nested too deep.
///
/// Reading a value into its type does not check this: bytes after the value are ignored, and enums within enums may overflow the
/// stack.
pub(super) fn is_one_value(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    let mut msgpack = Deserializer::new(&mut rest);
    // The depth is counted down, and fails at zero.
    msgpack.set_max_depth(LEVELS as usize + 1);
    IgnoredAny::deserialize(&mut msgpack).is_ok() && rest.is_empty()
}
