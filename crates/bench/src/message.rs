//! The body of a message: sequence number, checksum, filler.

/// Bytes of the sequence number, little endian.
const SEQUENCE: usize = 6;
/// Bytes of every body: the sequence number and a `u32` CRC-32C, little endian.
pub(crate) const FIXED: usize = 10;

/// Writes bodies of one size. The checksum covers sequence number and filler.
#[derive(Debug)]
pub(crate) struct Writer {
    body: Vec<u8>,
}

impl Writer {
    /// Prepares bodies of `size` bytes.
    ///
    /// # Panics
    /// If `size` is under 10.
    pub(crate) fn new(size: usize) -> Self {
        assert!(size >= FIXED, "a body has at least {FIXED} bytes");
        Self { body: (0..size).map(|index| index as u8).collect() }
    }

    /// The body of a message, valid until the next call.
    pub(crate) fn write(&mut self, sequence: u64) -> &[u8] {
        self.body[..SEQUENCE].copy_from_slice(&sequence.to_le_bytes()[..SEQUENCE]);
        let sum = checksum(&self.body);
        self.body[SEQUENCE..FIXED].copy_from_slice(&sum.to_le_bytes());
        &self.body
    }
}

/// The sequence number of a body of `size` bytes, if it is unchanged.
pub(crate) fn read(body: &[u8], size: usize) -> Option<u64> {
    if body.len() != size {
        return None;
    }
    let mut sequence = [0; 8];
    sequence[..SEQUENCE].copy_from_slice(&body[..SEQUENCE]);
    let sequence = u64::from_le_bytes(sequence);
    let sum = u32::from_le_bytes(body[SEQUENCE..FIXED].try_into().ok()?);
    (checksum(body) == sum).then_some(sequence)
}

fn checksum(body: &[u8]) -> u32 {
    let sum = crc32c::crc32c(&body[..SEQUENCE]);
    if body.len() == FIXED { sum } else { crc32c::crc32c_append(sum, &body[FIXED..]) }
}

#[cfg(test)]
mod tests {
    use super::{Writer, read};

    #[test]
    fn any_changed_bit_is_noticed() {
        for size in [10, 12, 100] {
            let body = Writer::new(size).write(0x1234_5678).to_vec();
            assert_eq!(read(&body, size), Some(0x1234_5678));
            assert_eq!(read(&body[1..], size), None);
            for bit in 0..size * 8 {
                let mut changed = body.clone();
                changed[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(read(&changed, size), None, "bit {bit}");
            }
        }
    }
}
