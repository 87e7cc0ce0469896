//! Signals of the process. They are handled from its first moment on, so that one that comes during a start ends the start
//! as cleanly as it ends a node.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use parking_lot::Mutex;
use rustix::process::WaitOptions;
use tokio::runtime::{Builder, Handle};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

/// The signals of the process and their receivers. They belong to the process and outlive its nodes.
struct State {
    is_handled: bool,
    /// The first signal that asked the process to end.
    end: Option<&'static str>,
    /// The nodes that a signal ends.
    waiting: Vec<Sender<&'static str>>,
    /// Whether SIGHUP came while nobody received it.
    is_hung_up: bool,
    hang_up: Option<UnboundedSender<()>>,
}

/// The id of the first process of a system or a container.
const FIRST_PROCESS: u32 = 1;

static STATE: Mutex<State> =
    Mutex::new(State { is_handled: false, end: None, waiting: Vec::new(), is_hung_up: false, hang_up: None });

/// Handles SIGTERM, SIGINT and SIGHUP from now on: they no longer end the process. They are kept for the node that starts
/// next. To be called before a port or the data directory is opened.
///
/// # Errors
/// The system provides no thread, or doesn't let the process handle signals.
pub fn handle_signals() -> io::Result<()> {
    let mut state = STATE.lock();
    if state.is_handled {
        return Ok(());
    }
    let runtime = Builder::new_current_thread().enable_io().build()?;
    let inside = runtime.enter();
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    // The first process of a container inherits the processes whose parents have ended, and nobody else waits for them.
    let mut child = (std::process::id() == FIRST_PROCESS).then(|| signal(SignalKind::child())).transpose()?;
    drop(inside);
    let receive = async move {
        loop {
            tokio::select! {
                Some(()) = terminate.recv() => end("SIGTERM"),
                Some(()) = interrupt.recv() => end("SIGINT"),
                Some(()) = hangup.recv() => hang_up(),
                Some(()) = next(&mut child) => reap(),
                else => return,
            }
        }
    };
    thread::Builder::new().name("leveret-signals".to_owned()).spawn(move || runtime.block_on(receive))?;
    state.is_handled = true;
    Ok(())
}

/// The next signal; none if it isn't handled.
async fn next(signal: &mut Option<Signal>) -> Option<()> {
    signal.as_mut()?.recv().await
}

/// Waits for every process that has ended: one signal may stand for several. The node itself starts none.
fn reap() {
    while let Ok(Some(_)) = rustix::process::wait(WaitOptions::NOHANG) {}
}

/// The signal that asked the process to end, if one has come.
#[must_use]
pub fn asked_to_end() -> Option<&'static str> {
    STATE.lock().end
}

fn end(signal: &'static str) {
    let mut state = STATE.lock();
    state.end.get_or_insert(signal);
    // A node that has ended receives nothing any more.
    state.waiting.retain(|node| node.send(signal).is_ok());
}

fn hang_up() {
    let mut state = STATE.lock();
    state.is_hung_up = state.hang_up.as_ref().is_none_or(|node| node.send(()).is_err());
}

/// Makes SIGHUP call `work` on this runtime, also for one that came before.
pub(crate) fn on_hangup(runtime: &Handle, mut work: impl FnMut() + Send + 'static) -> io::Result<()> {
    handle_signals()?;
    let (sender, mut arrived) = unbounded_channel();
    let mut state = STATE.lock();
    if std::mem::take(&mut state.is_hung_up) {
        // The receiver is here.
        let _ = sender.send(());
    }
    state.hang_up = Some(sender);
    drop(state);
    runtime.spawn(async move {
        while arrived.recv().await.is_some() {
            work();
        }
    });
    Ok(())
}

/// Listens for SIGTERM and SIGINT. The receiver gets the name of the first signal, even if it came before, or the name sent
/// through the sender.
pub(crate) fn listen() -> io::Result<(Sender<&'static str>, Receiver<&'static str>)> {
    handle_signals()?;
    let (sender, arrived) = channel();
    let mut state = STATE.lock();
    if let Some(signal) = state.end {
        // The receiver is here.
        let _ = sender.send(signal);
    }
    state.waiting.push(sender.clone());
    Ok((sender, arrived))
}
