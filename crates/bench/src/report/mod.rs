//! Reports as text, JSON, CSV and one HTML page. All are generated from [`record`] alone, so that an earlier run,
//! read from its JSON, is reported in the same way as one that has just ended.

mod csv;
mod describe;
mod html;
mod json;
mod machine;
mod measured;
mod record;
#[cfg(test)]
mod samples;
mod summary;
mod text;
mod units;

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

pub(crate) use measured::{protocol_name, target_and_broker};
pub(crate) use record::{Asked, Extrapolated, Idle, Machine, Record, Results};

use crate::{BenchArgs, BenchError};

/// Output files, in addition to standard output.
pub(crate) struct Files<'a>(&'a BenchArgs);

impl<'a> Files<'a> {
    /// The files named by `args`.
    ///
    /// # Errors
    /// One can't be written: better reported now than after an hour of measuring.
    pub(crate) fn open(args: &'a BenchArgs) -> Result<Self, BenchError> {
        for path in [&args.json_file, &args.csv_file, &args.html_file].into_iter().flatten() {
            OpenOptions::new().append(true).create(true).open(path).map_err(|error| refused(path, &error))?;
        }
        Ok(Self(args))
    }

    /// Writes all of them.
    ///
    /// # Errors
    /// One can't be written.
    pub(crate) fn write(&self, results: &Results) -> Result<(), BenchError> {
        self.write_json(results)?;
        write(self.0.csv_file.as_ref(), || results.csv())?;
        write(self.0.html_file.as_ref(), || results.html())
    }

    /// Writes the JSON file, from which the others can be generated: results survive if the program is ended.
    ///
    /// # Errors
    /// It can't be written.
    pub(crate) fn write_json(&self, results: &Results) -> Result<(), BenchError> {
        write(self.0.json_file.as_ref(), || results.json() + "\n")
    }
}

fn write(path: Option<&PathBuf>, text: impl FnOnce() -> String) -> Result<(), BenchError> {
    let Some(path) = path else { return Ok(()) };
    fs::write(path, text()).map_err(|error| refused(path, &error))
}

fn refused(path: &Path, error: &std::io::Error) -> BenchError {
    BenchError::Usage(format!("cannot write {}: {error}", path.display()))
}
