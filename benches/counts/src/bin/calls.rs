//! Makes the calls of the case that the argument names, for Valgrind.

use std::hint::black_box;

use idempotence_counts::cases;

/// Begins or ends a count: see `--dump-before` in `benches/counts/valgrind.rs`.
#[inline(never)]
fn counts_border() {
    black_box(());
}

fn main() {
    let name = std::env::args().nth(1).expect("the name of a case");
    let case = cases().find(|case| case.slug() == name);
    let case = case.expect("a case with this name");
    let started = case.start();
    started.lap(0, case.calls, || {});
    counts_border();
    started.lap(1, case.calls, || {});
    counts_border();
}
