use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::process::Command;

/// The files of the repository: those tracked by git, and new ones that aren't ignored.
#[derive(Debug, Default)]
pub struct Repository {
    /// Files by path from the root, with `/`.
    pub files: BTreeMap<String, File>,
}

/// A file.
#[derive(Debug, Default)]
pub struct File {
    /// Its text; `None` if it isn't UTF-8.
    pub text: Option<String>,
}

impl Repository {
    /// Reads all files.
    ///
    /// # Errors
    /// A file can't be read, or git can't be run.
    pub fn read(root: &Path) -> io::Result<Self> {
        let listed = Command::new("git")
            .args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"])
            .current_dir(root)
            .output()?;
        if !listed.status.success() {
            return Err(io::Error::other(String::from_utf8_lossy(&listed.stderr).into_owned()));
        }
        let mut files = BTreeMap::new();
        for path in String::from_utf8_lossy(&listed.stdout).split_terminator('\0') {
            // The file was deleted but is still listed, or it is a broken link.
            let Ok(bytes) = std::fs::read(root.join(path)) else { continue };
            files.insert(path.to_owned(), File { text: String::from_utf8(bytes).ok() });
        }
        Ok(Self { files })
    }

    /// Path and text of each text file whose path ends with `ending`.
    pub fn texts<'a>(&'a self, ending: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.files
            .iter()
            .filter(move |(path, _)| path.ends_with(ending))
            .filter_map(|(path, file)| Some((path.as_str(), file.text.as_deref()?)))
    }

    /// The text of the file with this path.
    #[must_use]
    pub fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path)?.text.as_deref()
    }
}

#[cfg(test)]
impl<const N: usize> From<[(&str, &str); N]> for Repository {
    fn from(files: [(&str, &str); N]) -> Self {
        let file = |text: &str| File { text: Some(text.to_owned()) };
        Self { files: files.into_iter().map(|(path, text)| (path.to_owned(), file(text))).collect() }
    }
}
