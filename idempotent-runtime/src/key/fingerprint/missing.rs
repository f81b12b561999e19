//! Whether each part of a value is given.

use serde::Serialize;

use super::encode::Encoder;
use super::output::Output;

/// Whether a part of the value is `None`, `()`, an empty or blank text, or an empty list or map, at any depth.
///
/// A value that cannot be encoded has no missing part: a key of it cannot be encoded, either.
pub fn has_missing_part<T: Serialize + ?Sized>(value: &T) -> bool {
    let mut encoder = Encoder::new(Search { is_missing: false });
    encoder.value(value).is_ok() && encoder.output().is_missing
}

/// Looks at the values, and keeps none. It notes a missing part instead of returning an error, because an implementation of `Serialize`
/// may ignore errors.
struct Search {
    is_missing: bool,
}

impl Output for Search {
    type Entries = ();

    fn write(&mut self, _: &[u8]) {}
    fn number(&mut self, _: u8, _: u128) {}
    fn text(&mut self, _: u8, _: &[u8]) {}
    fn sequence(&mut self) {}
    fn end(&mut self) {}
    fn sequence_of_small(&mut self, _: u8, _: &[u8]) {}
    fn map(&mut self) {}
    fn entry(&mut self, (): &mut ()) {}
    fn end_map(&mut self, (): &()) {}

    fn missing_if(&mut self, is_missing: impl FnOnce() -> bool) {
        self.is_missing |= is_missing();
    }
}
