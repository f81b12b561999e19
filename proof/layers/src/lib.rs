//! Reads from the paths in the sources of a crate which file uses which other file.
//!
//! A file uses another file if a path in it leads to an item that the other file defines. Paths are read in `use`s,
//! expressions, types and the tokens of macros. A path begins with `crate`, `self`, `super`, or a name that a `use` or
//! a `mod` brought into scope. A path through a re-export leads to the file that defines the item. The re-export is
//! itself a path of the file that contains it. `mod a;` and `pub(in crate::a)` are not paths. Code under `cfg(test)`
//! does not count.
//!
//! A method call contains no path. If the methods of a type are spread over files, this crate may miss a cycle.

#![allow(unreachable_pub, reason = "`pub` in a private module says enough")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display};
use std::fs;
use std::path::Path;

use source::{File, Source};

mod resolve;
mod source;

/// The files of one crate and their dependencies.
#[derive(Debug)]
pub struct Layers {
    files: Vec<File>,
    /// From file to file, with one path that leads there.
    edges: BTreeMap<(usize, usize), String>,
}

/// Files that all depend on each other, directly or through other files.
#[derive(Debug)]
pub struct Cycle {
    /// Relative to the folder of the sources, sorted by name.
    pub files: Vec<String>,
    edges: Vec<String>,
}

impl Layers {
    /// Reads the crate whose `lib.rs`, or `main.rs` of a program, is in `folder`.
    ///
    /// # Errors
    ///
    /// Names the file that is missing or is not valid Rust.
    pub fn read(folder: &Path) -> Result<Self, String> {
        let read = |file: &str| fs::read_to_string(folder.join(file)).ok();
        Self::of(|file| match file {
            "lib.rs" => read(file).or_else(|| read("main.rs")),
            file => read(file),
        })
    }

    /// Reads a crate whose files `text` returns, beginning with `lib.rs`.
    ///
    /// # Errors
    ///
    /// Names the file that is missing or is not valid Rust.
    pub fn of(text: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let source = Source::read(text)?;
        let mut edges = BTreeMap::new();
        for module in &source.modules {
            for path in &module.paths {
                for file in resolve::files(&source, module, path) {
                    if file != module.file {
                        let written = || path.join("::");
                        edges.entry((module.file, file)).or_insert_with(written);
                    }
                }
            }
        }
        let files = source.files;
        Ok(Self { files, edges })
    }

    /// The dependency cycles. There are none if the files can be ordered so that each uses only files before it.
    pub fn cycles(&self) -> Vec<Cycle> {
        let reached: Vec<_> = (0..self.files.len()).map(|file| self.reach(file)).collect();
        let mut cycles = BTreeSet::new();
        for (file, known) in reached.iter().enumerate() {
            if known.contains(&file) {
                let back = |other: &usize| reached[*other].contains(&file);
                let cycle: BTreeSet<usize> = known.iter().copied().filter(back).collect();
                cycles.insert(cycle);
            }
        }
        cycles.iter().map(|files| self.cycle(files)).collect()
    }

    /// Reports the files that use a higher room than their own, and the files that are in no room.
    ///
    /// `rooms` are listed from the bottom up. A room is a module and all modules under it that are not rooms themselves:
    /// `redis/doctor` contains `redis/doctor.rs` and `redis/doctor/servers.rs`; `lib` is `lib.rs`.
    pub fn violations(&self, rooms: &[&str]) -> Vec<String> {
        let levels: Vec<_> = self
            .files
            .iter()
            .map(|file| level(&file.name, rooms))
            .collect();
        let unlisted = self.files.iter().zip(&levels);
        let unlisted = unlisted.filter(|(_, level)| level.is_none());
        let unlisted = unlisted.map(|(file, _)| format!("{} is in no room", file.name));
        let upward = self.edges.keys().filter_map(|edge| {
            let (from, to) = (levels[edge.0]?, levels[edge.1]?);
            let (room, above) = (rooms[from], rooms[to]);
            let message = || {
                let edge = self.describe(edge);
                format!("room `{room}` must not use `{above}`, which is above it: {edge}")
            };
            (from < to).then(message)
        });
        unlisted.chain(upward).collect()
    }

    /// The files with more than `of_file` lines, and the functions with more than `of_function` lines. Tests count as
    /// lines of their file, but not as functions.
    pub fn longer_than(&self, of_file: usize, of_function: usize) -> Vec<String> {
        let mut longer = Vec::new();
        for file in &self.files {
            let name = &file.name;
            if file.lines > of_file {
                longer.push(format!("{name} has {} lines", file.lines));
            }
            let functions = file.functions.iter();
            let functions = functions.filter(|(_, lines)| *lines > of_function);
            longer.extend(
                functions.map(|(function, lines)| format!("{name}: {function} has {lines} lines")),
            );
        }
        longer
    }

    /// The files that `file` uses, directly or through other files.
    fn reach(&self, file: usize) -> BTreeSet<usize> {
        let mut reached = BTreeSet::new();
        let mut open = vec![file];
        while let Some(from) = open.pop() {
            for &(_, to) in self
                .edges
                .range((from, 0)..(from + 1, 0))
                .map(|edge| edge.0)
            {
                if reached.insert(to) {
                    open.push(to);
                }
            }
        }
        reached
    }

    fn cycle(&self, files: &BTreeSet<usize>) -> Cycle {
        let inside = |(from, to): &&(usize, usize)| files.contains(from) && files.contains(to);
        let edges = self.edges.keys().filter(inside);
        let edges = edges.map(|edge| self.describe(edge)).collect();
        let mut files: Vec<_> = files
            .iter()
            .map(|file| self.files[*file].name.clone())
            .collect();
        files.sort();
        Cycle { files, edges }
    }

    fn describe(&self, edge: &(usize, usize)) -> String {
        let (from, to) = (&self.files[edge.0].name, &self.files[edge.1].name);
        format!("{from} uses {to}: {}", self.edges[edge])
    }
}

impl Display for Cycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "a cycle of {}", self.files.join(", "))?;
        self.edges
            .iter()
            .try_for_each(|edge| writeln!(f, "  {edge}"))
    }
}

/// Whether `module` is `room`, or a module under it.
fn is_within(module: &str, room: &str) -> bool {
    let rest = module.strip_prefix(room);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The name of the module in `file`.
fn module(file: &str) -> &str {
    file.strip_suffix(".rs").unwrap_or(file)
}

/// The index of the room that contains `file`. If several fit, the room with the longest name counts.
fn level(file: &str, rooms: &[&str]) -> Option<usize> {
    let module = module(file);
    let fitting = rooms.iter().enumerate();
    let fitting = fitting.filter(|(_, room)| is_within(module, room));
    fitting
        .max_by_key(|(_, room)| room.len())
        .map(|(level, _)| level)
}
