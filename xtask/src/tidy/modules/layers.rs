use std::collections::BTreeSet;

use toml::{Table, Value};

/// A crate's modules from top to bottom, according to the table.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Layers {
    /// Most lines of a circle.
    pub(super) lines_max: usize,
    /// Layers, topmost first.
    pub(super) layers: Vec<Layer>,
}

/// Modules on one level.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Layer {
    pub(super) modules: BTreeSet<String>,
    /// The reason why these use each other; `None` if they don't.
    pub(super) because: Option<String>,
}

impl Layers {
    /// Reads the table of one crate.
    pub(super) fn read(table: &Table, name: &str) -> Result<Self, String> {
        let section = table.get(name).and_then(Value::as_table).ok_or_else(|| format!("has no table [{name}]"))?;
        let lines_max = section.get("lines_max").and_then(Value::as_integer).and_then(|lines| lines.try_into().ok());
        let lines_max = lines_max.ok_or_else(|| format!("[{name}] has no number lines_max"))?;
        let layers = section.get("layers").and_then(Value::as_array);
        let layers = layers.ok_or_else(|| format!("[{name}] has no array layers"))?;
        let layer = |value| Layer::read(value).ok_or_else(|| format!("[{name}]: this is no layer: {value:?}"));
        Ok(Self { lines_max, layers: layers.iter().map(layer).collect::<Result<_, _>>()? })
    }

    /// The level of a module, counted from the top.
    pub(super) fn level(&self, module: &str) -> Option<usize> {
        self.layers.iter().position(|layer| layer.modules.contains(module))
    }

    /// Modules that are listed twice.
    pub(super) fn twice(&self) -> BTreeSet<&str> {
        let mut seen = BTreeSet::new();
        self.layers
            .iter()
            .flat_map(|layer| &layer.modules)
            .map(String::as_str)
            .filter(|name| !seen.insert(*name))
            .collect()
    }
}

impl Layer {
    /// Parses `"a b"`, or `{ circle = "a b", because = "..." }`.
    fn read(value: &Value) -> Option<Self> {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<BTreeSet<_>>();
        if let Some(modules) = value.as_str() {
            return Some(Self { modules: words(modules), because: None });
        }
        let modules = words(value.get("circle")?.as_str()?);
        let because = value.get("because")?.as_str()?.trim();
        (!because.is_empty()).then(|| Self { modules, because: Some(because.to_owned()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Layers, String> {
        Layers::read(&text.parse().expect("is TOML"), "a")
    }

    #[test]
    fn layers_are_read_from_top_to_bottom() {
        let text =
            "[a]\nlines_max = 10\nlayers = [\n\"b c\",\n{ circle = \"d e\", because = \"they do\" },\n\"f c\",\n]";
        let layers = read(text).expect("is a table");
        assert_eq!(layers.lines_max, 10);
        assert_eq!(
            ["b", "c", "e", "f", "g"].map(|name| layers.level(name)),
            [Some(0), Some(0), Some(1), Some(2), None]
        );
        assert_eq!(layers.layers[1].because.as_deref(), Some("they do"));
        assert_eq!(layers.twice(), BTreeSet::from(["c"]));
    }

    #[test]
    fn a_circle_without_a_reason_is_no_layer() {
        for layer in ["{ circle = \"b c\" }", "{ circle = \"b c\", because = \" \" }", "1"] {
            let error = read(&format!("[a]\nlines_max = 10\nlayers = [{layer}]")).expect_err("no reason is given");
            assert!(error.contains("this is no layer"), "{error}");
        }
    }

    #[test]
    fn each_part_of_a_table_is_needed() {
        assert_eq!(read(""), Err("has no table [a]".to_owned()));
        assert_eq!(read("[a]\nlayers = []"), Err("[a] has no number lines_max".to_owned()));
        assert_eq!(read("[a]\nlines_max = 1"), Err("[a] has no array layers".to_owned()));
    }
}
