//! Results as a JSON document, written and read.

use std::fs;
use std::path::Path;

use super::record::Results;
use crate::BenchError;

impl Results {
    /// The results as one document: `{"rounds": [...]}`.
    pub(crate) fn json(&self) -> String {
        serde_json::to_string(self).expect("every figure is a number, a text or null")
    }

    /// Reads the results of an earlier run.
    ///
    /// # Errors
    /// The file can't be read, or isn't such a document.
    pub(crate) fn read(path: &Path) -> Result<Self, BenchError> {
        let told = |what: String| BenchError::Usage(format!("{}: {what}", path.display()));
        let text = fs::read_to_string(path).map_err(|error| told(format!("cannot be read: {error}")))?;
        serde_json::from_str(&text)
            .map_err(|error| told(format!("is no report of `leveret bench` (--json-file writes one): {error}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples;

    #[test]
    fn written_results_are_read_back_unchanged() {
        let results = Results { rounds: vec![samples::load(), samples::idle(), samples::void()] };
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("results.json");
        fs::write(&path, results.json()).expect("it can be written");
        assert_eq!(Results::read(&path).expect("it is read"), results);
        fs::write(&path, "{}").expect("it can be written");
        let error = Results::read(&path).expect_err("there are no rounds").to_string();
        assert!(error.contains("results.json: is no report of `leveret bench`"), "{error}");
    }

    #[test]
    fn unknown_values_are_null() {
        let json = Results { rounds: vec![crate::report::Record::default()] }.json();
        assert!(json.contains(r#""received_per_second":null"#) && json.contains(r#""durability":null"#), "{json}");
        assert!(!json.contains("connections"), "{json}");
    }
}
