//! The time from the first of a thousand equal calls to the last answer.

use std::time::Duration;

use criterion::{Criterion, SamplingMode, criterion_group, criterion_main};
use idempotence_benches::on_redis::OnRedis;
use idempotence_benches::storm::Answer;
use idempotence_benches::{Lap, in_memory};

fn storm(criterion: &mut Criterion) {
    let on_redis = OnRedis::start();
    let runtimes = in_memory::runtimes();
    for (answer, answer_name) in [(Answer::Result, "shared"), (Answer::No, "refused")] {
        let mut compare = |store: &str, laps: Vec<Lap<'_>>| {
            let mut group = criterion.benchmark_group(format!("storm/{answer_name}/{store}"));
            group
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
        compare("redis", on_redis.storms(answer));
        for (threads, runtime) in &runtimes {
            let store = format!("memory/{threads}");
            compare(&store, in_memory::storms(runtime, answer));
        }
    }
}

criterion_group!(benches, storm);
criterion_main!(benches);
