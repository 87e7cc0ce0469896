//! Detects the version of a file. Later versions keep the places of magic, version and header checksum, so that an
//! older reader can name the version it found.

use super::{VERSION, u16_at, u32_at};

/// Bytes needed to detect the version.
pub(crate) const PROBE_BYTES: usize = 96;

/// The version of a file that begins with these bytes, if its header is valid and the version isn't ours.
pub(crate) fn other_version(bytes: &[u8]) -> Option<u16> {
    let crc_at = match bytes.get(..4)? {
        b"LVRW" | b"LVRS" | b"LVRD" | b"LVRT" => 60,
        b"LVRC" => 92,
        _ => return None,
    };
    let bytes = bytes.get(..crc_at + 4)?;
    let version = u16_at(bytes, 4);
    (version != VERSION && u32_at(bytes, crc_at) == crc32c::crc32c(&bytes[..crc_at])).then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Identity;
    use crate::format::file_header::{FileHeader, FileKind};

    #[test]
    fn a_later_version_is_told_from_a_flipped_bit() {
        let header = FileHeader::new(FileKind::Wal, &Identity::wal(3, 1, 9), 9, 1 << 20);
        let mut bytes = header.encode().to_vec();
        assert_eq!(other_version(&bytes), None);
        bytes[4] = 9;
        assert_eq!(other_version(&bytes), None, "the checksum is that of version 1");
        let crc = crc32c::crc32c(&bytes[..60]);
        bytes[60..64].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(other_version(&bytes), Some(9));
        assert_eq!(other_version(&bytes[..63]), None);
        assert_eq!(other_version(b"something else"), None);
    }
}
