//! Prints the table of etcd in `README.md`: first calls by the attribute, and by hand with the same transactions in the same client.
//!
//! `-- 1` runs only the cluster with one member, `-- 3` the one with three.

use std::time::Duration;

use idempotence_benches::on_etcd::{OnEtcd, TASKS};
use idempotence_benches::one_core::OneCore;
use idempotence_benches::rounds::{Rounds, machine, per_second, rounds, tasks_text};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let members = args.iter().find_map(|arg| arg.parse().ok());
    for members in members.map_or_else(|| vec![1, 3], |members| vec![members]) {
        let on_etcd = OnEtcd::start(members);
        println!("{}", machine(&format!("etcd {}", on_etcd.version)));
        println!("\n| etcd, members: {members} | attribute | by hand | of by hand |");
        println!("| --- | ---: | ---: | ---: |");
        for tasks in TASKS {
            let _one_core = (tasks == 1).then(OneCore::pin);
            let laps = on_etcd.laps(tasks);
            let rounds = Rounds::run(&laps, rounds(), Duration::from_millis(200));
            rounds.print(&tasks_text(tasks), |seconds| per_second(tasks, seconds));
        }
        println!();
    }
}
