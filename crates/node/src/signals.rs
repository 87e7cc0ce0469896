use std::io;
use std::sync::mpsc;

use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};

/// Blocks until SIGTERM or SIGINT came; which one.
pub(crate) fn wait(runtime: &Handle) -> io::Result<&'static str> {
    let (sender, arrived) = mpsc::channel();
    runtime.spawn(async move {
        // It fails only if nobody waits any more.
        let _ = sender.send(first().await);
    });
    arrived.recv().unwrap_or_else(|_| Err(io::Error::other("the runtime has ended")))
}

async fn first() -> io::Result<&'static str> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    })
}
