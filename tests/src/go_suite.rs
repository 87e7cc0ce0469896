//! Go modules whose own tests run against the broker: copies the module, runs it, and judges the results by name.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

use crate::broker::behind_balancer;
use crate::{allow, cell};

/// A writable copy of a module: `go test` writes next to it, and ports hard-coded in its tests are replaced.
#[derive(Debug)]
pub struct Module {
    copy: TempDir,
}

impl Module {
    /// Copies `module` in the version pinned by the client in the folder `clients/CLIENT`.
    ///
    /// # Panics
    /// When the module isn't installed.
    pub fn copy(client: &str, module: &str) -> Self {
        Self::of(module.rsplit('/').next().unwrap_or(module), &folder(client, module))
    }

    /// Copies the folder of what has this name.
    pub(crate) fn of(name: &str, folder: &Path) -> Self {
        let copy = tempfile::Builder::new().prefix(&format!("{name}-")).tempdir().expect("a temporary directory");
        copy_folder(folder, copy.path());
        Self { copy }
    }

    /// The copy's folder.
    pub fn path(&self) -> &Path {
        self.copy.path()
    }

    /// Rewrites one file of the copy.
    ///
    /// # Panics
    /// If the file doesn't exist, or `edit` changes nothing: the module is another one than this test was written
    /// for.
    pub fn edit(&self, file: impl AsRef<Path>, edit: impl FnOnce(&str) -> String) {
        let path = self.path().join(file);
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let edited = edit(&text);
        assert_ne!(edited, text, "{} has nothing to replace", path.display());
        fs::write(&path, edited).expect("write the copy");
    }

    /// Runs `go test` with these arguments and environment.
    pub fn test(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Output {
        Command::new("go")
            .args(["test", "-json", "-count=1", "-timeout", "15m"])
            .args(arguments)
            .current_dir(self.path())
            .envs(environment.iter().copied())
            .output()
            .expect("go test")
    }
}

/// Replaces a number that isn't part of a longer one.
pub fn replace_number(text: &str, from: &str, to: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(from) {
        let end = at + from.len();
        let digit_before = rest[..at].ends_with(|c: char| c.is_ascii_digit());
        let digit_after = rest[end..].starts_with(|c: char| c.is_ascii_digit());
        result.push_str(&rest[..at]);
        result.push_str(if digit_before || digit_after { from } else { to });
        rest = &rest[end..];
    }
    result.push_str(rest);
    result
}

fn folder(client: &str, module: &str) -> PathBuf {
    let output = Command::new("go")
        .args(["list", "-m", "-json", module])
        .current_dir(cell::clients().join(client))
        .output()
        .expect("go list");
    let json: Value = serde_json::from_slice(&output.stdout).expect("the module's description");
    json["Dir"].as_str().expect("the module's folder: run `make -C tests/clients install`").into()
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("the module's folder") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            // The module cache is read-only; its copy isn't.
            fs::write(&target, fs::read(entry.path()).expect("a file")).expect("a copy");
        }
    }
}

/// The results by name.
#[derive(Debug, Default)]
pub struct SuiteRun {
    /// Names that passed.
    pub passed: Vec<String>,
    /// Names that failed, were skipped or never ended.
    pub failed: Vec<String>,
    /// The output of each name.
    pub output: BTreeMap<String, String>,
}

impl SuiteRun {
    /// Parses the output of `go test -json`.
    pub fn parse(text: &str) -> Self {
        let mut run = Self::default();
        let mut open = BTreeMap::new();
        for line in text.lines() {
            let Ok(event) = serde_json::from_str::<Value>(line) else { continue };
            let Some(name) = event["Test"].as_str() else { continue };
            match event["Action"].as_str() {
                Some("run") => drop(open.insert(name.to_owned(), ())),
                Some("pass") => {
                    open.remove(name);
                    run.passed.push(name.to_owned());
                }
                Some("fail" | "skip") => {
                    open.remove(name);
                    run.failed.push(name.to_owned());
                }
                Some("output") => {
                    run.output.entry(name.to_owned()).or_default().push_str(event["Output"].as_str().unwrap_or(""));
                }
                _ => {}
            }
        }
        run.failed.extend(open.into_keys());
        run
    }

    /// Parses a report of Ginkgo, whose specs are a single name for `go test`. The name of a spec consists of its
    /// containers' texts and its own, joined by ` / `; the second one with the same name gets ` #2`.
    pub fn parse_ginkgo(report: &Value) -> Self {
        let mut run = Self::default();
        let mut seen = BTreeMap::<String, usize>::new();
        let suites = report.as_array().into_iter().flatten();
        for spec in suites.flat_map(|suite| suite["SpecReports"].as_array().into_iter().flatten()) {
            let containers = spec["ContainerHierarchyTexts"].as_array().into_iter().flatten();
            let texts: Vec<&str> =
                containers.chain([&spec["LeafNodeText"]]).filter_map(Value::as_str).map(str::trim).collect();
            let mut name = texts.join(" / ");
            let times = seen.entry(name.clone()).or_default();
            *times += 1;
            if *times > 1 {
                name = format!("{name} #{times}");
            }
            let message = spec["Failure"]["Message"].as_str().unwrap_or("");
            run.output.insert(name.clone(), message.to_owned());
            if spec["State"] == "passed" { &mut run.passed } else { &mut run.failed }.push(name);
        }
        run
    }

    /// Replaces a text in names, such as a port that differs between runs.
    pub fn rename(&mut self, from: &str, to: &str) {
        for name in self.passed.iter_mut().chain(&mut self.failed) {
            *name = name.replace(from, to);
        }
        self.output =
            std::mem::take(&mut self.output).into_iter().map(|(name, text)| (name.replace(from, to), text)).collect();
    }

    /// Compares the run with `allow/LIST`: every name passes or is in the list, every entry is needed, and there are
    /// exactly `names` names, so that a suite that stopped early is noticed. Behind a balancer the entries of
    /// `allow/behind-balancer/LIST` are needed, too, if there is such a list.
    ///
    /// # Panics
    /// If one of these doesn't hold; prints the output of the failed names first.
    pub fn judge(&self, list: &str, names: usize, output: &Output) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("allow");
        let path = folder.join(list);
        let mut listed = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        if behind_balancer().is_some() {
            listed.push('\n');
            listed.push_str(&fs::read_to_string(folder.join("behind-balancer").join(list)).unwrap_or_default());
        }
        let mut wrong = allow::judge(&allow::parse(&listed), &self.passed, &self.failed);
        println!("{list}: {} passed, {} didn't", self.passed.len(), self.failed.len());
        let ran = self.passed.len() + self.failed.len();
        if ran != names {
            let stderr = String::from_utf8_lossy(&output.stderr);
            wrong.push(format!("{ran} names ran instead of {names}\n{stderr}"));
        }
        for name in self.failed.iter().filter(|name| wrong.iter().any(|line| line.starts_with(&format!("{name} ")))) {
            println!("--- {name}\n{}", self.output.get(name).map_or("", String::as_str));
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_name_that_never_ends_has_failed() {
        let run = SuiteRun::parse(concat!(
            "{\"Action\":\"run\",\"Test\":\"A\"}\n{\"Action\":\"run\",\"Test\":\"B\"}\nnoise\n",
            "{\"Action\":\"pass\",\"Test\":\"A\"}\n{\"Action\":\"output\",\"Test\":\"B\",\"Output\":\"panic\"}\n",
        ));
        assert_eq!((run.passed, run.failed), (vec!["A".to_owned()], vec!["B".to_owned()]));
        assert_eq!(run.output["B"], "panic");
    }

    #[test]
    fn specs_of_one_name_are_distinguished() {
        let spec =
            |text: &str, state: &str| json!({"ContainerHierarchyTexts": ["c "], "LeafNodeText": text, "State": state});
        let report = json!([{"SpecReports": [spec("a", "passed"), spec("a", "failed"), spec("b", "pending")]}]);
        let run = SuiteRun::parse_ginkgo(&report);
        assert_eq!(run.passed, ["c / a"]);
        assert_eq!(run.failed, ["c / a #2", "c / b"]);
    }
}
