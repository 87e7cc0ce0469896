//! Messages that wait to be sent.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::frame::{BodyPart, FrameType, HEAD_BYTES, PART_BYTES_MAX, PeerMessage, TOTAL_BYTES};

#[derive(Debug)]
struct Waiting {
    frame: FrameType,
    kind: u8,
    id: u64,
    body: Bytes,
    sent: usize,
}

/// The messages that wait on a link. They take turns, a part each.
#[derive(Debug, Default)]
pub struct Outgoing {
    waiting: VecDeque<Waiting>,
    bytes: usize,
    notices: u64,
}

impl Outgoing {
    /// Adds a message behind the others. A sign of life goes first.
    pub fn push(&mut self, message: PeerMessage) {
        self.notices += u64::from(matches!(message, PeerMessage::Notice { .. }));
        let (frame, kind, id, body) = message.into_parts(self.notices);
        self.bytes += HEAD_BYTES + body.len();
        let waiting = Waiting { frame, kind, id, body, sent: 0 };
        match frame {
            FrameType::Ping => self.waiting.push_front(waiting),
            _ => self.waiting.push_back(waiting),
        }
    }

    /// Bytes of the messages that aren't sent to their ends: about as many as the other side has to hold.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Appends the next part to these bytes. False if there is none.
    pub fn next(&mut self, to: &mut Vec<u8>) -> bool {
        let Some(mut next) = self.waiting.pop_front() else { return false };
        let is_first = next.sent == 0;
        let is_whole = is_first && next.body.len() <= PART_BYTES_MAX;
        let most = if is_first && !is_whole { PART_BYTES_MAX - TOTAL_BYTES } else { PART_BYTES_MAX };
        let end = next.body.len().min(next.sent + most);
        let is_last = end == next.body.len();
        let total = if is_first && !is_last { next.body.len() as u64 } else { 0 };
        let Waiting { frame, kind, id, .. } = next;
        BodyPart { frame, kind, id, is_first, is_last, total, bytes: &next.body[next.sent..end] }.encode(to);
        next.sent = end;
        if is_last {
            self.bytes -= HEAD_BYTES + end;
        } else {
            self.waiting.push_back(next);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::{Assembler, decode};

    fn any_message() -> impl Strategy<Value = PeerMessage> {
        let length = prop_oneof![4 => 0..300usize, 1 => 0..900_000usize, 1 => PART_BYTES_MAX - 9..PART_BYTES_MAX + 9];
        (0..5, any::<u8>(), length).prop_map(|(which, kind, length)| {
            let body = Bytes::from(vec![kind; length]);
            match which {
                0 => PeerMessage::Request { id: 0, kind, body },
                1 => PeerMessage::Answer { id: 0, body: Ok(body) },
                2 => PeerMessage::Answer { id: 0, body: Err("no".repeat(length.min(2000))) },
                3 => PeerMessage::Notice { kind, body },
                _ => PeerMessage::Ping,
            }
        })
    }

    fn numbered(message: PeerMessage, number: u64) -> PeerMessage {
        match message {
            PeerMessage::Request { kind, body, .. } => PeerMessage::Request { id: number, kind, body },
            PeerMessage::Answer { body, .. } => PeerMessage::Answer { id: number, body },
            other => other,
        }
    }

    fn receive(bytes: &[u8], step: usize) -> Vec<PeerMessage> {
        let (mut assembler, mut buffer, mut found) = (Assembler::new(64 << 20), Vec::new(), Vec::new());
        for piece in bytes.chunks(step) {
            buffer.extend(piece);
            let mut at = 0;
            while let Some((part, length)) = decode(&buffer[at..]).unwrap() {
                found.extend(assembler.take(part).unwrap());
                at += length;
            }
            buffer.drain(..at);
        }
        assert!(buffer.is_empty());
        found
    }

    fn order(message: &PeerMessage) -> (u64, u8, usize) {
        match message {
            PeerMessage::Request { id, .. } | PeerMessage::Answer { id, .. } => (*id, 0, 0),
            PeerMessage::Notice { kind, body } => (0, *kind, body.len()),
            PeerMessage::Ping => (0, 0, 0),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn all_messages_arrive_whole(messages in vec(any_message(), 0..12), step in 1000..400_000usize) {
            let messages: Vec<_> = messages.into_iter().zip(1..).map(|(m, number)| numbered(m, number)).collect();
            let (mut outgoing, mut bytes) = (Outgoing::default(), Vec::new());
            messages.iter().cloned().for_each(|message| outgoing.push(message));
            while outgoing.next(&mut bytes) {}
            prop_assert_eq!(outgoing.bytes(), 0);
            let (mut sent, mut found) = (messages, receive(&bytes, step));
            sent.sort_by_key(order);
            found.sort_by_key(order);
            prop_assert!(sent == found);
        }
    }

    #[test]
    fn a_short_message_passes_a_long_one() {
        let mut outgoing = Outgoing::default();
        outgoing.push(PeerMessage::Request { id: 1, kind: 1, body: vec![1; 3 * PART_BYTES_MAX].into() });
        outgoing.push(PeerMessage::Request { id: 2, kind: 1, body: vec![1; 3 * PART_BYTES_MAX].into() });
        let mut bytes = Vec::new();
        assert!(outgoing.next(&mut bytes));
        outgoing.push(PeerMessage::Notice { kind: 9, body: Bytes::from_static(b"short") });
        outgoing.push(PeerMessage::Ping);
        while outgoing.next(&mut bytes) {}
        let found = receive(&bytes, 1 << 20);
        assert!(matches!(
            found[..],
            [
                PeerMessage::Ping,
                PeerMessage::Notice { kind: 9, .. },
                PeerMessage::Request { id: 1, .. },
                PeerMessage::Request { id: 2, .. }
            ]
        ));
    }
}
