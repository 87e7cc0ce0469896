use std::fs::File;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::io::Errno;

/// Longest time that an operation waits for a descriptor if none of ours can be given up. Somebody else has taken more than
/// their share then, or the whole machine has no file left.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time between two tries.
const STEP: Duration = Duration::from_millis(1);

/// Descriptors that are held for nothing but their place. If the process has none left, one of them is closed, and the
/// file that the log needs takes its place.
#[derive(Debug)]
pub(super) struct Spares {
    /// An open file that can be duplicated; `None` if there are no spares.
    origin: Option<Arc<File>>,
    held: Mutex<Vec<File>>,
    wanted: usize,
    patience: Duration,
}

impl Spares {
    /// Takes `wanted` descriptors, as far as there are so many.
    pub(super) fn new(origin: &Arc<File>, wanted: usize) -> Self {
        let held = Mutex::new(Vec::with_capacity(wanted));
        let spares = Self { origin: Some(origin.clone()), held, wanted, patience: PATIENCE };
        spares.refill();
        spares
    }

    /// No descriptors.
    pub(super) fn none() -> Self {
        Self { origin: None, held: Mutex::default(), wanted: 0, patience: PATIENCE }
    }

    /// Number of descriptors that are held now.
    pub(super) fn count(&self) -> usize {
        self.held.lock().len()
    }

    /// Calls `open` until it doesn't fail for want of a descriptor. After each such failure a spare is given up, and `evict`
    /// closes a file that isn't used; it returns `false` if there is none.
    ///
    /// # Errors
    /// Another error of `open`, or that one if nobody has closed anything for ten seconds.
    pub(super) fn open<T>(&self, evict: impl Fn() -> bool, mut open: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        let mut until = None;
        loop {
            match open() {
                Err(error) if is_shortage(&error) => {
                    // Both: the file takes one place, and the next spare the other one.
                    let (is_given, is_evicted) = (self.give(), evict());
                    if is_given || is_evicted {
                        continue;
                    }
                    if Instant::now() >= *until.get_or_insert_with(|| Instant::now() + self.patience) {
                        return Err(error);
                    }
                    thread::sleep(STEP);
                }
                opened => {
                    self.refill();
                    return opened;
                }
            }
        }
    }

    fn give(&self) -> bool {
        let spare = self.held.lock().pop();
        spare.is_some()
    }

    fn refill(&self) {
        let Some(origin) = &self.origin else { return };
        let mut held = self.held.lock();
        while held.len() < self.wanted {
            match origin.try_clone() {
                Ok(spare) => held.push(spare),
                // The next open tries again.
                Err(_) => return,
            }
        }
    }
}

/// Whether the process, or the machine, has no descriptor left.
pub(super) fn is_shortage(error: &io::Error) -> bool {
    let errno = error.raw_os_error();
    errno == Some(Errno::MFILE.raw_os_error()) || errno == Some(Errno::NFILE.raw_os_error())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn shortage() -> io::Error {
        Errno::MFILE.into()
    }

    fn spares(wanted: usize) -> Spares {
        Spares::new(&Arc::new(tempfile::tempfile().expect("a file")), wanted)
    }

    #[test]
    fn an_open_without_descriptors_takes_the_place_of_a_spare() {
        let spares = spares(3);
        let tries = Cell::new(0);
        let open = || {
            tries.set(tries.get() + 1);
            match spares.count() {
                // Another part of the process took the first place that became free.
                2.. => Err(shortage()),
                left => Ok(left),
            }
        };
        assert_eq!(spares.open(|| false, open).expect("opens"), 1);
        assert_eq!(tries.get(), 3);
        assert_eq!(spares.count(), 3, "they are taken again once there are descriptors");
    }

    #[test]
    fn an_open_without_spares_closes_unused_files_first() {
        let spares = Spares::none();
        let unused = Cell::new(2_u32);
        let evict = || {
            let left = unused.get();
            unused.set(left.saturating_sub(1));
            left > 0
        };
        let open = || if unused.get() > 0 { Err(Errno::NFILE.into()) } else { Ok(()) };
        spares.open(evict, open).expect("opens");
        assert_eq!(unused.get(), 0);
    }

    #[test]
    fn an_open_waits_for_others_and_tells_the_error_in_the_end() {
        let spares = Spares { patience: Duration::from_millis(5), ..Spares::none() };
        let tries = Cell::new(0);
        let later = || {
            tries.set(tries.get() + 1);
            if tries.get() < 3 { Err(shortage()) } else { Ok(()) }
        };
        spares.open(|| false, later).expect("opens");
        let never = || Err::<(), _>(shortage());
        assert!(is_shortage(&spares.open(|| false, never).expect_err("no descriptor")));
        let missing = || Err::<(), _>(io::Error::from(io::ErrorKind::NotFound));
        assert_eq!(spares.open(|| true, missing).expect_err("is not there").kind(), io::ErrorKind::NotFound);
    }
}
