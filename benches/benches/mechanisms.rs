//! Prints the tables of `mechanisms.md`: each mechanism compared with the same commands by hand, in turns; then the memory
//! of a million members. `-- Seen Bloom` measures only these.

use std::env;
use std::time::Duration;

use idempotence_benches::mechanisms::{Mechanism, Mechanisms, TASKS};
use idempotence_benches::one_core::OneCore;
use idempotence_benches::rounds::{Rounds, machine, per_second, rounds, tasks_text};

fn main() {
    let on_redis = Mechanisms::start();
    let chosen: Vec<_> = env::args()
        .skip(1)
        .filter(|arg| !arg.starts_with('-'))
        .collect();
    println!("{}", machine("Redis"));
    println!("\n| | ours | by hand | of by hand |");
    println!("| --- | ---: | ---: | ---: |");
    for mechanism in Mechanism::ALL {
        if !chosen.is_empty() && !chosen.contains(&format!("{mechanism:?}")) {
            continue;
        }
        for tasks in TASKS {
            let _one_core = (tasks == 1).then(OneCore::pin);
            let laps = on_redis.laps(mechanism, tasks);
            let rounds = Rounds::run(&laps, rounds(), Duration::from_millis(200));
            let name = format!("{mechanism:?}, {}", tasks_text(tasks));
            rounds.print(&name, |seconds| per_second(tasks, seconds));
        }
    }
    if rounds() == 1 || !chosen.is_empty() {
        return;
    }
    println!("\n| | bytes a member, of a million |");
    println!("| --- | ---: |");
    for mechanism in Mechanism::ALL {
        println!(
            "| {mechanism:?} | {:.0} |",
            on_redis.bytes_per_member(mechanism)
        );
    }
}
