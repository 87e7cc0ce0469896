//! Definitions loaded at the start of a node.

use std::path::{Path, PathBuf};

use leveret_auth::sha256_hex;
use leveret_model::{Command, Permit};
use serde_json::json;

use super::document::{Document, Scope, Wrong};
use super::{Manner, import, known, tell_of_ignored};
use crate::api::Api;
use crate::error::Error;

/// The global parameter with the hash of the definitions loaded last, with RabbitMQ's name.
pub(super) const HASH_PARAMETER: &str = "imported_definition_hash_value";

/// The reason why definitions aren't loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A file can't be read.
    #[error("cannot read definitions from {path}: {source}")]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// A file isn't a JSON object, or a value in it has the wrong type.
    #[error("{path} holds no definitions: {reason}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The error, and its place in the file.
        reason: String,
    },
    /// They can't be imported; nothing was imported.
    #[error("cannot import the definitions of {path}: {reason}")]
    Refused {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
}

/// Definitions read from a file, or from all `.json` files of a folder in the order of their names.
pub struct Definitions {
    /// Their texts, which were checked.
    documents: Vec<(PathBuf, Vec<u8>)>,
    hash: String,
}

impl Definitions {
    /// Reads and checks them.
    ///
    /// # Errors
    /// A file can't be read, or isn't a document of definitions.
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
            let (_, ignored) = Document::parse(&text, &Scope::Cluster, &mut |_, _| true).map_err(|wrong| {
                let (Wrong::Json(reason) | Wrong::Shape(reason)) = wrong;
                LoadError::Malformed { path: file.clone(), reason }
            })?;
            tell_of_ignored(&file.display().to_string(), &ignored);
            all.extend_from_slice(&text);
            documents.push((file, text));
        }
        Ok(Definitions { documents, hash: sha256_hex(&all) })
    }

    /// Imports them. Returns false if they are those imported last and `skip_if_unchanged` is set. With `skip_unsupported`, objects that
    /// can't be imported are left out.
    ///
    /// # Errors
    /// Nothing was imported from the file named in the error.
    pub async fn load(self, api: &Api, skip_if_unchanged: bool, skip_unsupported: bool) -> Result<bool, LoadError> {
        let last = api.topology().global_parameter(HASH_PARAMETER).and_then(|hash| hash.as_str().map(str::to_owned));
        if skip_if_unchanged && last.as_deref() == Some(&*self.hash) {
            return Ok(false);
        }
        let permit = Permit::import();
        let manner = Manner { skips_unsupported: skip_unsupported, is_start: true };
        for (path, text) in &self.documents {
            let topology = api.topology();
            let (document, _) = known::parse(text, &Scope::Cluster, &topology).map_err(|wrong| {
                let (Wrong::Json(reason) | Wrong::Shape(reason)) = wrong;
                LoadError::Malformed { path: path.clone(), reason }
            })?;
            let imported = import::import(api, permit.clone(), &document, &Scope::Cluster, manner).await;
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
