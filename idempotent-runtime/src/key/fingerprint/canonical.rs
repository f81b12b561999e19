//! The bytes of the canonical encoding. They go to the digest at once, but the bytes of a map wait until its entries are
//! sorted.

use super::digest::{DigestState, Fingerprint};
use super::output::Output;

const VERSION: u8 = 1;

/// The end of a sequence or a map, in the place of the next tag. No tag is zero.
const END: u8 = 0;
const SEQUENCE: u8 = b'[';
const MAP: u8 = b'{';

/// The bytes before the first part: the parts are the elements of one sequence.
pub(super) const START: [u8; 2] = [VERSION, SEQUENCE];

/// Writes the bytes of values to a digest that has read [`START`].
#[derive(Clone)]
pub(super) struct DigestOutput {
    state: DigestState,
    /// The entries of open maps, until they are sorted. Nothing else allocates.
    buffer: Vec<u8>,
    /// How many maps are open, nested in each other. All share `buffer`.
    open_maps: usize,
}

impl DigestOutput {
    #[inline]
    pub(super) fn new(state: DigestState) -> Self {
        Self {
            state,
            buffer: Vec::new(),
            open_maps: 0,
        }
    }

    pub(super) fn finish(&mut self) -> Fingerprint {
        self.end();
        self.state.finish()
    }
}

impl Output for DigestOutput {
    type Entries = Entries;

    fn write(&mut self, bytes: &[u8]) {
        if self.open_maps > 0 {
            self.buffer.extend_from_slice(bytes);
            return;
        }
        self.state.update(bytes);
    }

    fn number(&mut self, tag: u8, number: u128) {
        let mut bytes = [0; 18];
        bytes[2..].copy_from_slice(&number.to_be_bytes());
        let zeros = number.leading_zeros() / 8;
        let [length, ..] = (16 - zeros).to_le_bytes();
        let start = zeros as usize;
        bytes[start] = tag;
        bytes[start + 1] = length;
        self.write(&bytes[start..]);
    }

    fn text(&mut self, tag: u8, bytes: &[u8]) {
        if (1..=SHORT).contains(&bytes.len()) {
            // One write costs less than two, and most texts are short.
            let [length, ..] = bytes.len().to_le_bytes();
            let (mut text, end) = ([0; 3 + SHORT], 3 + bytes.len());
            text[..3].copy_from_slice(&[tag, 1, length]);
            text[3..end].copy_from_slice(bytes);
            return self.write(&text[..end]);
        }
        self.number(tag, bytes.len() as u128);
        self.write(bytes);
    }

    fn sequence(&mut self) {
        self.write(&[SEQUENCE]);
    }

    fn end(&mut self) {
        self.write(&[END]);
    }

    /// Writes the same bytes as [`number`](Self::number) for each of the numbers, in few writes.
    fn sequence_of_small(&mut self, tag: u8, numbers: &[u8]) {
        self.sequence();
        for some in numbers.chunks(32) {
            let (mut bytes, mut end) = ([0; 3 * 32], 0);
            if let Ok(some) = <&[u8; 32]>::try_from(some)
                && !some.contains(&0)
            {
                // Text is here: the compiler writes many numbers at once.
                let (triples, _) = bytes.as_chunks_mut::<3>();
                for (triple, &number) in triples.iter_mut().zip(some) {
                    *triple = [tag, 1, number];
                }
                self.write(&bytes);
                continue;
            }
            for &number in some {
                // The number 0 has no bytes.
                let length = u8::from(number != 0);
                bytes[end..end + 3].copy_from_slice(&[tag, length, number]);
                end += 2 + usize::from(length);
            }
            self.write(&bytes[..end]);
        }
        self.end();
    }

    fn map(&mut self) -> Entries {
        self.write(&[MAP]);
        self.open_maps += 1;
        Entries(Vec::new())
    }

    fn entry(&mut self, entries: &mut Entries) {
        entries.0.push(self.buffer.len());
    }

    fn end_map(&mut self, entries: &Entries) {
        let Entries(starts) = entries;
        if let Some(&first) = starts.first() {
            let ends = starts[1..].iter().copied().chain([self.buffer.len()]);
            let mut sorted: Vec<&[u8]> = (starts.iter().zip(ends))
                .map(|(&start, end)| &self.buffer[start..end])
                .collect();
            sorted.sort_unstable();
            let sorted = sorted.concat();
            self.buffer[first..].copy_from_slice(&sorted);
        }
        self.open_maps -= 1;
        if self.open_maps == 0 {
            let buffer = std::mem::take(&mut self.buffer);
            self.write(&buffer);
        }
        self.end();
    }
}

/// The longest text that is written at once.
const SHORT: usize = 61;

/// The offsets in the buffer at which the entries of a map start.
pub(super) struct Entries(Vec<usize>);
