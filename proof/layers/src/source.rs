//! The modules of a crate as its files declare them: their items, imports and paths.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Delimiter, Group, Spacing, TokenStream, TokenTree};

/// The modules of a crate, the root first, and its files.
pub struct Source {
    pub modules: Vec<Module>,
    pub files: Vec<File>,
}

/// A file, without its code under `cfg(test)`.
#[derive(Debug)]
pub struct File {
    /// Relative to the folder of the sources.
    pub name: String,
    /// The lines of the whole file, including tests.
    pub lines: usize,
    /// The functions with a body and their numbers of lines.
    pub functions: Vec<(String, usize)>,
}

/// A module in its own file, or in braces.
pub struct Module {
    /// From the root, including `crate`.
    pub path: Vec<String>,
    pub file: usize,
    /// The root is its own parent.
    pub parent: usize,
    pub children: BTreeMap<String, usize>,
    /// The items of the module, without items that a macro defines.
    pub items: BTreeSet<String>,
    pub imports: Vec<Import>,
    /// Every path in the module, including the paths of its imports.
    pub paths: Vec<Vec<String>>,
}

/// One name that a `use` brings into scope, also in a function.
pub struct Import {
    pub name: String,
    pub path: Vec<String>,
}

/// The keywords before the name of an item.
const ITEMS: [&str; 10] = [
    "const",
    "enum",
    "fn",
    "macro_rules",
    "mod",
    "static",
    "struct",
    "trait",
    "type",
    "union",
];

impl Source {
    pub fn read(text: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let mut source = Self {
            modules: Vec::new(),
            files: Vec::new(),
        };
        source.add(vec!["crate".to_owned()], 0, 0);
        let mut reader = Reader { source, text };
        reader.file(0, "lib.rs".to_owned())?;
        Ok(reader.source)
    }

    fn add(&mut self, path: Vec<String>, file: usize, parent: usize) -> usize {
        self.modules.push(Module {
            path,
            file,
            parent,
            children: BTreeMap::new(),
            items: BTreeSet::new(),
            imports: Vec::new(),
            paths: Vec::new(),
        });
        self.modules.len() - 1
    }
}

struct Reader<F> {
    source: Source,
    text: F,
}

impl<F: Fn(&str) -> Option<String>> Reader<F> {
    /// Reads the file of `module`.
    fn file(&mut self, module: usize, file: String) -> Result<(), String> {
        let text = (self.text)(&file).ok_or_else(|| format!("the file {file} is missing"))?;
        let tokens: TokenStream = text.parse().map_err(|error| format!("{file}: {error}"))?;
        self.source.modules[module].file = self.source.files.len();
        self.source.files.push(File {
            name: file,
            lines: text.lines().count(),
            functions: Vec::new(),
        });
        self.tokens(module, tokens, true)
    }

    /// Reads tokens of `module`: its items, or the content of braces.
    fn tokens(&mut self, module: usize, tokens: TokenStream, items: bool) -> Result<(), String> {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut rest = tokens.as_slice();
        while let Some((token, after)) = rest.split_first() {
            if let Some((attribute, after)) = attribute(rest) {
                rest = if is_test(attribute) {
                    after_item(after)
                } else {
                    after
                };
                if is_export(attribute) {
                    self.export(module, rest);
                }
                continue;
            }
            if let Some(function) = function(rest) {
                let file = self.source.modules[module].file;
                self.source.files[file].functions.push(function);
            }
            rest = match token {
                TokenTree::Group(group) => {
                    self.tokens(module, group.stream(), false)?;
                    after
                }
                TokenTree::Ident(word) if word == "use" && !is_punct(after.first(), '<') => {
                    self.import(module, after)
                }
                TokenTree::Ident(word) if items && word == "mod" => self.module(module, after)?,
                TokenTree::Ident(word) if items && ITEMS.iter().any(|item| word == item) => {
                    let names = &mut self.source.modules[module].items;
                    names.extend(name(after));
                    after
                }
                _ => {
                    let (path, after) = path(rest);
                    if path.len() > 1 {
                        self.source.modules[module].paths.push(path);
                    }
                    after
                }
            };
        }
        Ok(())
    }

    /// Reads the module whose name is at the start of `rest`.
    fn module<'a>(
        &mut self,
        parent: usize,
        rest: &'a [TokenTree],
    ) -> Result<&'a [TokenTree], String> {
        let [TokenTree::Ident(name), body, after @ ..] = rest else {
            return Ok(rest);
        };
        let name = name.to_string();
        let Module { path, file, .. } = &self.source.modules[parent];
        let (path, file) = (extended(path, &name), *file);
        let own_file = format!("{}.rs", path[1..].join("/"));
        let module = self.source.add(path, file, parent);
        self.source.modules[parent].children.insert(name, module);
        match body {
            TokenTree::Group(body) => self.tokens(module, body.stream(), true)?,
            _ => self.file(module, own_file)?,
        }
        Ok(after)
    }

    /// Reads the `use` whose tree is at the start of `rest`.
    fn import<'a>(&mut self, module: usize, rest: &'a [TokenTree]) -> &'a [TokenTree] {
        let end = rest.iter().position(|token| is_punct(Some(token), ';'));
        let (tree, after) = rest.split_at(end.unwrap_or(rest.len()));
        let mut imports = Vec::new();
        leaves(tree, Vec::new(), &mut imports);
        let module = &mut self.source.modules[module];
        module
            .paths
            .extend(imports.iter().map(|import| import.path.clone()));
        module.imports.extend(imports);
        after
    }

    /// Puts the name of a macro with `#[macro_export]` into the root.
    fn export(&mut self, module: usize, rest: &[TokenTree]) {
        let Some(name) = after_attributes(rest).get(1..).and_then(name) else {
            return;
        };
        let path = extended(&self.source.modules[module].path, &name);
        if module != 0 {
            self.source.modules[0].imports.push(Import { name, path });
        }
    }
}

/// The name and the length of the function at the start of `tokens`, if it has a body.
fn function(tokens: &[TokenTree]) -> Option<(String, usize)> {
    let [TokenTree::Ident(word), TokenTree::Ident(name), rest @ ..] = tokens else {
        return None;
    };
    let body = rest.iter().find(|token| match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        token => is_punct(Some(token), ';'),
    })?;
    let lines = body.span().end().line + 1 - word.span().start().line;
    let is_function = word == "fn" && matches!(body, TokenTree::Group(_));
    is_function.then(|| (name.to_string(), lines))
}

fn extended(path: &[String], name: &str) -> Vec<String> {
    [path, &[name.to_owned()]].concat()
}

/// The names that the tree of a `use` imports.
fn leaves(tree: &[TokenTree], mut path: Vec<String>, imports: &mut Vec<Import>) {
    if path.is_empty() && is_punct(tree.first(), ':') {
        return; // a path of another crate
    }
    let mut name = None;
    for (at, token) in tree.iter().enumerate() {
        match token {
            TokenTree::Group(group) => {
                let trees: Vec<TokenTree> = group.stream().into_iter().collect();
                let trees = trees.split(|token| is_punct(Some(token), ','));
                return trees.for_each(|tree| leaves(tree, path.clone(), imports));
            }
            TokenTree::Ident(word) if word == "as" => {
                name = self::name(&tree[at + 1..]);
                break;
            }
            TokenTree::Ident(word) if word == "self" && !path.is_empty() => {}
            TokenTree::Ident(word) => path.push(word.to_string()),
            TokenTree::Punct(star) if star.as_char() == '*' => path.push("*".to_owned()),
            _ => {}
        }
    }
    if !tree.is_empty()
        && let Some(name) = name.or_else(|| path.last().cloned())
    {
        imports.push(Import { name, path });
    }
}

/// The path at the start of `tokens`, and the tokens after it. The path has one word if there is no path, and no words
/// if the path belongs to another crate.
fn path(tokens: &[TokenTree]) -> (Vec<String>, &[TokenTree]) {
    let (mut path, mut rest) = (Vec::new(), tokens);
    let is_foreign = is_colons(rest);
    if is_foreign {
        rest = &rest[2..];
    }
    while let Some((TokenTree::Ident(word), after)) = rest.split_first() {
        path.push(word.to_string());
        rest = after;
        match after.get(2) {
            Some(TokenTree::Ident(_)) if is_colons(after) => rest = &after[2..],
            _ => break,
        }
    }
    if is_foreign {
        path.clear();
    }
    if rest.len() == tokens.len() {
        rest = tokens.get(1..).unwrap_or_default();
    }
    (path, rest)
}

/// The attribute at the start of `tokens`, and the tokens after it.
fn attribute(tokens: &[TokenTree]) -> Option<(&Group, &[TokenTree])> {
    match tokens {
        [TokenTree::Punct(hash), TokenTree::Group(group), rest @ ..] if hash.as_char() == '#' => {
            Some((group, rest))
        }
        [
            TokenTree::Punct(hash),
            bang,
            TokenTree::Group(group),
            rest @ ..,
        ] if hash.as_char() == '#' && is_punct(Some(bang), '!') => Some((group, rest)),
        _ => None,
    }
}

fn after_attributes(mut tokens: &[TokenTree]) -> &[TokenTree] {
    while let Some((_, after)) = attribute(tokens) {
        tokens = after;
    }
    tokens
}

/// Whether an attribute is a `cfg` that only tests fulfil.
fn is_test(attribute: &Group) -> bool {
    let tokens: Vec<TokenTree> = attribute.stream().into_iter().collect();
    match tokens.as_slice() {
        [TokenTree::Ident(cfg), TokenTree::Group(on)] if cfg == "cfg" => requires_test(on),
        _ => false,
    }
}

fn is_export(attribute: &Group) -> bool {
    let first = attribute.stream().into_iter().next();
    matches!(first, Some(TokenTree::Ident(word)) if word == "macro_export")
}

fn requires_test(conditions: &Group) -> bool {
    let tokens: Vec<TokenTree> = conditions.stream().into_iter().collect();
    conditions_in(&tokens).any(is_only_in_tests)
}

/// Whether code with this condition is compiled for tests only. The feature `shuttle` exists in a package of tests.
fn is_only_in_tests(condition: &[TokenTree]) -> bool {
    match condition {
        [TokenTree::Ident(test)] => test == "test",
        [TokenTree::Ident(_), _, TokenTree::Literal(name)] => name.to_string() == "\"shuttle\"",
        [TokenTree::Ident(all), TokenTree::Group(of)] if all == "all" => requires_test(of),
        [TokenTree::Ident(any), TokenTree::Group(of)] if any == "any" => {
            let tokens: Vec<TokenTree> = of.stream().into_iter().collect();
            conditions_in(&tokens).all(is_only_in_tests)
        }
        _ => false,
    }
}

fn conditions_in(tokens: &[TokenTree]) -> impl Iterator<Item = &[TokenTree]> {
    let conditions = tokens.split(|token| is_punct(Some(token), ','));
    conditions.filter(|condition| !condition.is_empty())
}

/// The tokens after the item, statement, field or arm at the start of `tokens`.
fn after_item(tokens: &[TokenTree]) -> &[TokenTree] {
    let mut rest = after_attributes(tokens);
    if let [TokenTree::Ident(word), after @ ..] = rest
        && word == "pub"
    {
        let is_restricted = matches!(after.first(), Some(TokenTree::Group(_)));
        rest = &after[usize::from(is_restricted)..];
    }
    let begins_with = |words: &[&str]| matches!(rest.first(), Some(TokenTree::Ident(word)) if words.iter().any(|it| word == it));
    let is_statement = begins_with(&["let", "type", "use"]);
    let is_item = begins_with(&ITEMS) || begins_with(&["async", "extern", "impl", "unsafe"]);
    let end = rest.iter().position(|token| match token {
        TokenTree::Group(group) => !is_statement && group.delimiter() == Delimiter::Brace,
        TokenTree::Punct(punct) => match punct.as_char() {
            ';' => true,
            ',' => !is_statement && !is_item,
            _ => false,
        },
        _ => false,
    });
    end.map_or(&[], |end| &rest[end + 1..])
}

/// The name after the keyword of an item: `macro_rules` has a `!` between them.
fn name(tokens: &[TokenTree]) -> Option<String> {
    match tokens {
        [TokenTree::Ident(name), ..] | [TokenTree::Punct(_), TokenTree::Ident(name), ..] => {
            Some(name.to_string())
        }
        _ => None,
    }
}

fn is_punct(token: Option<&TokenTree>, punct: char) -> bool {
    matches!(token, Some(TokenTree::Punct(token)) if token.as_char() == punct)
}

/// Whether `tokens` begin with `::`.
fn is_colons(tokens: &[TokenTree]) -> bool {
    matches!(tokens, [TokenTree::Punct(first), TokenTree::Punct(second), ..]
        if first.as_char() == ':' && first.spacing() == Spacing::Joint && second.as_char() == ':')
}
