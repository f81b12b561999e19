//! The processor time of this process and of the servers that it started, on Linux.

use std::collections::HashMap;
use std::fs;
use std::ops::Sub;

/// Processor time, in ticks of 10 ms.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cpu {
    /// Of this process.
    pub client: f64,
    /// Of all processes below this process.
    pub servers: f64,
}

/// The microseconds of a tick.
pub const TICK: f64 = 10_000.0;

impl Cpu {
    /// The time until now. Zero where the system has no folder `/proc`.
    pub fn now() -> Self {
        let own = std::process::id();
        let mut parents = HashMap::new();
        let mut ticks = HashMap::new();
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Ok(process) = entry.file_name().to_string_lossy().parse::<u32>() else {
                continue;
            };
            // The process may have ended.
            let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            // The name of the program may contain spaces.
            let Some((_, fields)) = stat.rsplit_once(") ") else {
                continue;
            };
            let fields: Vec<&str> = fields.split(' ').collect();
            let number = |at: usize| fields.get(at).and_then(|field| field.parse::<u32>().ok());
            let (parent, user, system) = (number(1), number(11), number(12));
            parents.insert(process, parent.unwrap_or_default());
            ticks.insert(
                process,
                f64::from(user.unwrap_or_default()) + f64::from(system.unwrap_or_default()),
            );
        }
        let is_below = |process: &u32| {
            let mut above = parents.get(process);
            while let Some(parent) = above
                && *parent != own
            {
                above = parents.get(parent);
            }
            above.is_some()
        };
        let servers = ticks.iter().filter(|(process, _)| is_below(process));
        Self {
            client: ticks.get(&own).copied().unwrap_or_default(),
            servers: servers.map(|(_, ticks)| ticks).sum(),
        }
    }
}

impl Sub for Cpu {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            client: self.client - earlier.client,
            servers: self.servers - earlier.servers,
        }
    }
}
