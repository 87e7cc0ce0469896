//! Performatives, SASL frames, messages to the coordinator and plain values: decode, encode, decode gives the same.
#![no_main]

use leveret_amqp10::transaction::TransactionRequest;
use leveret_amqp10::{OwnedValue, Performative, SaslFrame, Value, decode_frame};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    // However much the input claims to contain, finding out allocates nothing.
    let cost = allocation_counter::measure(|| {
        let _ = Performative::decode(data);
        let _ = SaslFrame::decode(data);
        let _ = TransactionRequest::decode(data);
        let _ = Value::decode(data);
    });
    assert_eq!(cost.count_total, 0);
    let mut out = Vec::new();
    if let Ok((performative, payload)) = Performative::decode(data) {
        performative.encode(&mut out);
        out.extend_from_slice(payload);
        assert_eq!(Performative::decode(&out), Ok((performative, payload)));
        // A normalised value doesn't change any more.
        let mut again = Vec::new();
        performative.encode(&mut again);
        again.extend_from_slice(payload);
        assert_eq!(again, out);
        out.clear();
    }
    if let Ok(sasl) = SaslFrame::decode(data) {
        sasl.encode(&mut out);
        let (frame, _) = decode_frame(&out, u32::MAX).unwrap().unwrap();
        assert_eq!(SaslFrame::decode(frame.body), Ok(sasl));
        out.clear();
    }
    if let Ok(request) = TransactionRequest::decode(data) {
        request.encode(&mut out);
        assert_eq!(TransactionRequest::decode(&out), Ok(request));
        out.clear();
    }
    if let Ok((value, rest)) = Value::decode(data) {
        value.encode(&mut out);
        // One byte more for the constructor of an empty array, which may be omitted.
        assert!(out.len() <= data.len() - rest.len() + 1);
        let again = Value::decode_all(&out).unwrap();
        // NaN isn't equal to itself, so owned values are compared by their encodings.
        let owned = OwnedValue::from(value);
        assert_eq!(OwnedValue::from(again).encoded(), owned.encoded());
        let encoded = owned.encoded();
        assert_eq!(OwnedValue::from(encoded.as_value()).encoded(), encoded);
    }
});
