use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};

use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};

/// Makes SIGHUP call `work` on this runtime instead of ending the process.
pub(crate) fn on_hangup(runtime: &Handle, mut work: impl FnMut() + Send + 'static) -> io::Result<()> {
    let _inside = runtime.enter();
    let mut hangup = signal(SignalKind::hangup())?;
    runtime.spawn(async move {
        while hangup.recv().await.is_some() {
            work();
        }
    });
    Ok(())
}

/// Handles SIGTERM and SIGINT, which no longer end the process. The receiver gets the name of the first signal, or the
/// name sent through the sender.
pub(crate) fn listen(runtime: &Handle) -> io::Result<(Sender<&'static str>, Receiver<&'static str>)> {
    let (sender, arrived) = channel();
    let others = sender.clone();
    let _inside = runtime.enter();
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    runtime.spawn(async move {
        let name = tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        };
        // It only fails if the receiver was dropped.
        let _ = sender.send(name);
    });
    Ok((others, arrived))
}
