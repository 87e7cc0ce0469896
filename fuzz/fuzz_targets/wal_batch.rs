//! Any bytes as a WAL batch: no panic, no allocation by announced sizes, and a batch that passes the checks can be
//! iterated.
//!
//! The first byte selects how much of the structure is made valid, so that the fuzzer gets past the checksums.

#![no_main]

use leveret_log::format::batch::{BATCH_HEADER_BYTES, RUN_BYTES};
use leveret_log::format::file_header::FileHeader;
use leveret_log::format::record::{RecordKind, decode_ranges};
use leveret_log::format::{Identity, batch_check};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((mode, bytes)) = data.split_first() else {
        return;
    };
    let identity = Identity::wal(1, 0, 1);
    let mut bytes = bytes.to_vec();
    let _ = FileHeader::decode(&bytes);
    if mode & 1 != 0 {
        mend_header(&mut bytes, &identity);
    }
    if mode & 2 != 0 {
        mend_rows(&mut bytes, &identity);
    }
    let Some(batch) = batch_check::check(&bytes, &identity) else {
        return;
    };
    assert!(batch.header.padded_bytes() <= bytes.len() as u64);
    assert_eq!(batch.runs.len(), batch.positions.len());
    for run in &batch.runs {
        let records = batch.records_of(run, &bytes).inspect(|record| {
            assert_eq!(record.kind, run.kind);
            assert!(record.group.is_none() || !matches!(record.kind, RecordKind::Control | RecordKind::Close));
            assert!(record.group.is_some() || record.kind != RecordKind::GroupCommit);
            let _ = decode_ranges(record.payload);
        });
        assert_eq!(records.count() as u64, run.records(), "a good run has all its records");
    }
});

/// Sets the identity and the checksum of the header to valid values.
fn mend_header(bytes: &mut [u8], identity: &Identity) {
    if bytes.len() < BATCH_HEADER_BYTES {
        return;
    }
    bytes[..4].copy_from_slice(b"LVRB");
    bytes[4..6].copy_from_slice(&1u16.to_le_bytes());
    bytes[8..16].copy_from_slice(&identity.node_id.to_le_bytes());
    bytes[16..24].copy_from_slice(&identity.salt.to_le_bytes());
    bytes[24..28].fill(0);
    bytes[52..56].fill(0);
    // The position of the metadata stays.
    bytes[64..80].fill(0);
    bytes[88..92].fill(0);
    let crc = crc32c::crc32c(&bytes[..92]);
    bytes[92..96].copy_from_slice(&crc.to_le_bytes());
}

/// Sets the checksums of the rows and of the records directly after them to valid values.
fn mend_rows(bytes: &mut [u8], identity: &Identity) {
    if bytes.len() < BATCH_HEADER_BYTES {
        return;
    }
    let number = |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let sequence = u64::from_le_bytes(bytes[32..40].try_into().expect("eight bytes"));
    let seed = identity.batch_seed(sequence);
    let rows = (number(bytes, 28) as usize).min((bytes.len() - BATCH_HEADER_BYTES) / RUN_BYTES);
    for row in 0..rows {
        let at = BATCH_HEADER_BYTES + row * RUN_BYTES;
        let crc = crc32c::crc32c_append(seed, &bytes[at..at + RUN_BYTES - 4]);
        bytes[at + RUN_BYTES - 4..at + RUN_BYTES].copy_from_slice(&crc.to_le_bytes());
    }
    let mut at = BATCH_HEADER_BYTES + rows * RUN_BYTES;
    while at + 12 <= bytes.len() {
        let end = at + 12 + number(bytes, at + 4) as usize;
        if end > bytes.len() {
            break;
        }
        let crc = crc32c::crc32c_append(seed, &bytes[at + 4..end]);
        bytes[at..at + 4].copy_from_slice(&crc.to_le_bytes());
        at = end;
    }
}
