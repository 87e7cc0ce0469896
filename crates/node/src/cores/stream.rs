//! A client's socket, with or without TLS.

use std::fs::File;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker, ready};

use leveret_broker::output::FilePart;
use rustix::fs::sendfile;
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use crate::data_link::Socket;

/// The stream of one client.
#[derive(Debug)]
pub(crate) enum Stream {
    Plain(TcpStream),
    Tls(Box<Records<TlsStream<TcpStream>>>),
    /// A link to another node, with or without TLS. The cluster's thread watches its socket.
    Link(Records<Socket>),
}

/// The parts of a connection that its peer has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PeerEnd {
    /// None.
    Nothing,
    /// The peer sends nothing more. What it sent before may still be in the socket.
    Sending,
    /// The connection was reset.
    Everything,
}

/// The state of a stream that may have records of TLS; see [`Stream::Tls`].
#[derive(Debug)]
pub(crate) struct Records<S> {
    stream: S,
    /// The last read took everything, and the runtime wakes the task when more comes.
    is_drained: bool,
    /// Bytes may wait for room in the socket.
    is_unflushed: bool,
}

impl<S> Records<S> {
    fn new(stream: S) -> Self {
        Self { stream, is_drained: false, is_unflushed: false }
    }
}

impl<S: AsyncRead + Unpin> Records<S> {
    /// Reads records until there is none, or no room. One record is 16 KiB at most; records that are read together lock
    /// their queue once and wake its consumer once.
    fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let begin = into.filled().len();
        self.is_drained = false;
        loop {
            let before = into.filled().len();
            let has_read = before > begin;
            match Pin::new(&mut self.stream).poll_read(cx, into) {
                Poll::Ready(Ok(())) if into.filled().len() > before && into.remaining() > 0 => {}
                // The end, or an error after data, is returned again by the next read.
                Poll::Ready(read) => return Poll::Ready(if has_read { Ok(()) } else { read }),
                Poll::Pending => {
                    self.is_drained = true;
                    return if has_read { Poll::Ready(Ok(())) } else { Poll::Pending };
                }
            }
        }
    }
}

/// Calls the system when the socket has room, until it takes something.
fn poll_io(
    stream: &TcpStream,
    cx: &mut Context<'_>,
    mut call: impl FnMut(&TcpStream) -> Result<usize, Errno>,
) -> Poll<io::Result<usize>> {
    loop {
        ready!(stream.poll_write_ready(cx))?;
        match stream.try_io(Interest::WRITABLE, || call(stream).map_err(io::Error::from)) {
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            done => return Poll::Ready(done),
        }
    }
}

impl Stream {
    pub(crate) fn tls(stream: TlsStream<TcpStream>) -> Self {
        Self::Tls(Box::new(Records::new(stream)))
    }

    pub(super) fn link(socket: Socket) -> Self {
        Self::Link(Records::new(socket))
    }

    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, into),
            Self::Tls(tls) => tls.poll_read(cx, into),
            Self::Link(link) => link.poll_read(cx, into),
        }
    }

    /// The parts that the peer has ended, as far as the system has told the runtime: it does so although nobody reads the socket. There is no
    /// system call, and nobody is woken.
    pub(crate) fn peer_end(&self) -> PeerEnd {
        let socket = match self {
            Self::Plain(stream) => stream,
            Self::Tls(tls) => tls.stream.get_ref().0,
            // A link is always read.
            Self::Link(_) => return PeerEnd::Nothing,
        };
        let asked = pin!(socket.ready(Interest::READABLE | Interest::WRITABLE));
        match asked.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(known)) if known.is_write_closed() => PeerEnd::Everything,
            Poll::Ready(Ok(known)) if known.is_read_closed() => PeerEnd::Sending,
            Poll::Ready(Ok(_)) | Poll::Pending => PeerEnd::Nothing,
            Poll::Ready(Err(_)) => PeerEnd::Everything,
        }
    }

    /// Whether there is more to read after a read, or may be.
    pub(crate) fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            // A read that didn't fill its buffer has emptied the socket, and the runtime knows it: this
            // registers for the next packet without another system call.
            Self::Plain(stream) => stream.poll_read_ready(cx).map(|_| ()),
            // Data that was already decrypted isn't visible here; unless the last read left nothing, the next one finds
            // out.
            Self::Tls(tls) if tls.is_drained => Poll::Pending,
            Self::Link(link) if link.is_drained => Poll::Pending,
            Self::Tls(_) | Self::Link(_) => Poll::Ready(()),
        }
    }

    pub(crate) fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Tls(tls) => Pin::new(&mut tls.stream).poll_write(cx, bytes),
            Self::Link(link) => {
                link.is_unflushed = true;
                Pin::new(&mut link.stream).poll_write(cx, bytes)
            }
        }
    }

    /// As [`poll_write`](Self::poll_write), of bytes that a part of a file follows: they go on their way with that. Without TLS only.
    pub(crate) fn poll_write_before_file(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let Self::Plain(stream) = self else { return self.poll_write(cx, bytes) };
        poll_io(stream, cx, |stream| send(stream, bytes, SendFlags::MORE | SendFlags::NOSIGNAL))
    }

    /// Sends a part of a file that [`crate::disk::FsDisk`] lent. Returns how many of its bytes the socket took.
    pub(crate) fn poll_send_file(&mut self, cx: &mut Context<'_>, part: &FilePart) -> Poll<io::Result<usize>> {
        let (Self::Plain(stream), Some(file)) = (self, part.file.downcast_ref::<File>()) else {
            return Poll::Ready(Err(io::Error::other("a part of a file can't be sent over TLS")));
        };
        let (mut at, length) = (part.at, part.length as usize);
        match ready!(poll_io(stream, cx, |stream| sendfile(stream, file, Some(&mut at), length)))? {
            0 => Poll::Ready(Err(io::Error::other("the file is shorter than it was"))),
            sent => Poll::Ready(Ok(sent)),
        }
    }

    /// Whether encrypted output waits for room in the socket.
    pub(crate) fn wants_flush(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(tls) => tls.stream.get_ref().1.wants_write(),
            Self::Link(link) => link.is_unflushed,
        }
    }

    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(_) => Poll::Ready(Ok(())),
            Self::Tls(tls) => Pin::new(&mut tls.stream).poll_flush(cx),
            Self::Link(link) => {
                ready!(Pin::new(&mut link.stream).poll_flush(cx))?;
                link.is_unflushed = false;
                Poll::Ready(Ok(()))
            }
        }
    }

    /// Shuts the writing side down, with TLS's own message too.
    pub(crate) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(tls) => Pin::new(&mut tls.stream).poll_shutdown(cx),
            Self::Link(link) => Pin::new(&mut link.stream).poll_shutdown(cx),
        }
    }

    /// Discards input. Returns the number of bytes, 0 at the end.
    pub(crate) fn poll_discard(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut scratch = [0; 4096];
        let mut into = ReadBuf::new(&mut scratch);
        let read = match self {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, &mut into),
            Self::Tls(tls) => Pin::new(tls.stream.get_mut().0).poll_read(cx, &mut into),
            Self::Link(link) => Pin::new(&mut link.stream).poll_read(cx, &mut into),
        };
        ready!(read)?;
        Poll::Ready(Ok(into.filled().len()))
    }
}
