use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use leveret_broker::{Broker, Connection, Nanos, Now, Peer, Protocols};
use tokio::io::ReadBuf;
use tracing::debug;

use super::Core;
use super::linger::Linger;
use super::precise::PreciseTimer;
use super::stream::Stream;
use super::timers::Alarm;
use super::unread::Unread;
use super::wake::TaskWake;

/// Largest size of one read and of one write in bytes, which bounds a turn.
const READ_BYTES: usize = 128 * 1024;
const WRITE_BYTES: usize = 128 * 1024;
/// A kept partial frame up to this size is copied in front of the next read. To a longer one the read is appended, so
/// that a large frame that comes in small packets isn't copied again with each of them.
const HEAD_BYTES: usize = 16 * 1024;
/// When a connection frees so many bytes of unfinished messages, the allocator is to return them: the memory alarm looks at what the
/// process has.
const FREED_BYTES: u64 = 256 * 1024;
/// Longest time for writing the rest of the output to a peer when its connection is over.
const LAST_WORDS_NS: Nanos = 5_000_000_000;

/// One connection: its socket and the broker's side of it, driven by one task.
///
/// Each poll is one turn: at most one read, one check of the broker's effects, one write.
pub(crate) struct ConnectionTask {
    stream: Stream,
    connection: Connection,
    core: Arc<Core>,
    alarm: Alarm,
    /// Input that the connection didn't consume: a partial frame, or input that flow control blocks. An idle connection
    /// has none, and then this owns no memory.
    kept: Vec<u8>,
    /// Flow control refused `kept`; it is offered again before anything is read.
    held_back: bool,
    /// The deadline that is armed in the core's wheel.
    armed: Option<Nanos>,
    /// The timer for the next turn of a paced publisher.
    pace: PreciseTimer,
    /// Whether the peer has left is looked at while its input isn't read.
    unread: Unread,
    /// Bytes of its unfinished input after the last turn.
    unfinished: u64,
    last_words: Option<LastWords>,
    lingering: Option<Linger>,
    disconnected: bool,
    /// The socket needs no further handling.
    has_ended: bool,
}

/// The output that a finished connection still has to write.
#[derive(Debug, Clone, Copy)]
struct LastWords {
    until: Nanos,
    /// Number of bytes left to write. Bytes that the broker adds after them, while it ends the connection, aren't
    /// written.
    left: usize,
}

/// The result of a step of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Nothing more to do until a wake-up.
    Idle,
    /// There is more to do in the next turn.
    More,
    /// The socket is unusable.
    Gone,
}

impl ConnectionTask {
    /// Serves a connection until it ends. The time limit for its login began when it was accepted.
    pub(crate) async fn serve(
        stream: Stream,
        peer: Peer,
        core: Arc<Core>,
        broker: &Arc<Broker>,
        protocols: &Protocols,
        accepted: Now,
    ) {
        let (wake, index) = (Self::wake(&core).await, core.index);
        let connection = broker.accept(protocols, peer, wake, index, accepted);
        Self::new(stream, connection, core, Vec::new()).await;
    }

    /// The wake-up of this task.
    pub(super) async fn wake(core: &Core) -> Arc<TaskWake> {
        let waker = poll_fn(|cx| Poll::Ready(cx.waker().clone())).await;
        Arc::new(TaskWake::new(waker, core.mailbox.clone()))
    }

    /// The task of a connection, of which these bytes have come already.
    pub(super) fn new(stream: Stream, connection: Connection, core: Arc<Core>, begin: Vec<u8>) -> Self {
        Self {
            stream,
            connection,
            alarm: core.timers.alarm(),
            core,
            held_back: !begin.is_empty(),
            kept: begin,
            armed: None,
            pace: PreciseTimer::default(),
            unread: Unread::default(),
            unfinished: 0,
            last_words: None,
            lingering: None,
            disconnected: false,
            has_ended: false,
        }
    }

    /// Ends the connection's resources in turns. The broker knows that the socket is closed.
    fn go_on_ending(&mut self, cx: &mut Context<'_>) {
        self.connection.turn(self.core.clock.now());
        cx.waker().wake_by_ref();
    }

    fn turn(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut now = self.core.clock.now();
        if self.armed.is_some_and(|at| at <= now.monotonic) {
            self.armed = None;
        }
        if self.connection.is_killed() {
            return self.end(cx, now);
        }
        // Input may be unblocked at any moment, even by another thread while none is handled.
        let held_before = !self.connection.wants_read();
        let input = self.take_input(cx, &mut now);
        if input == Step::Gone {
            return self.end(cx, now);
        }
        let held = held_before || !self.connection.wants_read();
        self.connection.turn(now);
        self.connection.keeps(self.kept.capacity());
        self.note_freed(now);
        let output = self.write(cx, now);
        // The turn or the write may have unblocked input; nothing else would wake this task for it.
        let released = held && self.connection.wants_read();
        if output == Step::Gone {
            return self.end(cx, now);
        }
        if self.connection.is_finished() {
            return self.finish(cx, now);
        }
        if self.has_left(now) {
            return self.end(cx, now);
        }
        self.arm(cx, now);
        self.arm_pace(cx);
        if input == Step::More || output == Step::More || released || self.connection.wants_turn() {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// Offers blocked input again, then reads once, after which it is later.
    fn take_input(&mut self, cx: &mut Context<'_>, now: &mut Now) -> Step {
        if !self.connection.wants_read() {
            return Step::Idle;
        }
        if self.held_back {
            let consumed = self.connection.receive(&self.kept, *now);
            forget(&mut self.kept, consumed);
            self.held_back = !self.connection.wants_read();
            if self.held_back {
                return Step::Idle;
            }
        }
        let mut buffer = std::mem::take(&mut *self.core.buffer.lock());
        if buffer.is_empty() {
            // Zeroed by the system, which takes memory for a part of it once that is written to.
            buffer = vec![0; HEAD_BYTES + READ_BYTES];
        }
        let step = match self.read(cx, &mut buffer, now) {
            Poll::Pending => Step::Idle,
            Poll::Ready(Ok(true)) => Step::More,
            Poll::Ready(Ok(false)) => Step::Gone,
            Poll::Ready(Err(error)) => {
                debug!("cannot read from a connection: {error}");
                Step::Gone
            }
        };
        *self.core.buffer.lock() = buffer;
        if step != Step::More || !self.connection.wants_read() {
            return step;
        }
        match self.stream.poll_more(cx) {
            Poll::Pending => Step::Idle,
            Poll::Ready(()) => Step::More,
        }
    }

    /// Does one read and hands it to the connection; false at the end of the peer's stream.
    fn read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8], now: &mut Now) -> Poll<io::Result<bool>> {
        let head = if self.kept.len() <= HEAD_BYTES { self.kept.len() } else { 0 };
        let mut into = ReadBuf::new(&mut buffer[head..head + READ_BYTES]);
        ready!(self.stream.poll_read(cx, &mut into))?;
        let read = into.filled().len();
        if read == 0 {
            return Poll::Ready(Ok(false));
        }
        // A client that looks for its messages by the time at which it sent them finds them: they are no older than that.
        *now = self.core.clock.now();
        let now = *now;
        self.connection.transferred(read, 0, now);
        self.core.load.add(now.monotonic, read);
        if head == self.kept.len() {
            buffer[..head].copy_from_slice(&self.kept);
            let input = &buffer[..head + read];
            let consumed = self.connection.receive(input, now);
            replace(&mut self.kept, &input[consumed..]);
        } else {
            self.kept.extend_from_slice(&buffer[..read]);
            let consumed = self.connection.receive(&self.kept, now);
            forget(&mut self.kept, consumed);
        }
        self.held_back = !self.kept.is_empty() && !self.connection.wants_read();
        Poll::Ready(Ok(true))
    }

    fn write(&mut self, cx: &mut Context<'_>, now: Now) -> Step {
        let left = self.connection.output().len();
        if left == 0 {
            return self.flush(cx);
        }
        let mut done = 0;
        loop {
            match self.write_once(cx, left - done, now) {
                Poll::Pending => return Step::Idle,
                Poll::Ready(Some(written)) => done += written,
                Poll::Ready(None) => return Step::Gone,
            }
            if done == left {
                return self.flush(cx);
            }
            // If the socket is full, the next turn finds that out, and waits, without a system call. Bytes and parts of files take a
            // call each.
            if done >= WRITE_BYTES || self.connection.output().next_file().is_none() {
                return Step::More;
            }
        }
    }

    /// Flushes the stream: with TLS a write may have accepted more than the socket has.
    fn flush(&mut self, cx: &mut Context<'_>) -> Step {
        if !self.stream.wants_flush() {
            return Step::Idle;
        }
        match self.stream.poll_flush(cx) {
            Poll::Pending | Poll::Ready(Ok(())) => Step::Idle,
            Poll::Ready(Err(error)) => {
                debug!("cannot write to a connection: {error}");
                Step::Gone
            }
        }
    }

    /// Writes at most `most` bytes of the output once. Returns the number of bytes that the socket took, none if it is
    /// unusable.
    fn write_once(&mut self, cx: &mut Context<'_>, most: usize, now: Now) -> Poll<Option<usize>> {
        let output = self.connection.output();
        let bytes = output.pending();
        let written = match output.next_file() {
            None => self.stream.poll_write(cx, &bytes[..most.min(WRITE_BYTES)]),
            Some(part) if bytes.is_empty() => self.stream.poll_send_file(cx, part),
            Some(_) => self.stream.poll_write_before_file(cx, bytes),
        };
        match ready!(written) {
            Ok(written) => {
                output.written(written);
                self.connection.transferred(0, written, now);
                self.core.load.add(now.monotonic, written);
                Poll::Ready(Some(written))
            }
            Err(error) => {
                debug!("cannot write to a connection: {error}");
                Poll::Ready(None)
            }
        }
    }

    /// Has memory of unfinished input returned.
    fn note_freed(&mut self, now: Now) {
        let unfinished = self.connection.unfinished_bytes();
        let before = std::mem::replace(&mut self.unfinished, unfinished);
        if before >= unfinished + FREED_BYTES {
            self.core.timers.free_soon(now.monotonic);
        }
    }

    /// Whether the peer has left while its input isn't read.
    fn has_left(&mut self, now: Now) -> bool {
        if self.connection.wants_read() {
            self.unread.end();
            return false;
        }
        let stream = &self.stream;
        let is_over = self.unread.is_over(now.monotonic, || stream.peer_end());
        if is_over {
            debug!("the peer of a connection that isn't read has left");
        }
        is_over
    }

    fn arm(&mut self, cx: &mut Context<'_>, now: Now) {
        let deadlines = [self.connection.next_deadline(), self.unread.next_look()];
        let Some(deadline) = deadlines.into_iter().flatten().min() else { return };
        let fires = super::wheel::firing_time(deadline.max(now.monotonic + 1));
        if self.armed.is_none_or(|armed| fires < armed) {
            self.alarm.arm(fires, cx.waker());
            self.armed = Some(fires);
        }
    }

    /// Paced publishers wait for milliseconds, for which the core's wheel is too coarse.
    fn arm_pace(&mut self, cx: &mut Context<'_>) {
        if self.pace.is_due(self.connection.next_pace(), &self.core.clock, cx) {
            cx.waker().wake_by_ref();
        }
    }

    /// Writes the rest of the output, if the peer takes it, once the broker is done.
    fn finish(&mut self, cx: &mut Context<'_>, now: Now) -> Poll<()> {
        let left = self.connection.output().len();
        self.tell_broker(now);
        if self.connection.is_ending() {
            cx.waker().wake_by_ref();
        }
        self.kept = Vec::new();
        if left == 0 {
            return self.close(cx, now);
        }
        let until = super::wheel::firing_time(now.monotonic + LAST_WORDS_NS);
        self.alarm.arm(until, cx.waker());
        self.last_words = Some(LastWords { until, left });
        self.write_last_words(cx)
    }

    fn write_last_words(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let now = self.core.clock.now();
        while let Some(LastWords { until, left: left @ 1.. }) = self.last_words
            && now.monotonic < until
        {
            match ready!(self.write_once(cx, left, now)) {
                Some(written) => self.last_words = Some(LastWords { until, left: left - written }),
                None => return Poll::Ready(()),
            }
        }
        self.last_words = None;
        self.close(cx, now)
    }

    /// Closes the socket so that the peer can read everything that was written.
    fn close(&mut self, cx: &mut Context<'_>, now: Now) -> Poll<()> {
        let linger = Linger::start(&self.alarm, now.monotonic, cx.waker());
        self.lingering = Some(linger);
        self.linger(cx)
    }

    fn linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.lingering {
            Some(linger) => linger.poll(cx, &mut self.stream, self.core.clock.monotonic()),
            None => Poll::Ready(()),
        }
    }

    fn end(&mut self, cx: &mut Context<'_>, now: Now) -> Poll<()> {
        self.tell_broker(now);
        self.has_ended = true;
        if !self.connection.is_ending() {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn tell_broker(&mut self, now: Now) {
        if !self.disconnected {
            self.disconnected = true;
            self.connection.disconnected(now);
            self.connection.keeps(0);
            self.note_freed(now);
        }
    }
}

impl Future for ConnectionTask {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.core.collect_mail();
        if self.disconnected && self.connection.is_ending() {
            self.go_on_ending(cx);
            Poll::Pending
        } else if self.has_ended {
            Poll::Ready(())
        } else if self.lingering.is_some() {
            self.linger(cx)
        } else if self.last_words.is_some() {
            self.write_last_words(cx)
        } else {
            self.turn(cx)
        }
    }
}

impl Drop for ConnectionTask {
    fn drop(&mut self) {
        let now = self.core.clock.now();
        self.tell_broker(now);
        // Nothing polls it any more.
        while self.connection.is_ending() {
            self.connection.turn(now);
        }
    }
}

/// Drops the consumed front; the rest owns no more memory than it needs.
fn forget(kept: &mut Vec<u8>, consumed: usize) {
    if consumed == kept.len() {
        *kept = Vec::new();
    } else {
        kept.drain(..consumed);
        if kept.capacity() > 4 * kept.len().max(1024) {
            kept.shrink_to_fit();
        }
    }
}

fn replace(kept: &mut Vec<u8>, rest: &[u8]) {
    if rest.is_empty() {
        *kept = Vec::new();
    } else {
        kept.clear();
        kept.extend_from_slice(rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fully_consumed_input_leaves_no_memory_behind() {
        let mut kept = vec![7; 100_000];
        forget(&mut kept, 100_000);
        assert_eq!(kept.capacity(), 0);
        replace(&mut kept, &[1, 2, 3]);
        assert_eq!(kept, [1, 2, 3]);
        replace(&mut kept, &[]);
        assert_eq!(kept.capacity(), 0);
    }

    #[test]
    fn a_short_rest_of_a_long_frame_gives_its_memory_back() {
        let mut kept = vec![7; 100_000];
        forget(&mut kept, 99_990);
        assert_eq!(kept, [7; 10]);
        assert!(kept.capacity() < 1_000);
    }
}
