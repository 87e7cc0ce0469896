//! Method payloads: an accepted payload is encoded, decoded again, and equal.
#![no_main]

use leveret_amqp091::Method;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let cost = allocation_counter::measure(|| {
        let _ = Method::decode(data);
    });
    assert_eq!(cost.count_total, 0, "whatever the input claims to hold");
    if let Ok(method) = Method::decode(data) {
        let mut out = Vec::new();
        method.encode(&mut out);
        // Only unused bits of a bit octet are lost.
        assert_eq!(out.len(), data.len());
        assert_eq!(Method::decode(&out), Ok(method));
        assert!(!method.name().is_empty());
        for end in 0..data.len() {
            assert!(Method::decode(&data[..end]).is_err());
        }
    }
});
