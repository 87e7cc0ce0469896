//! Definitions that a node loads when it starts.

use std::path::{Path, PathBuf};

use leveret_auth::sha256_hex;
use leveret_model::{Command, Permit};
use serde_json::json;

use super::document::{Document, Scope, Wrong};
use super::import;
use super::{Unsupported, tell_of_ignored};
use crate::api::Api;
use crate::error::Error;

/// The global parameter that says what was loaded last, by RabbitMQ's name.
pub(super) const HASH_PARAMETER: &str = "imported_definition_hash_value";

/// Why definitions aren't loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A file can't be read.
    #[error("cannot read definitions from {path}: {source}")]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file is no JSON object, or something in it has another type than it has to have.
    #[error("{path} holds no definitions: {reason}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The mistake, and its place in the file.
        reason: String,
    },
    /// They can't be imported; nothing was.
    #[error("cannot import the definitions of {path}: {reason}")]
    Refused {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

/// Definitions read from a file, or from all `.json` files of a folder in the order of their names.
pub struct Definitions {
    /// Their texts; that they are right was seen.
    documents: Vec<(PathBuf, Vec<u8>)>,
    hash: String,
}

impl Definitions {
    /// Reads them.
    ///
    /// # Errors
    /// A file can't be read, or holds something else.
    pub fn read(path: &Path) -> Result<Self, LoadError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| LoadError::Read { path, source }
        };
        let mut files = Vec::new();
        if path.is_dir() {
            for entry in std::fs::read_dir(path).map_err(failed(path))? {
                let file = entry.map_err(failed(path))?.path();
                if file.extension().is_some_and(|extension| extension == "json") {
                    files.push(file);
                }
            }
            files.sort();
        } else {
            files.push(path.to_owned());
        }
        let (mut documents, mut all) = (Vec::new(), Vec::new());
        for file in files {
            let text = std::fs::read(&file).map_err(failed(&file))?;
            let (_, ignored) = Document::parse(&text, &Scope::Cluster).map_err(|wrong| {
                let (Wrong::Json(reason) | Wrong::Shape(reason)) = wrong;
                LoadError::Malformed { path: file.clone(), reason }
            })?;
            tell_of_ignored(&file.display().to_string(), &ignored);
            all.extend_from_slice(&text);
            documents.push((file, text));
        }
        Ok(Definitions { documents, hash: sha256_hex(&all) })
    }

    /// Imports them; false when they are those of the last time and `skip_if_unchanged` is set.
    ///
    /// # Errors
    /// Nothing was imported of the file that is named.
    pub async fn load(self, api: &Api, skip_if_unchanged: bool) -> Result<bool, LoadError> {
        let last = api.topology().global_parameter(HASH_PARAMETER).and_then(|hash| hash.as_str().map(str::to_owned));
        if skip_if_unchanged && last.as_deref() == Some(&*self.hash) {
            return Ok(false);
        }
        let permit = Permit::system();
        for (path, text) in &self.documents {
            let (document, _) = Document::parse(text, &Scope::Cluster).map_err(|wrong| {
                let (Wrong::Json(reason) | Wrong::Shape(reason)) = wrong;
                LoadError::Malformed { path: path.clone(), reason }
            })?;
            let imported = import::import(api, &permit, &document, &Scope::Cluster, Unsupported::RefusedAtStart).await;
            imported.map_err(|error| LoadError::Refused { path: path.clone(), reason: reason(error) })?;
        }
        let command = Command::PutGlobalParameter { name: HASH_PARAMETER.into(), value: json!(self.hash) };
        let kept = api.submit(permit, command).await;
        let path = self.documents.first().map_or_else(PathBuf::new, |(path, _)| path.clone());
        kept.map_err(|error| LoadError::Refused { path, reason: reason(error) })?;
        Ok(true)
    }
}

fn reason(error: Error) -> String {
    match error {
        Error::BadRequest(reason) | Error::NotImplemented(reason) | Error::Missing(reason) => reason,
        Error::BadRequestOf(reason) => reason.to_string(),
        other => format!("{other:?}"),
    }
}
