//! Throughput on one Redis, at 1 to 512 tasks.

use std::time::Duration;

use criterion::{Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use idempotence_benches::on_redis::{OnRedis, TASKS};

fn redis(criterion: &mut Criterion) {
    let on_redis = OnRedis::start();
    for tasks in TASKS {
        let mut group = criterion.benchmark_group(format!("redis/tasks={tasks}"));
        group
            .throughput(Throughput::Elements(tasks.into()))
            .sampling_mode(SamplingMode::Flat)
            .sample_size(20)
            .warm_up_time(Duration::from_millis(500))
            .measurement_time(Duration::from_secs(3));
        for (name, lap) in on_redis.laps(tasks) {
            group.bench_function(name, |bencher| {
                bencher.iter_custom(|calls| lap(calls).total)
            });
        }
        group.finish();
    }
}

criterion_group!(benches, redis);
criterion_main!(benches);
