//! From a path to the file that defines what the path names.

use std::collections::BTreeSet;

use crate::source::{Module, Source};

/// The files that define what `path` names, written in `module`: none for another crate's, or for a module; several
/// only if a `cfg` chooses among imports.
pub fn files(source: &Source, module: &Module, path: &[String]) -> BTreeSet<usize> {
    let mut search = Search {
        source,
        followed: BTreeSet::new(),
        found: BTreeSet::new(),
    };
    search.written(module, path);
    search.found
}

struct Search<'a> {
    source: &'a Source,
    /// The imports that were followed, by module and path, as `use quote::quote` may lead back to itself.
    followed: BTreeSet<(&'a [String], &'a [String])>,
    found: BTreeSet<usize>,
}

impl<'a> Search<'a> {
    /// Follows a path from the module in which it is written.
    fn written(&mut self, module: &'a Module, path: &[String]) {
        match path {
            [word, rest @ ..] if word == "crate" => self.within(&self.source.modules[0], rest),
            [word, rest @ ..] if word == "self" => self.within(module, rest),
            [word, ..] if word == "super" => self.within(module, path),
            // What the module neither has nor imports is another crate's, or local to a function.
            _ => {
                self.named(module, path);
            }
        }
    }

    /// Follows what is left of a path that has led to `module`.
    fn within(&mut self, module: &'a Module, path: &[String]) {
        match path {
            [word, rest @ ..] if word == "super" => {
                self.within(&self.source.modules[module.parent], rest);
            }
            // A star names all that is there; a name that is not found is made by a macro.
            [word, ..] if word == "*" || !self.named(module, path) => {
                self.found.insert(module.file);
            }
            // The name was followed, or the path ends with the module.
            _ => {}
        }
    }

    /// Whether `module` has the first name of `path`; if so, follows the rest.
    fn named(&mut self, module: &'a Module, path: &[String]) -> bool {
        let Some((name, rest)) = path.split_first() else {
            return false;
        };
        if let Some(child) = module.children.get(name) {
            self.within(&self.source.modules[*child], rest);
            return true;
        }
        if module.items.contains(name) {
            self.found.insert(module.file);
            return true;
        }
        let mut is_imported = false;
        for import in module.imports.iter().filter(|import| import.name == *name) {
            is_imported = true;
            if self.followed.insert((&module.path, &import.path)) {
                self.written(module, &[&import.path, rest].concat());
            }
        }
        is_imported || self.brought_by_stars(module, path)
    }

    /// Whether a `use a::*` of `module` brings the first name of `path`; if so, follows it.
    fn brought_by_stars(&mut self, module: &'a Module, path: &[String]) -> bool {
        module.imports.iter().any(|import| {
            let Some((_, starred)) = import.path.split_last().filter(|(last, _)| *last == "*")
            else {
                return false;
            };
            self.followed.insert((&module.path, &import.path))
                && self
                    .module(module, starred)
                    .is_some_and(|all| self.named(all, path))
        })
    }

    /// The module that `path` names.
    fn module(&self, from: &'a Module, path: &[String]) -> Option<&'a Module> {
        let modules = &self.source.modules;
        path.iter()
            .try_fold(from, |module, word| match word.as_str() {
                "crate" => Some(&modules[0]),
                "self" => Some(module),
                "super" => Some(&modules[module.parent]),
                name => Some(&modules[*module.children.get(name)?]),
            })
    }
}
