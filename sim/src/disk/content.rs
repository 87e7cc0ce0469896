//! The bytes of a file, in pages that copies share.

use std::sync::Arc;

const PAGE: usize = 4096;

type Page = [u8; PAGE];

/// The bytes of a file.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    /// Copies share all but what was changed since: each sync makes one, of files with thousands of pages.
    pages: imbl::Vector<Arc<Page>>,
    length: usize,
}

impl Content {
    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// Changes the length. New bytes are zero.
    pub(super) fn resize(&mut self, length: usize) {
        let pages = length.div_ceil(PAGE);
        if length < self.length {
            self.pages.truncate(pages);
            if let Some(last) = self.pages.back_mut().filter(|_| !length.is_multiple_of(PAGE)) {
                Arc::make_mut(last)[length % PAGE..].fill(0);
            }
        } else if pages > self.pages.len() {
            let zero = Arc::new([0; PAGE]);
            self.pages.extend(std::iter::repeat_n(zero, pages - self.pages.len()));
        }
        self.length = length;
    }

    pub(super) fn write(&mut self, mut offset: usize, mut bytes: &[u8]) {
        if offset + bytes.len() > self.length {
            self.resize(offset + bytes.len());
        }
        while !bytes.is_empty() {
            let start = offset % PAGE;
            let count = bytes.len().min(PAGE - start);
            Arc::make_mut(&mut self.pages[offset / PAGE])[start..start + count].copy_from_slice(&bytes[..count]);
            offset += count;
            bytes = &bytes[count..];
        }
    }

    /// Fills the buffer as far as there are bytes; returns their number.
    pub(super) fn read(&self, mut offset: usize, buffer: &mut [u8]) -> usize {
        let count = buffer.len().min(self.length.saturating_sub(offset));
        let mut filled = 0;
        while filled < count {
            let start = offset % PAGE;
            let part = (count - filled).min(PAGE - start);
            buffer[filled..filled + part].copy_from_slice(&self.pages[offset / PAGE][start..start + part]);
            offset += part;
            filled += part;
        }
        count
    }

    pub(super) fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.length];
        self.read(0, &mut bytes);
        bytes
    }

    pub(super) fn flip(&mut self, bit: usize) {
        assert!(bit / 8 < self.length, "the file has {} bytes", self.length);
        Arc::make_mut(&mut self.pages[bit / 8 / PAGE])[bit / 8 % PAGE] ^= 1 << (bit % 8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn content_behaves_like_a_vector() {
        let mut random = Random::new(1);
        let (mut content, mut plain) = (Content::default(), Vec::new());
        for step in 0..500 {
            let at = random.below(20_000) as usize;
            if step % 10 == 0 {
                content.resize(at);
                plain.resize(at, 0);
            }
            let bytes = vec![step as u8; random.below(9_000) as usize];
            content.write(at, &bytes);
            if plain.len() < at + bytes.len() {
                plain.resize(at + bytes.len(), 0);
            }
            plain[at..at + bytes.len()].copy_from_slice(&bytes);
            assert_eq!(content.to_vec(), plain);
        }
        let mut buffer = [1; 10];
        assert_eq!(content.read(plain.len() - 3, &mut buffer), 3);
        assert_eq!(content.read(plain.len() + 3, &mut buffer), 0);
    }
}
