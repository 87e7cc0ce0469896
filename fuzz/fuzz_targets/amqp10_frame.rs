//! A stream of AMQP 1.0 frames: accepted frames are encoded again with the same meaning, and truncating the input
//! never turns "more bytes needed" into anything else than an error or a frame.
#![no_main]

use leveret_amqp10::{
    FrameKind, Performative, SaslFrame, begin_frame, decode_frame, encode_empty, encode_performative, encode_transfer,
    end_frame,
};
use libfuzzer_sys::fuzz_target;

const MAX_FRAME_SIZE: u32 = 4096;

fuzz_target!(|data: &[u8]| {
    let mut rest = data;
    while let Ok(Some((frame, used))) = decode_frame(rest, MAX_FRAME_SIZE) {
        assert!(used <= MAX_FRAME_SIZE as usize);
        assert_eq!(decode_frame(&rest[..used - 1], MAX_FRAME_SIZE), Ok(None));
        let mut out = Vec::new();
        let start = begin_frame(&mut out, frame.kind, frame.channel);
        out.extend_from_slice(frame.body);
        end_frame(&mut out, start);
        assert_eq!(decode_frame(&out, MAX_FRAME_SIZE).unwrap(), Some((frame, out.len())));
        out.clear();
        match frame.kind {
            FrameKind::Sasl => {
                if let Ok(sasl) = SaslFrame::decode(frame.body) {
                    sasl.encode(&mut out);
                    let (again, _) = decode_frame(&out, u32::MAX).unwrap().unwrap();
                    assert_eq!(SaslFrame::decode(again.body), Ok(sasl));
                }
            }
            FrameKind::Amqp if frame.body.is_empty() => encode_empty(&mut out),
            FrameKind::Amqp => match Performative::decode(frame.body) {
                Ok((Performative::Transfer(transfer), payload)) => {
                    encode_transfer(&mut out, frame.channel, &transfer, payload);
                    let (again, _) = decode_frame(&out, u32::MAX).unwrap().unwrap();
                    assert_eq!(Performative::decode(again.body), Ok((transfer.into(), payload)));
                }
                Ok((performative, _)) => {
                    encode_performative(&mut out, frame.channel, &performative);
                    let (again, _) = decode_frame(&out, u32::MAX).unwrap().unwrap();
                    assert_eq!(Performative::decode(again.body), Ok((performative, &[][..])));
                }
                Err(error) => assert!(!error.to_string().is_empty()),
            },
        }
        rest = &rest[used..];
    }
});
