//! Prints the tables of `mechanisms.md`: each mechanism compared with the same commands by hand, in turns; then the memory
//! of a million members. `-- Seen Bloom` measures only these.

use std::time::Duration;

use idempotence_benches::mechanisms::{Mechanism, Mechanisms, TASKS};
use idempotence_benches::one_core::OneCore;
use idempotence_benches::rounds::{Rounds, is_asked_for, machine, per_second, rounds, tasks_text};

fn main() {
    let on_redis = Mechanisms::start();
    println!("{}", machine("Redis"));
    println!("\n| | ours | by hand | of by hand |");
    println!("| --- | ---: | ---: | ---: |");
    for mechanism in Mechanism::ALL {
        for tasks in TASKS {
            let name = format!("{mechanism:?}, {}", tasks_text(tasks));
            if !is_asked_for(&name) {
                continue;
            }
            let _one_core = (tasks == 1).then(OneCore::pin);
            let laps = on_redis.laps(mechanism, tasks);
            let rounds = Rounds::run(&laps, rounds(), Duration::from_millis(200));
            rounds.print(&name, |seconds| per_second(tasks, seconds));
        }
    }
    if rounds() == 1 || !is_asked_for(BYTES) {
        return;
    }
    println!("\n| | {BYTES} |");
    println!("| --- | ---: |");
    for mechanism in Mechanism::ALL {
        println!(
            "| {mechanism:?} | {:.0} |",
            on_redis.bytes_per_member(mechanism)
        );
    }
}

const BYTES: &str = "bytes a member, of a million";
