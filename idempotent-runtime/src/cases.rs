//! Properties are tried on as many cases as the variable `IDEMPOTENCE_CASES` says: 10,000, or a million at night.
//!
//! The cases of a run are always the same. One that fails is named by its seed.

use arbtest::arbitrary::{Result, Unstructured};
use arbtest::arbtest;

/// Tries `property` on cases that are made of at most so many random bytes.
pub(crate) fn cases(bytes: u32, mut property: impl FnMut(&mut Unstructured<'_>) -> Result<()>) {
    for case in 1..=count() {
        // The lower half of a seed is how many bytes there are. The upper one must not be zero, so it counts from 1.
        let size = 16 + (case.wrapping_mul(0x9e37_79b9) >> 7) % bytes;
        let seed = u64::from(case) << 32 | u64::from(size);
        arbtest(|bytes| {
            // What there were too few bytes for is no case.
            let _ = property(bytes);
            Ok(())
        })
        .seed(seed)
        .run();
    }
}

fn count() -> u32 {
    let set = std::env::var("IDEMPOTENCE_CASES");
    set.map_or(10_000, |count| count.parse().expect("a number of cases"))
}
