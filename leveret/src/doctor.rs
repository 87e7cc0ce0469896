//! `leveret doctor`: what a node would find at its data folder and in its surroundings, in a line each.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

use leveret_node::{allowed_memory_bytes, harmless};
use rustix::process::{Resource, getrlimit};

use crate::arguments::ServerArguments;
use crate::container::mounts;

/// Flushes that are measured.
const FLUSHES: usize = 20;

/// A flush above this makes publishers of single messages slow.
const FLUSH_MAX: Duration = Duration::from_millis(20);

/// Free space below this raises the alarm soon after a start with default settings.
const FREE_BYTES_MIN: u64 = 256 << 20;

/// Open files below this limit the number of connections.
const FILES_MIN: u64 = 65_536;

/// Memory below this leaves little for messages.
const MEMORY_BYTES_MIN: u64 = 128 << 20;

/// The difference of clocks that may be an accident.
const CLOCK_PATIENCE: Duration = Duration::from_secs(2);

/// One line of the report.
struct Finding {
    name: &'static str,
    is_well: bool,
    text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:7} {:10} {}", if self.is_well { "ok" } else { "WARNING" }, self.name, self.text)
    }
}

fn finding(name: &'static str, is_well: bool, text: String) -> Finding {
    Finding { name, is_well, text }
}

/// Prints the findings. Exits with 1 if one is a warning.
pub(crate) fn run(arguments: &ServerArguments) -> ExitCode {
    let start = match arguments.look_up() {
        Ok(start) => start,
        Err(reasons) => {
            reasons.iter().for_each(|reason| eprintln!("leveret: {}", harmless(reason)));
            return ExitCode::FAILURE;
        }
    };
    let folder = existing(&start.data_dir);
    let mut findings = vec![data(&start.data_dir)];
    // The warning about storage is among these in the image.
    findings.extend(start.warnings.iter().map(|warning| finding("volume", false, warning.clone())));
    let storage = mounts::warning_of(&start.data_dir).filter(|warning| !start.warnings.contains(warning));
    findings.extend(storage.map(|warning| finding("volume", false, warning)));
    findings.extend([space(&folder), flush(&folder), files(), memory(), clock(&start.data_dir, SystemTime::now())]);
    findings.iter().for_each(|finding| println!("{finding}"));
    if findings.iter().all(|finding| finding.is_well) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The nearest folder that is there already.
fn existing(path: &Path) -> PathBuf {
    let above = path.ancestors().find(|above| above.is_dir());
    above.filter(|above| !above.as_os_str().is_empty()).unwrap_or_else(|| Path::new(".")).to_owned()
}

fn data(folder: &Path) -> Finding {
    let state = match folder.join("store").try_exists() {
        Ok(true) => "has the data of a node",
        Ok(false) => "is new: a start makes it",
        Err(reason) => return finding("data", false, format!("{} can't be entered: {reason}", folder.display())),
    };
    finding("data", true, format!("{} {state}", folder.display()))
}

fn space(folder: &Path) -> Finding {
    match rustix::fs::statvfs(folder) {
        Ok(found) => {
            let free = found.f_bavail.saturating_mul(found.f_frsize);
            let all = found.f_blocks.saturating_mul(found.f_frsize);
            finding("space", free >= FREE_BYTES_MIN, format!("{} of {} MiB are free", free >> 20, all >> 20))
        }
        Err(reason) => finding("space", false, format!("{}: {reason}", folder.display())),
    }
}

/// The median time of a flush: a confirm waits for one.
fn flush(folder: &Path) -> Finding {
    match flush_times(folder) {
        Ok(mut times) => {
            times.sort_unstable();
            let (median, longest) = (times[times.len() / 2], times[times.len() - 1]);
            let text = format!("a flush takes {median:.1?}, the longest of {FLUSHES} took {longest:.1?}");
            finding("flush", median <= FLUSH_MAX, text)
        }
        Err(reason) => finding("flush", false, format!("{} can't be written: {reason}", folder.display())),
    }
}

fn flush_times(folder: &Path) -> io::Result<Vec<Duration>> {
    let path = folder.join(format!(".leveret-doctor-{}", std::process::id()));
    let mut file = File::options().write(true).create_new(true).open(&path)?;
    let mut measure = || {
        let begun = Instant::now();
        file.write_all(&[0; 4096])?;
        file.sync_data()?;
        Ok(begun.elapsed())
    };
    let times = (0..FLUSHES).map(|_| measure()).collect();
    fs::remove_file(&path)?;
    times
}

fn files() -> Finding {
    // A node raises the one limit to the other.
    let limit = getrlimit(Resource::Nofile).maximum;
    let text = limit
        .map_or("no limit of open files".to_owned(), |limit| format!("{limit} open files, one for each connection"));
    finding("files", limit.is_none_or(|limit| limit >= FILES_MIN), text)
}

fn memory() -> Finding {
    let (bytes, cores) =
        (allowed_memory_bytes(), std::thread::available_parallelism().map_or(1, std::num::NonZero::get));
    finding("limits", bytes >= MEMORY_BYTES_MIN, format!("{} MiB of memory, {cores} cores", bytes >> 20))
}

/// A clock that was set back: the data has times of the future.
fn clock(folder: &Path, now: SystemTime) -> Finding {
    let written = |name: &str| fs::metadata(folder.join(name)).and_then(|file| file.modified()).ok();
    let newest = ["lock", "timeline", "store"].into_iter().filter_map(written).max();
    let ahead = newest.and_then(|newest| newest.duration_since(now).ok()).filter(|ahead| *ahead > CLOCK_PATIENCE);
    match ahead {
        Some(ahead) => {
            let text = format!("the data was written {} s in the future: this clock was set back", ahead.as_secs());
            finding("clock", false, text)
        }
        None => finding("clock", true, "not before the last write of the data".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_measured_and_left_as_it_was() {
        let folder = tempfile::tempdir().expect("a directory");
        assert_eq!(existing(&folder.path().join("new/data")), folder.path());
        assert_eq!(flush_times(folder.path()).expect("is written").len(), FLUSHES);
        assert_eq!(fs::read_dir(folder.path()).expect("is there").count(), 0);
        assert!(space(folder.path()).text.contains("MiB are free"));
        assert!(data(&folder.path().join("new")).text.ends_with("is new: a start makes it"));
        let missing = flush(&folder.path().join("none"));
        assert!(!missing.is_well && missing.text.contains("can't be written"), "{}", missing.text);
    }

    #[test]
    fn a_clock_that_was_set_back_is_a_warning() {
        let folder = tempfile::tempdir().expect("a directory");
        assert!(clock(folder.path(), SystemTime::UNIX_EPOCH).is_well, "nothing was written yet");
        fs::write(folder.path().join("lock"), "1").expect("is written");
        assert!(clock(folder.path(), SystemTime::now()).is_well);
        let earlier = SystemTime::now() - Duration::from_secs(3_600);
        let told = clock(folder.path(), earlier);
        assert!(!told.is_well && told.to_string().starts_with("WARNING clock      the data was written 3"), "{told}");
    }
}
