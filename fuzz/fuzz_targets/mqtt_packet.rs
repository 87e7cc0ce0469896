//! Packets of MQTT: any bytes are refused, or decoded and encoded to something that is decoded to the same. Decoding allocates nothing.

#![no_main]

use leveret_mqtt::{Packet, Version, next_packet};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((choice, data)) = data.split_first() else { return };
    let version = Version::ALL[usize::from(*choice) % Version::ALL.len()];
    let mut rest = data;
    while let Ok(Some((raw, used))) = next_packet(rest, 1 << 20) {
        let mut decoded = None;
        let counted = allocation_counter::measure(|| decoded = Some(Packet::decode(&raw, version)));
        assert_eq!(counted.count_total, 0);
        if let Some(Ok(packet)) = decoded {
            let version = if let Packet::Connect(connect) = &packet { connect.version } else { version };
            let mut bytes = Vec::new();
            packet.encode(version, &mut bytes);
            let (again, length) = next_packet(&bytes, u32::MAX).expect("is well-formed").expect("is complete");
            assert_eq!(length, bytes.len());
            assert_eq!(Packet::decode(&again, version), Ok(packet));
        }
        rest = &rest[used..];
    }
});
