//! Compares both directions with an independent codec: it reads what we write, and writes the same bytes, and vice
//! versa.

mod support;

use amq_protocol::frame::{AMQPFrame, gen_frame, parse_frame};
use leveret_amqp091::{ContentHeader, FrameKind, Method, Properties, decode_frame, encode_header, encode_method};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use support::{Dialect, LAYOUTS};

/// Lets the oracle decode `frame` and encode it again.
fn through_oracle(frame: &[u8]) -> Result<Vec<u8>, String> {
    let (rest, parsed) = parse_frame(frame).map_err(|error| format!("the oracle can't read it: {error}"))?;
    assert!(rest.is_empty());
    assert!(!matches!(parsed, AMQPFrame::ProtocolHeader(_)));
    let out = gen_frame(&parsed)(Vec::new().into()).map_err(|error| format!("the oracle can't write it: {error}"))?;
    Ok(out.into_inner().0)
}

#[test]
fn methods() {
    for (name, class, id, layout) in LAYOUTS {
        let mut runner = TestRunner::new(ProptestConfig { cases: 30, failure_persistence: None, ..Default::default() });
        runner
            .run(&(any::<u16>(), support::payload(*class, *id, layout, Dialect::Oracle)), |(channel, payload)| {
                let ours = Method::decode(&payload).unwrap();
                let mut written = Vec::new();
                encode_method(&mut written, channel, &ours);
                let theirs = through_oracle(&written).map_err(TestCaseError::fail)?;
                prop_assert_eq!(&theirs, &written);
                let (frame, used) = decode_frame(&theirs, 131_072).unwrap().unwrap();
                prop_assert_eq!((frame.kind, frame.channel, used), (FrameKind::Method, channel, theirs.len()));
                prop_assert_eq!(Method::decode(frame.payload), Ok(ours));
                Ok(())
            })
            .unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

proptest! {
    #[test]
    fn content_headers(channel in any::<u16>(), size in any::<u64>(), raw in support::properties()) {
        let mut again = Vec::new();
        Properties::decode(&raw).unwrap().encode(&mut again);
        let mut written = Vec::new();
        encode_header(&mut written, channel, 60, size, &again);
        let theirs = through_oracle(&written).map_err(TestCaseError::fail)?;
        prop_assert_eq!(&theirs, &written);
        let (frame, _) = decode_frame(&theirs, 131_072).unwrap().unwrap();
        let header = ContentHeader::decode(frame.payload).unwrap();
        prop_assert_eq!((header.class_id, header.body_size, header.properties), (60, size, raw.as_slice()));
    }
}
