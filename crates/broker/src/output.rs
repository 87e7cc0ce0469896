//! Bytes on their way to a socket.
//!
//! An idle connection owns no buffer: an output borrows one from its thread when it has bytes to send, and returns it when the
//! socket has taken all.
//!
//! Parts of files may lie between the bytes: a socket without TLS takes them from the file by itself.

use std::cell::RefCell;
use std::collections::VecDeque;

pub use leveret_message::chunk::FilePart;

use crate::settings::OUTPUT_BYTES_MAX;

/// Capacity above which a buffer isn't kept.
const KEEP_BYTES: usize = 512 << 10;
/// Number of written bytes from which on moving the rest to the front is worthwhile.
const MOVE_BYTES: usize = 64 << 10;
const POOL_BUFFERS: usize = 16;

thread_local! {
    static POOL: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// A part of a file among the bytes.
#[derive(Debug)]
struct FileAt {
    /// The index of the byte behind it.
    at: usize,
    /// The rest of it.
    part: FilePart,
}

/// The bytes that wait for a connection's socket.
#[derive(Debug, Default)]
pub struct Output {
    bytes: Vec<u8>,
    written: usize,
    files: VecDeque<FileAt>,
    /// The bytes that are left of all these.
    file_bytes: usize,
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

    /// The end of the bytes so far, to which [`Output::rewind`] returns.
    pub fn mark(&self) -> usize {
        self.bytes.len()
    }

    /// Takes back the bytes that were appended since a mark. None of them may have been offered to the socket, or be a part of a file.
    pub fn rewind(&mut self, mark: usize) {
        self.bytes.truncate(mark);
    }

    /// Appends a part of a file. The socket mustn't be one of TLS.
    pub fn push_file(&mut self, part: FilePart) {
        if part.length > 0 {
            self.file_bytes += part.length as usize;
            self.files.push_back(FileAt { at: self.bytes.len(), part });
        }
    }

    /// The bytes that the socket has to take next, up to the next part of a file.
    pub fn pending(&self) -> &[u8] {
        let end = self.files.front().map_or(self.bytes.len(), |file| file.at);
        &self.bytes[self.written..end]
    }

    /// The part of a file that comes behind the pending bytes, if these don't end with all that is there.
    pub fn next_file(&self) -> Option<&FilePart> {
        self.files.front().map(|file| &file.part)
    }

    /// Number of waiting bytes.
    pub fn len(&self) -> usize {
        self.bytes.len() - self.written + self.file_bytes
    }

    /// Whether the socket has taken all bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the socket is so far behind that the client shouldn't be asked for more.
    pub fn is_full(&self) -> bool {
        self.len() >= OUTPUT_BYTES_MAX
    }

    /// The socket took `count` of the pending bytes or, if there were none, of the next part of a file.
    ///
    /// # Panics
    /// If fewer bytes were waiting.
    pub fn written(&mut self, count: usize) {
        if self.pending().is_empty()
            && let Some(file) = self.files.front_mut()
        {
            let taken = u32::try_from(count).expect("it is shorter");
            file.part.length = file.part.length.checked_sub(taken).expect("more written than there was");
            file.part.at += u64::from(taken);
            self.file_bytes -= count;
            self.files.pop_front_if(|file| file.part.length == 0);
        } else {
            assert!(count <= self.pending().len(), "more written than there was");
            self.written += count;
        }
        if self.written < self.bytes.len() || !self.files.is_empty() {
            // A slow but steady client never lets it become empty, so written bytes have to be removed before that.
            if self.written >= MOVE_BYTES && self.written >= self.bytes.len() - self.written {
                self.bytes.drain(..self.written);
                self.files.iter_mut().for_each(|file| file.at -= self.written);
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
    fn parts_of_files_come_between_the_bytes() {
        let part = |at, length| FilePart { file: std::sync::Arc::new(()), at, length };
        let mut output = Output::default();
        output.buffer().extend_from_slice(b"ab");
        output.push_file(part(100, 5));
        output.push_file(part(0, 0));
        output.push_file(part(7, 1));
        output.buffer().extend_from_slice(b"cd");
        assert_eq!((output.len(), output.pending()), (10, &b"ab"[..]));
        output.written(1);
        assert_eq!((output.pending(), output.next_file().map(|part| part.at)), (&b"b"[..], Some(100)));
        output.written(1);
        assert_eq!((output.len(), output.pending()), (8, &b""[..]));
        output.written(3);
        assert_eq!(output.next_file().map(|part| (part.at, part.length)), Some((103, 2)));
        output.written(2);
        assert_eq!(output.next_file().map(|part| (part.at, part.length)), Some((7, 1)));
        output.written(1);
        assert_eq!((output.len(), output.pending(), output.next_file().is_none()), (2, &b"cd"[..], true));
        output.written(2);
        assert!(output.is_empty() && output.bytes.capacity() == 0);
        // The places of files move with the bytes.
        let piece = vec![7; MOVE_BYTES];
        output.buffer().extend_from_slice(&piece);
        output.buffer().extend_from_slice(b"x");
        output.push_file(part(0, 9));
        output.written(MOVE_BYTES);
        assert_eq!((output.bytes.len(), output.pending(), output.len()), (1, &b"x"[..], 10));
        output.written(1);
        assert!(output.pending().is_empty() && output.next_file().is_some());
        output.written(9);
        assert!(output.is_empty());
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
