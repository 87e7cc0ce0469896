//! Chunks of streams: any bytes are read or refused, messages that are read can be delivered, and become a chunk again.
#![no_main]

use bytes::Bytes;
use leveret_message::chunk::{ChunkBuilder, ChunkHeader, bloom, decode, may_match};
use leveret_message::deliver::{Delivery, to_amqp10, to_amqp091};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(bloom) = bloom(data) {
        may_match(bloom, ["a", ""].into_iter(), data.len() % 2 == 0);
    }
    let chunk = Bytes::copy_from_slice(data);
    let Ok(batch) = decode(&chunk, "") else { return };
    let header = ChunkHeader::decode(data).unwrap();
    assert_eq!((batch.len(), batch.chunk_bytes() as usize), (header.messages as usize, data.len()));
    let mut builder = ChunkBuilder::new(16);
    let mut out = Vec::new();
    for index in 0..batch.len() {
        let message = batch.message(index);
        let view = message.view();
        out.clear();
        to_amqp10(&view, &Delivery::default(), &mut out);
        assert!(out.ends_with(view.body));
        to_amqp091(&view, &Delivery::default());
        builder.push(&message).unwrap();
    }
    let again = builder.finish().batch().unwrap();
    assert_eq!(again.len(), batch.len());
    for index in 0..batch.len() {
        assert_eq!(again.message(index).view(), batch.message(index).view());
    }
});
