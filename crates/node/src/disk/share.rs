use rustix::process::{Resource, getrlimit};

/// Files that were pushed out of the handles and are still used: one for each disk thread, and two for cores that write.
const IN_USE: usize = 6;

/// The descriptors that the log's files may have, by the limit of open files. Clients get what remains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileShare {
    /// Files that stay open for their next use. The log uses few at a time: unretired WAL files, segments and body files
    /// that are read or written.
    pub(crate) handles: usize,
    /// Files that are lent at a time to connections, which send parts of them. One that also stays open for its next use counts
    /// too, so there are no fewer than of those.
    pub(crate) lent: usize,
    /// Descriptors that only keep their place, until a file needs it.
    pub(crate) spares: usize,
}

impl FileShare {
    /// The share of this limit. Each number is a fixed part of it, so the sum is at most a quarter of any limit from 64 on.
    pub(crate) fn of(limit: u64) -> Self {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        Self {
            handles: (limit / 16).clamp(4, 256),
            lent: (limit / 16).clamp(2, 1024),
            spares: (limit / 32).clamp(2, 12),
        }
    }

    /// The share of the limit in force.
    pub(crate) fn in_force() -> Self {
        Self::of(getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX))
    }

    /// Largest number of descriptors that these files have at a time.
    pub(crate) fn total(&self) -> usize {
        self.handles + self.lent + self.spares + IN_USE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_grows_with_the_limit_up_to_what_the_log_uses() {
        let rows = [
            (0, [4, 2, 2], 14),
            (64, [4, 4, 2], 16),
            (128, [8, 8, 4], 26),
            (256, [16, 16, 8], 46),
            (1024, [64, 64, 12], 146),
            (65_536, [256, 1024, 12], 1298),
            (u64::MAX, [256, 1024, 12], 1298),
        ];
        for (limit, parts, total) in rows {
            let share = FileShare::of(limit);
            assert_eq!([share.handles, share.lent, share.spares], parts, "of {limit}");
            assert_eq!(share.total(), total, "of {limit}");
            assert!(limit < 64 || share.total() as u64 <= limit / 4, "of {limit}");
        }
    }
}
