//! A stream of frames: accepted frames are encoded again byte for byte, and truncating the input never turns "more
//! bytes needed" into anything else than an error or a frame.
#![no_main]

use leveret_amqp091::{
    ContentHeader, FrameKind, Method, Properties, decode_frame, delivery_mode, encode_body, encode_header,
    encode_heartbeat, encode_method, expiration, headers, priority,
};
use libfuzzer_sys::fuzz_target;

const FRAME_MAX: u32 = 4096;

fuzz_target!(|data: &[u8]| {
    let mut rest = data;
    while let Ok(Some((frame, used))) = decode_frame(rest, FRAME_MAX) {
        assert!(used <= FRAME_MAX as usize);
        assert_eq!(decode_frame(&rest[..used - 1], FRAME_MAX), Ok(None));
        let mut out = Vec::new();
        match frame.kind {
            FrameKind::Heartbeat => encode_heartbeat(&mut out),
            FrameKind::Body => encode_body(&mut out, frame.channel, frame.payload),
            FrameKind::Method => {
                if let Ok(method) = Method::decode(frame.payload) {
                    let mut again = Vec::new();
                    encode_method(&mut again, frame.channel, &method);
                    let (frame, _) = decode_frame(&again, u32::MAX).unwrap().unwrap();
                    assert_eq!(Method::decode(frame.payload), Ok(method));
                }
            }
            FrameKind::Header => {
                if let Ok(header) = ContentHeader::decode(frame.payload) {
                    let properties = Properties::decode(header.properties).unwrap();
                    assert_eq!(properties.delivery_mode, delivery_mode(header.properties));
                    assert_eq!(properties.expiration, expiration(header.properties));
                    assert_eq!(properties.priority, priority(header.properties));
                    assert_eq!(properties.headers, headers(header.properties));
                    let mut again = Vec::new();
                    encode_header(&mut again, frame.channel, header.class_id, header.body_size, header.properties);
                    // The weight field isn't kept.
                    assert_eq!(again.len(), used);
                }
            }
        }
        if !out.is_empty() {
            assert_eq!(out, &rest[..used]);
        }
        rest = &rest[used..];
    }
});
