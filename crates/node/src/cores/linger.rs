use std::task::{Context, Poll, Waker, ready};

use leveret_broker::Nanos;

use super::stream::Stream;
use super::timers::Alarm;
use super::wheel::firing_time;

/// Longest time that a closed connection waits for its peer to close too.
const PATIENCE_NS: Nanos = 1_000_000_000;
/// Number of reads that are discarded in one turn.
const READS: usize = 16;

/// The end of a connection: our side of the socket is shut down and further input is discarded.
///
/// Closing a socket with unread input makes the kernel send a reset, and a reset makes the peer lose the data that it
/// hasn't read yet: the `connection.close` with the reason.
#[derive(Debug)]
pub(crate) struct Linger {
    until: Nanos,
    /// Our side is shut down.
    shut: bool,
}

impl Linger {
    pub(crate) fn start(alarm: &Alarm, now: Nanos, waker: &Waker) -> Self {
        let until = firing_time(now + PATIENCE_NS);
        alarm.arm(until, waker);
        Self { until, shut: false }
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, stream: &mut Stream, now: Nanos) -> Poll<()> {
        if now >= self.until {
            return Poll::Ready(());
        }
        if !self.shut {
            // It fails if the peer is gone already, which the read detects.
            let _ = ready!(stream.poll_shutdown(cx));
            self.shut = true;
        }
        for _ in 0..READS {
            match stream.poll_discard(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(1..)) => {}
                Poll::Ready(_) => return Poll::Ready(()),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}
