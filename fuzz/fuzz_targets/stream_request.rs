//! Frames of stream clients: decoding allocates nothing, and an accepted request has the same meaning when it is
//! encoded again.
#![no_main]

use leveret_stream_protocol::{DecodeError, Frame, Request, client::ServerCommand, next_frame};
use libfuzzer_sys::fuzz_target;

const FRAME_MAX: u32 = 4096;

/// Decodes a request and all that it holds.
fn decode<'a>(frame: &Frame<'a>) -> Result<Request<'a>, DecodeError> {
    let request = Request::decode(frame)?;
    if let Request::Publish(publish) = request {
        for message in publish.messages() {
            message?;
        }
    }
    Ok(request)
}

fuzz_target!(|data: &[u8]| {
    let mut rest = data;
    while let Ok(Some((frame, used))) = next_frame(rest, FRAME_MAX) {
        assert!(used <= FRAME_MAX as usize + 4);
        assert_eq!(next_frame(&rest[..used - 1], FRAME_MAX), Ok(None));
        let mut decoded = None;
        let allocations = allocation_counter::measure(|| decoded = Some(decode(&frame)));
        assert_eq!(allocations.count_total, 0);
        match decoded.expect("it ran") {
            Ok(request) => {
                let mut out = Vec::new();
                request.encode(&mut out).unwrap();
                let (frame, _) = next_frame(&out, 0).unwrap().unwrap();
                let mut again = Vec::new();
                decode(&frame).unwrap().encode(&mut again).unwrap();
                assert_eq!(again, out);
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
        let _ = ServerCommand::decode(&frame);
        rest = &rest[used..];
    }
});
