//! The length of WAL files on a small volume, where the default length would leave too little room for messages.

use std::path::{Path, PathBuf};

use leveret_log::Options;

/// A WAL file takes at most this fraction of its volume: one in 32. Four unretired files, one spare file and the
/// reserve (two and a half files) take a quarter.
const FILES_ON_VOLUME: u64 = 32;

/// The length of a file is a multiple of this.
const FILE_STEP: u64 = 1 << 20;

/// Size of the smallest volume accepted. It is below 64 MB because a partition table and a file system leave less than
/// that on a volume sold as 64 MB.
const VOLUME_BYTES_MIN: u64 = 48 << 20;

/// A volume on which a node would always be in alarm.
#[derive(Debug, thiserror::Error)]
#[error(
    "the volume of {directory} has {bytes} bytes, and a node needs at least {VOLUME_BYTES_MIN}, which a volume sold as 64 MB \
     has; choose a data directory on a larger one"
)]
pub struct SmallVolume {
    /// The data directory.
    pub directory: PathBuf,
    /// The size of its volume.
    pub bytes: u64,
}

/// Options with file lengths that suit the volume of a directory. Existing files of other lengths are still used.
///
/// # Errors
/// The volume is too small.
pub(crate) fn fitted(options: Options, directory: &Path) -> Result<Options, SmallVolume> {
    let Ok(found) = rustix::fs::statvfs(directory) else { return Ok(options) };
    fitted_to(options, found.f_blocks.saturating_mul(found.f_frsize))
        .map_err(|bytes| SmallVolume { directory: directory.to_owned(), bytes })
}

fn fitted_to(options: Options, volume: u64) -> Result<Options, u64> {
    match volume {
        // Some file systems don't provide the size.
        0 => Ok(options),
        small if small < VOLUME_BYTES_MIN => Err(small),
        _ => {
            let share = (volume / FILES_ON_VOLUME / FILE_STEP * FILE_STEP).max(FILE_STEP);
            let file_bytes = options.file_bytes.min(share);
            Ok(with_files_of(options, file_bytes))
        }
    }
}

/// Options with files of this length. A limit that depends on the length of a file keeps its proportion.
pub(crate) fn with_files_of(options: Options, file_bytes: u64) -> Options {
    let default = Options::default();
    let mixed_below = default.mixed_below.min(file_bytes * default.mixed_below / default.file_bytes);
    Options { file_bytes, mixed_below, ..options }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_reserve_take_a_quarter_of_a_small_volume() {
        let of =
            |volume| fitted_to(Options::default(), volume).map(|options| (options.file_bytes, options.disk_reserve()));
        assert_eq!(of(0), Ok((64 << 20, 160 << 20)));
        assert_eq!(of(1 << 40), Ok((64 << 20, 160 << 20)));
        assert_eq!(of(2 << 30), Ok((64 << 20, 160 << 20)));
        assert_eq!(of(1 << 30), Ok((32 << 20, 80 << 20)));
        assert_eq!(of(160_000_000), Ok((4 << 20, 10 << 20)));
        assert_eq!(of(64_000_000), Ok((1 << 20, 5 << 19)));
        assert_eq!(of(VOLUME_BYTES_MIN - 1), Err(VOLUME_BYTES_MIN - 1));
        assert_eq!(fitted_to(Options::default(), 64 << 20).map(|options| options.mixed_below), Ok(8 << 10));
    }
}
