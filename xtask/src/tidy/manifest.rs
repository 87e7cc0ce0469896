use toml::{Table, Value};

/// The names of dependencies in a `Cargo.toml`, by purpose.
#[derive(Debug, Default)]
pub(crate) struct Dependencies {
    pub(crate) normal: Vec<String>,
    pub(crate) dev: Vec<String>,
}

impl Dependencies {
    /// Reads them, including those of targets and build scripts; a renamed dependency has the package's name.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let manifest: Table = text.parse().map_err(|error| format!("is not TOML: {error}"))?;
        let mut dependencies = Self::default();
        dependencies.add(&manifest);
        for target in table(&manifest, "target").into_iter().flat_map(Table::values) {
            if let Some(target) = target.as_table() {
                dependencies.add(target);
            }
        }
        Ok(dependencies)
    }

    fn add(&mut self, section: &Table) {
        self.normal.extend(names(section, "dependencies"));
        self.normal.extend(names(section, "build-dependencies"));
        self.dev.extend(names(section, "dev-dependencies"));
    }
}

/// The names in `[workspace.dependencies]`.
pub(crate) fn workspace_dependencies(text: &str) -> Result<Vec<String>, String> {
    let manifest: Table = text.parse().map_err(|error| format!("is not TOML: {error}"))?;
    Ok(table(&manifest, "workspace").map(|workspace| names(workspace, "dependencies")).unwrap_or_default())
}

/// The string or flag at a path of keys.
pub(crate) fn value<'a>(manifest: &'a Table, path: &[&str]) -> Option<&'a Value> {
    let (last, tables) = path.split_last()?;
    tables.iter().try_fold(manifest, |section, key| table(section, key))?.get(*last)
}

fn names(section: &Table, key: &str) -> Vec<String> {
    let Some(dependencies) = table(section, key) else { return Vec::new() };
    let name = |(key, value): (&String, &Value)| {
        value.get("package").and_then(Value::as_str).map_or_else(|| key.clone(), str::to_owned)
    };
    dependencies.iter().map(name).collect()
}

fn table<'a>(section: &'a Table, key: &str) -> Option<&'a Table> {
    section.get(key)?.as_table()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_kinds_of_dependencies_have_their_packages_name() {
        let text = r#"
            [dependencies]
            a.workspace = true
            renamed = { package = "b", version = "1" }
            [dev-dependencies]
            c = "1"
            [build-dependencies]
            d = "1"
            [target.'cfg(unix)'.dependencies]
            e = "1"
        "#;
        let dependencies = Dependencies::read(text).expect("is TOML");
        assert_eq!(dependencies.normal, ["a", "b", "d", "e"]);
        assert_eq!(dependencies.dev, ["c"]);
    }
}
