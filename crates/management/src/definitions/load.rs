//! Definitions that a node loads when it starts.

use std::path::{Path, PathBuf};

use leveret_auth::sha256_hex;
use leveret_model::{Command, Permit};
use serde_json::{Map, Value, json};

use super::document::{self, Scope};
use super::import;
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
    /// A file is no JSON object.
    #[error("{0} is no JSON object with definitions")]
    Malformed(PathBuf),
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
    documents: Vec<(PathBuf, Map<String, Value>)>,
    hash: String,
}

impl Definitions {
    /// Reads them.
    ///
    /// # Errors
    /// A file can't be read, or has no JSON object.
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
            let document = document::parse(&text).ok_or_else(|| LoadError::Malformed(file.clone()))?;
            all.extend_from_slice(&text);
            documents.push((file, document));
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
        for (path, document) in &self.documents {
            let imported = import::import(api, &permit, document, &Scope::Cluster, false).await;
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
