//! Bytes on their way to a socket.
//!
//! An idle connection owns no buffer: an output borrows one from its thread when it has bytes to send, and returns it when the
//! socket has taken all.

use std::cell::RefCell;

use crate::settings::OUTPUT_BYTES_MAX;

/// Capacity above which a buffer isn't kept.
const KEEP_BYTES: usize = 512 << 10;
/// Number of written bytes from which on moving the rest to the front is worthwhile.
const MOVE_BYTES: usize = 64 << 10;
const POOL_BUFFERS: usize = 16;

thread_local! {
    static POOL: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// The bytes that wait for a connection's socket.
#[derive(Debug, Default)]
pub struct Output {
    bytes: Vec<u8>,
    written: usize,
}

impl Output {
    /// The buffer that frames are appended to.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        if self.bytes.capacity() == 0
            && let Some(spare) = POOL.with_borrow_mut(Vec::pop)
        {
            self.bytes = spare;
        }
        &mut self.bytes
    }

    /// The bytes that the socket has to take next.
    pub fn pending(&self) -> &[u8] {
        &self.bytes[self.written..]
    }

    /// Number of waiting bytes.
    pub fn len(&self) -> usize {
        self.bytes.len() - self.written
    }

    /// Whether the socket has taken all bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the socket is so far behind that the client shouldn't be asked for more.
    pub fn is_full(&self) -> bool {
        self.len() >= OUTPUT_BYTES_MAX
    }

    /// The socket took `count` bytes.
    ///
    /// # Panics
    /// If fewer bytes were waiting.
    pub fn written(&mut self, count: usize) {
        self.written += count;
        assert!(self.written <= self.bytes.len(), "more written than there was");
        if self.written < self.bytes.len() {
            // A slow but steady client never lets it become empty, so written bytes have to be removed before that.
            if self.written >= MOVE_BYTES && self.written >= self.len() {
                self.bytes.drain(..self.written);
                self.written = 0;
            }
            return;
        }
        self.written = 0;
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        if bytes.capacity() <= KEEP_BYTES {
            POOL.with_borrow_mut(|pool| {
                if pool.len() < POOL_BUFFERS {
                    pool.push(bytes);
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_slow_reader_does_not_let_the_buffer_grow() {
        let mut output = Output::default();
        let piece: Vec<u8> = (0..100_000u32).map(|at| at as u8).collect();
        output.buffer().extend_from_slice(&piece);
        for _ in 0..1000 {
            output.buffer().extend_from_slice(&piece);
            assert_eq!(output.pending()[..1000], piece[..1000]);
            output.written(piece.len());
            assert!(output.bytes.capacity() <= 8 * piece.len(), "{} bytes", output.bytes.capacity());
        }
        assert_eq!(output.len(), piece.len());
    }

    #[test]
    fn an_empty_output_owns_no_buffer() {
        let mut output = Output::default();
        output.buffer().extend_from_slice(b"abcdef");
        output.written(2);
        assert_eq!(output.pending(), b"cdef");
        output.written(4);
        assert!(output.is_empty());
        assert_eq!(output.bytes.capacity(), 0);
        output.buffer().extend_from_slice(b"x");
        assert_eq!(output.pending(), b"x");
    }
}
