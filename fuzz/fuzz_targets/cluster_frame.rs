//! Any bytes as a frame between replicas: no panic, no allocation by announced sizes, and what is accepted is encoded to the same bytes.
//!
//! The first byte selects whether the checksums of the entries are made valid, so that the fuzzer gets past them.

#![no_main]

use bytes::Bytes;
use leveret_cluster::frames;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((mode, bytes)) = data.split_first() else {
        return;
    };
    let mut bytes = bytes.to_vec();
    if mode & 1 != 0 {
        mend_entries(&mut bytes);
    }
    let bytes = Bytes::from(bytes);
    let counted = allocation_counter::measure(|| {
        if let Some(again) = frames::request_again(&bytes) {
            assert_eq!(again, bytes, "a request has one encoding");
        }
        if let Some(again) = frames::answer_again(&bytes) {
            assert_eq!(again, bytes, "an answer has one encoding");
        }
    });
    assert!(counted.bytes_max <= 64 * bytes.len() as u64 + 8192, "{} bytes for {}", counted.bytes_max, bytes.len());
});

/// Sets the checksums of the entries of an append to valid values, as far as its lengths are right.
fn mend_entries(bytes: &mut [u8]) {
    const HEAD: usize = 56;
    let number = |bytes: &[u8], at: usize| {
        bytes.get(at..at + 4).map(|four| u32::from_le_bytes(four.try_into().expect("four bytes")) as usize)
    };
    let mut at = 8 + 17;
    for _ in 0..2 {
        at += if bytes.get(at) == Some(&1) { 17 } else { 1 };
    }
    at += 4;
    while let Some(length) = number(bytes, at) {
        let (begin, end) = (at + 4, at.saturating_add(4).saturating_add(length));
        if length < HEAD || end > bytes.len() {
            break;
        }
        let body = u32::try_from(length - HEAD).expect("it is in memory").to_le_bytes();
        bytes[begin + 48..begin + 52].copy_from_slice(&body);
        let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes[begin..begin + 52]), &bytes[begin + HEAD..end]);
        bytes[begin + 52..begin + 56].copy_from_slice(&crc.to_le_bytes());
        at = end;
    }
}
