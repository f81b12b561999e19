//! Tries properties on random cases. The variable `IDEMPOTENCE_CASES` sets their number: by default 10,000, at night a million.
//!
//! Every run has the same cases. A failure names the seed of its case.
//!
//! This is a package of its own, because the unit tests of a crate must not load a package that depends on the crate.

use arbtest::arbitrary::{Result, Unstructured};
use arbtest::arbtest;

/// Tries `property` on cases. Each case is made from 16 to `bytes + 15` random bytes.
///
/// # Panics
///
/// If the property panics, or `IDEMPOTENCE_CASES` is not a number.
pub fn cases(bytes: u32, mut property: impl FnMut(&mut Unstructured<'_>) -> Result<()>) {
    for case in 1..=count() {
        // The lower half of a seed is the number of bytes. The upper half must not be zero, so cases are counted from 1.
        let size = 16 + (case.wrapping_mul(0x9e37_79b9) >> 7) % bytes;
        let seed = u64::from(case) << 32 | u64::from(size);
        arbtest(|bytes| {
            // An error means that the bytes are too few for a case: skip it.
            let _ = property(bytes);
            Ok(())
        })
        .seed(seed)
        .run();
    }
}

fn count() -> u32 {
    let set = std::env::var("IDEMPOTENCE_CASES");
    set.map_or(10_000, |count| {
        count.parse().expect("`IDEMPOTENCE_CASES` is a number")
    })
}
