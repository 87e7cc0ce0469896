//! The lines of a start that takes long: a busy disk may hold it up, and a node that says nothing looks dead.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Interval of the lines.
pub(crate) const INTERVAL: Duration = Duration::from_secs(10);

/// Tells what a start is doing each time an interval has passed, until it is dropped.
pub(crate) struct StartWatch {
    step: Arc<Mutex<&'static str>>,
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl StartWatch {
    /// # Errors
    /// There is no thread.
    pub(crate) fn begin(interval: Duration, tell: impl Fn(&str) + Send + 'static) -> io::Result<StartWatch> {
        let step: Arc<Mutex<&'static str>> = Arc::default();
        let (end, ended) = channel::<()>();
        let (began, shown) = (Instant::now(), step.clone());
        let watch = move || {
            while ended.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                let step = *shown.lock();
                if !step.is_empty() {
                    tell(&format!("the node still starts, since {} s: {step}", began.elapsed().as_secs()));
                }
            }
        };
        let thread = thread::Builder::new().name("leveret-start".to_owned()).spawn(watch)?;
        Ok(StartWatch { step, end: Some(end), thread: Some(thread) })
    }

    /// The step that begins now.
    pub(crate) fn step(&self, step: &'static str) {
        *self.step.lock() = step;
    }
}

impl Drop for StartWatch {
    fn drop(&mut self) {
        self.end.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[test]
fn a_start_that_takes_long_says_what_it_does() {
    let (told, lines) = channel();
    let tell = move |line: &str| drop(told.send(line.to_owned()));
    let watch = StartWatch::begin(Duration::from_millis(1), tell).expect("a thread");
    watch.step("it reads its store");
    let line = lines.recv().expect("a line");
    assert!(line.starts_with("the node still starts, since ") && line.ends_with(" s: it reads its store"), "{line}");
    drop(watch);
    assert!(lines.iter().all(|line| line.contains("it reads")), "the thread has ended");
}
