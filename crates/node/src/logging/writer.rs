//! The thread of an output.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use leveret_config::{LogCategory, LogLevel};
use parking_lot::{Condvar, Mutex};

use super::line::Line;
use super::sink::Sink;

/// Largest number of lines that wait for an output; further ones are counted and lost.
const LINES_MAX: usize = 100_000;
/// Capacity in lines that is kept after a burst.
const LINES_KEPT: usize = 1024;
/// Interval at which a thread checks the clock, for rotations by date, and unreachable servers.
const TICK: Duration = Duration::from_secs(30);

/// An output and its thread, which ends with it.
pub(super) struct Writer {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Signals that there is work.
    work: Condvar,
    /// Signals that all work is done.
    done: Condvar,
}

#[derive(Default)]
struct State {
    lines: VecDeque<Arc<Line>>,
    lost: u64,
    rotate: bool,
    reopen: bool,
    is_busy: bool,
    is_over: bool,
}

impl Writer {
    /// Starts the thread. If it can't be started, nothing is written.
    pub(super) fn start(sink: Sink) -> Self {
        let shared = Arc::new(Shared::default());
        let of_thread = shared.clone();
        let started = thread::Builder::new().name("log".to_owned()).spawn(move || run(sink, &of_thread));
        if let Err(reason) = started {
            eprintln!("leveret: cannot start a thread for the log: {reason}");
            shared.state.lock().is_over = true;
        }
        Self { shared }
    }

    pub(super) fn write(&self, line: Arc<Line>) {
        let mut state = self.shared.state.lock();
        if state.is_over {
            return;
        }
        if state.lines.len() >= LINES_MAX {
            state.lost += 1;
            return;
        }
        state.lines.push_back(line);
        if state.lines.len() == 1 {
            self.shared.work.notify_one();
        }
    }

    pub(super) fn rotate(&self) {
        self.shared.state.lock().rotate = true;
        self.shared.work.notify_one();
    }

    pub(super) fn reopen(&self) {
        self.shared.state.lock().reopen = true;
        self.shared.work.notify_one();
    }

    /// Waits until everything is written, or until the deadline.
    pub(super) fn flush(&self, deadline: Instant) {
        let mut state = self.shared.state.lock();
        while !state.is_over && (state.has_work() || state.is_busy) {
            if self.shared.done.wait_until(&mut state, deadline).timed_out() {
                return;
            }
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.shared.state.lock().is_over = true;
        self.shared.work.notify_one();
    }
}

impl State {
    fn has_work(&self) -> bool {
        !self.lines.is_empty() || self.lost != 0 || self.rotate || self.reopen
    }
}

fn run(mut sink: Sink, shared: &Shared) {
    let mut lines = VecDeque::new();
    loop {
        let (lost, rotate, reopen);
        {
            let mut state = shared.state.lock();
            state.is_busy = false;
            shared.done.notify_all();
            let deadline = Instant::now() + TICK;
            while !state.has_work() && !state.is_over {
                if shared.work.wait_until(&mut state, deadline).timed_out() {
                    break;
                }
            }
            if state.is_over && !state.has_work() {
                return;
            }
            state.is_busy = true;
            std::mem::swap(&mut state.lines, &mut lines);
            (lost, rotate, reopen) = (state.lost, state.rotate, state.reopen);
            (state.lost, state.rotate, state.reopen) = (0, false, false);
        }
        sink.look_at_clock(SystemTime::now());
        lines.drain(..).for_each(|line| sink.write(&line));
        // Bursts are rare, so their memory is freed.
        lines.shrink_to(LINES_KEPT);
        if lost != 0 {
            sink.write(&loss(lost));
        }
        sink.flush();
        if reopen {
            sink.reopen();
        }
        if rotate {
            sink.rotate();
        }
    }
}

/// The line that reports lost lines, so that a gap is never silent.
fn loss(lost: u64) -> Line {
    Line {
        time: SystemTime::now(),
        level: LogLevel::Error,
        category: LogCategory::Default,
        message: format!("{lost} lines of the log are lost: more than {LINES_MAX} waited for this output"),
        pid: 0,
        fields: Vec::new(),
        source: None,
    }
}
