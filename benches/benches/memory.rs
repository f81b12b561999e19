//! The time of one call on a store in memory.

use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use idempotence_benches::in_memory;

fn memory(criterion: &mut Criterion) {
    for (threads, runtime) in in_memory::runtimes() {
        let mut group = criterion.benchmark_group(format!("memory/{threads}"));
        group
            .warm_up_time(Duration::from_secs(1))
            .measurement_time(Duration::from_secs(3));
        for (name, lap) in in_memory::laps(&runtime) {
            group.bench_function(name, |bencher| {
                bencher.iter_custom(|calls| lap(calls).total)
            });
        }
        group.finish();
    }
}

criterion_group!(benches, memory);
criterion_main!(benches);
