//! Resolves a path to the file that defines the item.

use std::collections::BTreeSet;

use crate::source::{Module, Source};

/// The files that define the item that `path` names in `module`. The set is empty for items of other crates and for
/// modules. It has several files only if a `cfg` chooses among imports.
pub fn files(source: &Source, module: &Module, path: &[String]) -> BTreeSet<usize> {
    let mut search = Search {
        source,
        followed: BTreeSet::new(),
        found: BTreeSet::new(),
    };
    search.resolve(module, path);
    search.found
}

struct Search<'a> {
    source: &'a Source,
    /// The imports that were followed, by module and path, because `use quote::quote` may lead back to itself.
    followed: BTreeSet<(&'a [String], &'a [String])>,
    found: BTreeSet<usize>,
}

impl<'a> Search<'a> {
    /// Resolves a path in the module that contains it.
    fn resolve(&mut self, module: &'a Module, path: &[String]) {
        match path {
            [word, rest @ ..] if word == "crate" => self.resolve_in(&self.source.modules[0], rest),
            [word, rest @ ..] if word == "self" => self.resolve_in(module, rest),
            [word, ..] if word == "super" => self.resolve_in(module, path),
            // Names that the module neither defines nor imports belong to another crate or to a function.
            _ => {
                self.resolve_name(module, path);
            }
        }
    }

    /// Resolves the rest of a path whose start has led to `module`.
    fn resolve_in(&mut self, module: &'a Module, path: &[String]) {
        match path {
            [word, rest @ ..] if word == "super" => {
                self.resolve_in(&self.source.modules[module.parent], rest);
            }
            // A star names every item of the module. A macro defines a name that is not found.
            [word, ..] if word == "*" || !self.resolve_name(module, path) => {
                self.found.insert(module.file);
            }
            // The name was resolved, or the path ends with the module.
            _ => {}
        }
    }

    /// Resolves a path whose first name `module` defines or imports. Returns whether it does.
    fn resolve_name(&mut self, module: &'a Module, path: &[String]) -> bool {
        let Some((name, rest)) = path.split_first() else {
            return false;
        };
        if let Some(child) = module.children.get(name) {
            self.resolve_in(&self.source.modules[*child], rest);
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
                self.resolve(module, &[&import.path, rest].concat());
            }
        }
        is_imported || self.resolve_by_stars(module, path)
    }

    /// Resolves a path whose first name a `use a::*` of `module` brings into scope. Returns whether there is one.
    fn resolve_by_stars(&mut self, module: &'a Module, path: &[String]) -> bool {
        module.imports.iter().any(|import| {
            let Some((_, starred)) = import.path.split_last().filter(|(last, _)| *last == "*")
            else {
                return false;
            };
            self.followed.insert((&module.path, &import.path))
                && self
                    .module(module, starred)
                    .is_some_and(|all| self.resolve_name(all, path))
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
