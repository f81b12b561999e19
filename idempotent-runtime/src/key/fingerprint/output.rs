//! What gets values in the canonical encoding.

/// Gets values in the canonical encoding.
pub(super) trait Output {
    /// The entries of an open map.
    type Entries;

    fn write(&mut self, bytes: &[u8]);
    /// Writes a tag and an unsigned number: how many bytes the number has, then its bytes, the highest first.
    fn number(&mut self, tag: u8, number: u128);
    /// Writes a tag, the length of `bytes`, and `bytes`.
    fn text(&mut self, tag: u8, bytes: &[u8]);
    /// Begins a sequence.
    fn sequence(&mut self);
    /// Ends a sequence.
    fn end(&mut self);
    /// Writes a sequence of small numbers with this tag.
    fn sequence_of_small(&mut self, tag: u8, numbers: &[u8]);
    /// Begins a map.
    fn map(&mut self) -> Self::Entries;
    /// Begins an entry of the innermost open map.
    fn entry(&mut self, entries: &mut Self::Entries);
    /// Ends the innermost open map.
    fn end_map(&mut self, entries: &Self::Entries);
    /// Notes whether the value that is written now is missing. The encoding does not depend on this.
    fn missing_if(&mut self, _is_missing: impl FnOnce() -> bool) {}
}
