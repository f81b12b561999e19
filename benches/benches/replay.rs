//! Throughput of duplicates that get a result of 1 KiB or 64 KiB from the store.

use std::time::Duration;

use criterion::{Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use idempotence_benches::on_redis::OnRedis;
use idempotence_benches::replay::{SIZES, TASKS};
use idempotence_benches::{Lap, in_memory};

fn replay(criterion: &mut Criterion) {
    let on_redis = OnRedis::start();
    let runtimes = in_memory::runtimes();
    for (size, size_name) in SIZES {
        for tasks in TASKS {
            let mut compare = |store: &str, laps: Vec<Lap<'_>>| {
                let name = format!("replay/{store}/{size_name}/tasks={tasks}");
                let mut group = criterion.benchmark_group(name);
                group
                    .throughput(Throughput::Elements(tasks.into()))
                    .sampling_mode(SamplingMode::Flat)
                    .sample_size(20)
                    .warm_up_time(Duration::from_millis(500))
                    .measurement_time(Duration::from_secs(2));
                for (name, lap) in laps {
                    group.bench_function(name, |bencher| {
                        bencher.iter_custom(|calls| lap(calls).total)
                    });
                }
                group.finish();
            };
            compare("redis", on_redis.replays(tasks, size));
            for (threads, runtime) in &runtimes {
                let store = format!("memory/{threads}");
                compare(&store, in_memory::replays(runtime, tasks, size));
            }
        }
    }
}

criterion_group!(benches, replay);
criterion_main!(benches);
