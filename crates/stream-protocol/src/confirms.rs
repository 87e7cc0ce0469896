//! Confirms of published messages.

use crate::key;
use crate::wire::Open;

/// A publish confirm that grows at the end of a buffer. Nothing else may be appended to the buffer before it ends.
#[must_use = "a frame without its size can't be read"]
pub struct Confirms {
    frame: Open,
    count_at: usize,
}

impl Confirms {
    /// Begins a confirm of messages of `publisher`.
    #[inline]
    pub fn begin(out: &mut Vec<u8>, publisher: u8) -> Self {
        let frame = Open::begin(out, key::PUBLISH_CONFIRM, 1);
        out.push(publisher);
        let count_at = out.len();
        out.extend_from_slice(&[0; 4]);
        Self { frame, count_at }
    }

    /// Appends a publishing id.
    #[inline]
    pub fn push(&mut self, out: &mut Vec<u8>, id: u64) {
        out.extend_from_slice(&id.to_be_bytes());
    }

    /// Fills in the number of ids and the size of the frame.
    ///
    /// # Panics
    /// If the frame has 4 GiB or more.
    #[inline]
    pub fn end(self, out: &mut [u8]) {
        let ids_at = self.count_at + 4;
        let count = ((out.len() - ids_at) / 8) as u32;
        out[self.count_at..ids_at].copy_from_slice(&count.to_be_bytes());
        self.frame.end(out);
    }
}

#[cfg(test)]
mod tests {
    use super::Confirms;

    #[test]
    fn a_confirm_counts_its_ids() {
        let mut out = vec![0xEE];
        let mut confirms = Confirms::begin(&mut out, 9);
        confirms.push(&mut out, 1);
        confirms.push(&mut out, 0x0102);
        confirms.end(&mut out);
        assert_eq!(out[..14], [0xEE, 0, 0, 0, 25, 0, 3, 0, 1, 9, 0, 0, 0, 2]);
        assert_eq!(out[14..], [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 2]);
    }
}
