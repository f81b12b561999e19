//! Which file of a crate knows which other file, as the paths in its source say.
//!
//! A file knows another if a path in it leads to something that the other file defines. A path is one in a `use`, in
//! an expression, in a type or among the tokens of a macro; it begins with `crate`, `self`, `super`, or with a name
//! that a `use` or a `mod` brought into scope. A path through a re-export leads to the file that defines the thing,
//! and the re-export is itself a path of the file that has it. `mod a;` alone is no path, and neither is
//! `pub(in crate::a)`: no file knows another by them. Code under `cfg(test)` does not count.
//!
//! A method call names no path. A type whose methods are spread over files can hide a circle from this crate.

#![allow(unreachable_pub, reason = "`pub` in a private module says enough")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display};
use std::fs;
use std::path::Path;

use source::{File, Source};

mod resolve;
mod source;

/// The files of one crate, and which of them know which.
#[derive(Debug)]
pub struct Layers {
    files: Vec<File>,
    /// From file to file, with a path that leads there.
    arrows: BTreeMap<(usize, usize), String>,
}

/// Files of which each knows each other one, if only through others.
#[derive(Debug)]
pub struct Circle {
    /// Relative to the folder of the sources, in the order of their names.
    pub files: Vec<String>,
    arrows: Vec<String>,
}

impl Layers {
    /// Reads the crate whose `lib.rs` is in `folder`.
    ///
    /// # Errors
    ///
    /// Names the file that is missing or is not Rust.
    pub fn read(folder: &Path) -> Result<Self, String> {
        Self::of(|file| fs::read_to_string(folder.join(file)).ok())
    }

    /// Reads a crate from wherever `text` finds the text of a file, beginning with `lib.rs`.
    ///
    /// # Errors
    ///
    /// Names the file that is missing or is not Rust.
    pub fn of(text: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let source = Source::read(text)?;
        let mut arrows = BTreeMap::new();
        for module in &source.modules {
            for path in &module.paths {
                for file in resolve::files(&source, module, path) {
                    if file != module.file {
                        let written = || path.join("::");
                        arrows.entry((module.file, file)).or_insert_with(written);
                    }
                }
            }
        }
        let files = source.files;
        Ok(Self { files, arrows })
    }

    /// The modules that have a file of their own, such as `store/redis`; those of tests do not count.
    pub fn modules(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|file| module(&file.name))
    }

    /// The circles: none, if the files can be put in an order in which each knows only those before it.
    pub fn circles(&self) -> Vec<Circle> {
        let reached: Vec<_> = (0..self.files.len()).map(|file| self.reach(file)).collect();
        let mut circles = BTreeSet::new();
        for (file, known) in reached.iter().enumerate() {
            if known.contains(&file) {
                let back = |other: &usize| reached[*other].contains(&file);
                let circle: BTreeSet<usize> = known.iter().copied().filter(back).collect();
                circles.insert(circle);
            }
        }
        circles.iter().map(|files| self.circle(files)).collect()
    }

    /// The arrows that lead to a room further up than where they begin, and the files that are in no room.
    ///
    /// `rooms` are named from the bottom up. A room is a module and all modules under it that are not rooms themselves:
    /// `redis/doctor` is `redis/doctor.rs` and `redis/doctor/servers.rs`; `lib` is `lib.rs`.
    pub fn climbs(&self, rooms: &[&str]) -> Vec<String> {
        let floors: Vec<_> = self
            .files
            .iter()
            .map(|file| floor(&file.name, rooms))
            .collect();
        let homeless = self.files.iter().zip(&floors);
        let homeless = homeless.filter(|(_, floor)| floor.is_none());
        let homeless = homeless.map(|(file, _)| format!("{} is in no room", file.name));
        let climbing = self.arrows.keys().filter_map(|arrow| {
            let (from, to) = (floors[arrow.0]?, floors[arrow.1]?);
            let (room, above) = (rooms[from], rooms[to]);
            let said = || {
                format!(
                    "room `{room}` may not know `{above}`: {}",
                    self.arrow(arrow)
                )
            };
            (from < to).then(said)
        });
        homeless.chain(climbing).collect()
    }

    /// The files with more lines than `of_file`, and the functions with more than `of_function`. Tests in a file
    /// count as lines of it, and not as functions.
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

    /// The files that `file` knows, if only through others.
    fn reach(&self, file: usize) -> BTreeSet<usize> {
        let mut reached = BTreeSet::new();
        let mut open = vec![file];
        while let Some(from) = open.pop() {
            for &(_, to) in self
                .arrows
                .range((from, 0)..(from + 1, 0))
                .map(|arrow| arrow.0)
            {
                if reached.insert(to) {
                    open.push(to);
                }
            }
        }
        reached
    }

    fn circle(&self, files: &BTreeSet<usize>) -> Circle {
        let inside = |(from, to): &&(usize, usize)| files.contains(from) && files.contains(to);
        let arrows = self.arrows.keys().filter(inside);
        let arrows = arrows.map(|arrow| self.arrow(arrow)).collect();
        let mut files: Vec<_> = files
            .iter()
            .map(|file| self.files[*file].name.clone())
            .collect();
        files.sort();
        Circle { files, arrows }
    }

    fn arrow(&self, arrow: &(usize, usize)) -> String {
        let (from, to) = (&self.files[arrow.0].name, &self.files[arrow.1].name);
        format!("{from} knows {to}: {}", self.arrows[arrow])
    }
}

impl Display for Circle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "a circle of {}", self.files.join(", "))?;
        self.arrows
            .iter()
            .try_for_each(|arrow| writeln!(f, "  {arrow}"))
    }
}

/// Whether `module` is `room`, or a module under it.
pub fn is_within(module: &str, room: &str) -> bool {
    let rest = module.strip_prefix(room);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The module that `file` is.
fn module(file: &str) -> &str {
    file.strip_suffix(".rs").unwrap_or(file)
}

/// Where among `rooms` the one of `file` is: the room with the longest name, if several fit.
fn floor(file: &str, rooms: &[&str]) -> Option<usize> {
    let module = module(file);
    let fitting = rooms.iter().enumerate();
    let fitting = fitting.filter(|(_, room)| is_within(module, room));
    fitting
        .max_by_key(|(_, room)| room.len())
        .map(|(floor, _)| floor)
}
