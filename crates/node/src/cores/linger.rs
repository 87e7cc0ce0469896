use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use leveret_broker::Nanos;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::TcpStream;

use super::Core;
use super::wheel::firing_time;

/// How long a closed connection waits for its peer to close too.
const PATIENCE_NS: Nanos = 1_000_000_000;
/// Reads that are thrown away in one turn.
const READS: usize = 16;

/// The end of a connection: our side of the socket is shut and what still comes in is thrown away.
///
/// Closing a socket that holds unread input makes the kernel send a reset, and a reset lets the peer
/// lose what it hasn't read yet: the `connection.close` that says why.
#[derive(Debug)]
pub(crate) struct Linger {
    until: Nanos,
}

impl Linger {
    pub(crate) fn start(stream: &TcpStream, core: &Core, now: Nanos, waker: &Waker) -> Self {
        // It fails if the peer is gone already, which the read finds out.
        let _ = socket2::SockRef::from(stream).shutdown(std::net::Shutdown::Write);
        let until = firing_time(now + PATIENCE_NS);
        core.timers.arm(until, waker.clone());
        Self { until }
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, stream: &mut TcpStream, now: Nanos) -> Poll<()> {
        if now >= self.until {
            return Poll::Ready(());
        }
        let mut scratch = [0; 4096];
        for _ in 0..READS {
            let mut into = ReadBuf::new(&mut scratch);
            match Pin::new(&mut *stream).poll_read(cx, &mut into) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(())) if !into.filled().is_empty() => {}
                Poll::Ready(_) => return Poll::Ready(()),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}
