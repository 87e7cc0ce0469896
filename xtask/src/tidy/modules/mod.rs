mod circles;
mod layers;
mod source;
mod tokens;

use std::collections::{BTreeMap, BTreeSet};

use toml::Table;

use self::circles::{Graph, circles};
use self::layers::Layers;
use self::source::{Method, ModulePath, Source};
use super::Repository;

/// The table of layers: the top modules of each crate from top to bottom.
pub(super) const TABLE: &str = "xtask/modules.toml";
/// The crates with such a table.
const CRATES: &[&str] = &[
    "amqp10",
    "bench",
    "broker",
    "config",
    "ctl",
    "log",
    "management",
    "message",
    "model",
    "node",
    "queue",
    "session",
    "session-amqp091",
    "session-amqp10",
    "session-mqtt",
    "session-stream",
    "sim",
    "strict-client",
];

/// The folder of a crate's modules.
fn root(name: &str) -> String {
    match name {
        "sim" => "sim/src".to_owned(),
        name => format!("crates/{name}/src"),
    }
}

/// Checks that top modules use each other in the directions of the table, and that it names all remaining circles.
pub(super) fn check(repository: &Repository) -> Vec<String> {
    let Some(table) = repository.text(TABLE) else { return vec![format!("{TABLE} is missing")] };
    let table: Table = match table.parse() {
        Ok(table) => table,
        Err(error) => return vec![format!("{TABLE} is not TOML: {error}")],
    };
    let crates = CRATES.iter().flat_map(|name| match Layers::read(&table, name) {
        Ok(layers) => complain(name, &layers, &Modules::read(repository, name)),
        Err(reason) => vec![format!("{TABLE} {reason}")],
    });
    let unknown = table.keys().filter(|name| !CRATES.contains(&name.as_str()));
    crates.chain(unknown.map(|name| format!("{TABLE} has a table [{name}], whose modules aren't looked at"))).collect()
}

/// The circles of each crate, one line each, with the lines of their members.
#[must_use]
pub fn describe(repository: &Repository) -> Vec<String> {
    let mut lines = Vec::new();
    for name in CRATES {
        let modules = Modules::read(repository, name);
        let all: usize = modules.lines.values().sum();
        lines.push(format!("{name}: {} modules, {all} lines", modules.lines.len()));
        for circle in circles(&modules.uses) {
            let members = circle.iter().map(|member| format!("{member} {}", modules.lines[member]));
            let members: Vec<String> = members.collect();
            lines.push(format!(
                "  circle of {} modules, {} lines: {}",
                circle.len(),
                modules.lines_of(&circle),
                members.join(", ")
            ));
            for (from, to) in modules.between(&circle) {
                lines.push(format!("    {from} -> {to}: {}", modules.examples(from, to)));
            }
        }
    }
    lines
}

fn complain(name: &str, layers: &Layers, modules: &Modules) -> Vec<String> {
    let (root, mut complaints) = (root(name), Vec::new());
    for module in layers.twice() {
        complaints.push(format!("{TABLE}: [{name}] lists {module} twice"));
    }
    for module in layers.layers.iter().flat_map(|layer| &layer.modules) {
        if !modules.lines.contains_key(module) {
            complaints.push(format!("{TABLE}: [{name}] lists {module}, which doesn't exist"));
        }
    }
    for module in modules.lines.keys().filter(|module| layers.level(module).is_none()) {
        complaints.push(format!("{TABLE}: [{name}] doesn't list {module}"));
    }
    for (from, to) in &modules.globs {
        complaints.push(format!("{root}: {from} imports all of {to}, which hides what it uses"));
    }
    let found = circles(&modules.uses);
    for layer in layers.layers.iter().filter(|layer| layer.because.is_some()) {
        if !found.contains(&layer.modules) {
            complaints.push(format!("{TABLE}: [{name}] names a circle that isn't one: {}", list(&layer.modules)));
        }
    }
    for circle in found {
        let is_named = layers.layers.iter().any(|layer| layer.because.is_some() && layer.modules == circle);
        let lines = modules.lines_of(&circle);
        if !is_named {
            complaints.push(format!("{root}: a circle that {TABLE} doesn't name: {}", list(&circle)));
        } else if lines > layers.lines_max {
            let limit = layers.lines_max;
            complaints.push(format!("{root}: a circle of {lines} lines, over {limit}: {}", list(&circle)));
        }
    }
    for (from, to) in modules.edges() {
        let (Some(above), Some(below)) = (layers.level(from), layers.level(to)) else { continue };
        if above > below || above == below && layers.layers[above].because.is_none() {
            let examples = modules.examples(from, to);
            complaints.push(format!("{root}: {from} may not use {to}, which isn't below it: {examples}"));
        }
    }
    complaints
}

/// The module that defines the type which a module names so: itself, one that it imports the name from, or the only one there is.
fn home<'a>(
    homes: &BTreeMap<&str, BTreeSet<&'a String>>,
    top: &str,
    source: &Source,
    name: &str,
) -> Option<&'a String> {
    let homes = homes.get(name)?;
    let is_imported_from = |home: &str| {
        source
            .used
            .iter()
            .any(|path| path.first().is_some_and(|first| first == home) && path.last().is_some_and(|last| last == name))
    };
    let own = homes.iter().find(|home| home.as_str() == top);
    let found = own.or_else(|| homes.iter().find(|home| is_imported_from(home))).or(homes.first());
    found.copied()
}

fn list(modules: &BTreeSet<String>) -> String {
    modules.iter().map(String::as_str).collect::<Vec<_>>().join(" ")
}

/// The top modules of a crate.
#[derive(Debug, Default)]
struct Modules {
    /// Lines of each module without tests.
    lines: BTreeMap<String, usize>,
    /// The modules used by each.
    uses: Graph,
    /// Names by which the first module of a pair uses the second.
    names: BTreeMap<(String, String), BTreeSet<String>>,
    /// Glob imports of the crate's root.
    globs: BTreeSet<(String, String)>,
}

impl Modules {
    fn read(repository: &Repository, name: &str) -> Self {
        let root = format!("{}/", root(name));
        let files: Vec<(ModulePath, Source)> = repository
            .texts(".rs")
            .filter_map(|(path, text)| {
                let module = module_path(path.strip_prefix(&root)?)?;
                let source = Source::read(&module, text);
                Some((module, source))
            })
            .collect();
        let tests: Vec<&ModulePath> = files.iter().flat_map(|(_, source)| &source.tests).collect();
        let is_shipped = |module: &ModulePath| !tests.iter().any(|test| module.starts_with(test));
        let mut modules = Self::default();
        for (module, source) in files.iter().filter(|(module, _)| is_shipped(module)) {
            if let Some(top) = module.first() {
                *modules.lines.entry(top.clone()).or_default() += source.lines;
                modules.uses.entry(top.clone()).or_default();
            }
        }
        let exports = modules.exports(files.iter().filter(|(module, _)| module.is_empty()).map(|(_, source)| source));
        for (module, source) in files.iter().filter(|(module, _)| is_shipped(module)) {
            if let Some(top) = module.first() {
                source.used.iter().for_each(|path| modules.add(top, path, &exports));
            }
        }
        modules.add_calls(files.iter().filter(|(module, _)| is_shipped(module)));
        modules
    }

    /// Notes that modules call methods of their types that are defined in others.
    fn add_calls<'a>(&mut self, files: impl Iterator<Item = &'a (ModulePath, Source)> + Clone) {
        let files = files.filter_map(|(module, source)| Some((module.first()?, source)));
        let mut homes: BTreeMap<&str, BTreeSet<&String>> = BTreeMap::new();
        for (top, source) in files.clone() {
            source.types.iter().for_each(|name| _ = homes.entry(name).or_default().insert(top));
        }
        let mut defined: BTreeMap<(Option<&String>, &Method), BTreeSet<&String>> = BTreeMap::new();
        for (top, source) in files.clone() {
            for method in &source.methods {
                defined.entry((home(&homes, top, source, &method.0), method)).or_default().insert(top);
            }
        }
        for (from, source) in files {
            for method in &source.calls {
                let key = (home(&homes, from, source, &method.0), method);
                for to in defined.get(&key).into_iter().flatten().filter(|to| **to != from) {
                    self.uses.entry(from.clone()).or_default().insert((*to).clone());
                    let names = self.names.entry((from.clone(), (*to).clone())).or_default();
                    names.insert(format!(".{}", method.1));
                }
            }
        }
    }

    /// The module that defines each name re-exported by the root.
    fn exports<'a>(&self, roots: impl Iterator<Item = &'a Source>) -> BTreeMap<String, String> {
        let mut exports = BTreeMap::new();
        for (name, path) in roots.flat_map(|root| &root.imported) {
            let module = path.iter().find(|segment| !matches!(segment.as_str(), "crate" | "self"));
            if let Some(module) = module.filter(|module| self.lines.contains_key(*module)) {
                exports.insert(name.clone(), module.clone());
            }
        }
        exports
    }

    /// Notes that a module names a path. Names defined by the root itself, such as type aliases, are ignored.
    fn add(&mut self, from: &str, path: &[String], exports: &BTreeMap<String, String>) {
        let Some(first) = path.first() else { return };
        if first == "*" {
            self.globs.insert((from.to_owned(), "the crate".to_owned()));
        }
        let to = if self.lines.contains_key(first) { Some(first) } else { exports.get(first) };
        let Some(to) = to.filter(|to| *to != from) else { return };
        self.uses.entry(from.to_owned()).or_default().insert(to.clone());
        let name = path.iter().rfind(|segment| *segment != "self").cloned().unwrap_or_default();
        self.names.entry((from.to_owned(), to.clone())).or_default().insert(name);
    }

    fn edges(&self) -> impl Iterator<Item = (&str, &str)> {
        self.names.keys().map(|(from, to)| (from.as_str(), to.as_str()))
    }

    fn between<'a>(&'a self, circle: &'a BTreeSet<String>) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.edges().filter(|(from, to)| circle.contains(*from) && circle.contains(*to))
    }

    fn examples(&self, from: &str, to: &str) -> String {
        self.names.get(&(from.to_owned(), to.to_owned())).map(list).unwrap_or_default()
    }

    fn lines_of(&self, circle: &BTreeSet<String>) -> usize {
        circle.iter().map(|module| self.lines.get(module).copied().unwrap_or_default()).sum()
    }
}

/// `[a, b]` for `a/b.rs` and `a/b/mod.rs`, empty for the root; `None` for a separate program.
fn module_path(file: &str) -> Option<ModulePath> {
    let path = file.strip_suffix(".rs")?;
    let path = path.strip_suffix("/mod").unwrap_or(path);
    match path {
        "lib" => Some(Vec::new()),
        "main" => None,
        path if path.starts_with("bin/") => None,
        path => Some(path.split('/').map(str::to_owned).collect()),
    }
}

#[cfg(test)]
mod tests;
