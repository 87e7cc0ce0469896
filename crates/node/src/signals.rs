use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};

use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};

/// From now on SIGTERM and SIGINT no longer end the process; the name of the first one arrives here, or what somebody
/// else has sent.
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
        // It fails only if nobody waits any more.
        let _ = sender.send(name);
    });
    Ok((others, arrived))
}
