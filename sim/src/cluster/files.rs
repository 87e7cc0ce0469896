//! Real files under an entry log, and a thread that works on them: for a measure.

use std::fs::{File, OpenOptions};
use std::future::poll_fn;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use leveret_log::{Disk, DiskError, Done, Job};

/// The files of a directory.
pub(super) struct Files(PathBuf);

impl Files {
    /// Opens a directory, and makes it if it isn't there.
    ///
    /// # Panics
    /// If that can't be done.
    pub(super) fn open(directory: &Path) -> Files {
        std::fs::create_dir_all(directory).expect("a directory");
        Files(directory.to_owned())
    }

    fn file(&self, name: &str) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(self.0.join(name))
    }
}

impl Disk for Files {
    fn list(&self) -> io::Result<Vec<String>> {
        let entries = std::fs::read_dir(&self.0)?;
        entries.map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned())).collect()
    }

    fn create(&self, name: &str, length: u64) -> io::Result<()> {
        let file = self.file(name)?;
        file.set_len(0)?;
        file.set_len(length)
    }

    fn write_at(&self, name: &str, offset: u64, slices: &[&[u8]]) -> io::Result<()> {
        self.file(name)?.write_all_at(&slices.concat(), offset)
    }

    fn sync(&self, name: &str) -> io::Result<()> {
        self.file(name)?.sync_data()
    }

    fn sync_directory(&self) -> io::Result<()> {
        File::open(&self.0)?.sync_all()
    }

    fn read_at(&self, name: &str, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.file(name)?.read_at(buffer, offset)
    }

    fn len(&self, name: &str) -> io::Result<u64> {
        Ok(std::fs::metadata(self.0.join(name))?.len())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.0.join(name))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.0.join(from), self.0.join(to))
    }
}

type Result<T> = std::result::Result<T, DiskError>;

/// The outcome of a job, and the task that waits for it.
type Slot = Arc<Mutex<(Option<Result<Done>>, Option<Waker>)>>;

/// A thread that runs one job after the other. It ends once nobody has jobs for it.
pub(super) struct Worker(Sender<(Job, Slot)>);

impl Worker {
    /// Starts a thread for this disk.
    pub(super) fn start(disk: Arc<dyn Disk>) -> Worker {
        let (jobs, next) = channel::<(Job, Slot)>();
        std::thread::spawn(move || {
            for (job, slot) in next {
                let done = job.run(&*disk);
                let mut slot = slot.lock().unwrap_or_else(|error| error.into_inner());
                slot.0 = Some(done);
                slot.1.take().into_iter().for_each(Waker::wake);
            }
        });
        Worker(jobs)
    }

    /// Runs a job there.
    ///
    /// # Panics
    /// If the thread is gone.
    pub(super) async fn run(&self, job: Job) -> Result<Done> {
        let slot = Slot::default();
        self.0.send((job, slot.clone())).expect("the thread lives as long as this");
        poll_fn(|context| {
            let mut slot = slot.lock().unwrap_or_else(|error| error.into_inner());
            match slot.0.take() {
                Some(done) => Poll::Ready(done),
                None => {
                    slot.1 = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}
