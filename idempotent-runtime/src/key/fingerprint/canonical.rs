//! The bytes of the canonical encoding: they go to the digest, and those of a map wait until its entries are sorted.

use super::digest::{Fingerprint, State};

const VERSION: u8 = 1;

/// Stands where the tag of a value would: no tag is zero.
const END: u8 = 0;
const SEQUENCE: u8 = b'[';
const MAP: u8 = b'{';

/// What stands before the first part: the parts are the elements of one sequence.
pub(super) const START: [u8; 2] = [VERSION, SEQUENCE];

/// Takes the bytes of values for a digest that has taken [`START`].
pub(super) struct Output {
    state: State,
    /// Where the entries of maps wait to be sorted. Nothing else allocates.
    held: Vec<u8>,
    /// How many maps are open, one within the other; all share `held`.
    holding: usize,
}

impl Output {
    pub(super) fn new(state: State) -> Self {
        Self {
            state,
            held: Vec::new(),
            holding: 0,
        }
    }

    pub(super) fn finish(&mut self) -> Fingerprint {
        self.end();
        self.state.finish()
    }

    pub(super) fn write(&mut self, bytes: &[u8]) {
        if self.holding > 0 {
            self.held.extend_from_slice(bytes);
            return;
        }
        self.state.update(bytes);
    }

    /// A tag and an unsigned number: how many bytes it has, then these, the highest first.
    pub(super) fn number(&mut self, tag: u8, number: u128) {
        let mut bytes = [0; 18];
        bytes[2..].copy_from_slice(&number.to_be_bytes());
        let zeros = number.leading_zeros() / 8;
        let [length, ..] = (16 - zeros).to_le_bytes();
        let start = zeros as usize;
        bytes[start] = tag;
        bytes[start + 1] = length;
        self.write(&bytes[start..]);
    }

    /// A tag, a length and as many bytes.
    pub(super) fn text(&mut self, tag: u8, bytes: &[u8]) {
        self.number(tag, bytes.len() as u128);
        self.write(bytes);
    }

    /// Begins a sequence.
    pub(super) fn sequence(&mut self) {
        self.write(&[SEQUENCE]);
    }

    /// Ends a sequence.
    pub(super) fn end(&mut self) {
        self.write(&[END]);
    }

    /// Begins a map.
    pub(super) fn map(&mut self) -> Entries {
        self.write(&[MAP]);
        self.holding += 1;
        Entries(Vec::new())
    }

    /// Begins an entry of the map that was begun last.
    pub(super) fn entry(&mut self, entries: &mut Entries) {
        entries.0.push(self.held.len());
    }

    /// Ends the map that was begun last.
    pub(super) fn end_map(&mut self, entries: &Entries) {
        let Entries(starts) = entries;
        if let Some(&first) = starts.first() {
            let ends = starts[1..].iter().copied().chain([self.held.len()]);
            let mut sorted: Vec<&[u8]> = (starts.iter().zip(ends))
                .map(|(&start, end)| &self.held[start..end])
                .collect();
            sorted.sort_unstable();
            let sorted = sorted.concat();
            self.held[first..].copy_from_slice(&sorted);
        }
        self.holding -= 1;
        if self.holding == 0 {
            let held = std::mem::take(&mut self.held);
            self.write(&held);
        }
        self.end();
    }
}

/// Where among the bytes that are held each entry of a map starts.
pub(super) struct Entries(Vec<usize>);
