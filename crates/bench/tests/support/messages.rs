//! The messages of a queue, with the faults that are planted in it.

use std::collections::VecDeque;

use super::Fault;

#[derive(Default)]
pub(crate) struct Messages {
    bodies: VecDeque<Vec<u8>>,
    accepted: usize,
    held: Option<Vec<u8>>,
}

impl Messages {
    pub(crate) fn accept(&mut self, mut body: Vec<u8>, fault: Fault) {
        let index = self.accepted;
        self.accepted += 1;
        match fault {
            Fault::Lose(at) if at == index => return,
            Fault::Duplicate(at) if at == index => self.bodies.push_back(body.clone()),
            Fault::Swap(at) if at == index => {
                self.held = Some(body);
                return;
            }
            Fault::Corrupt(at) if at == index => body[0] ^= 1,
            _ => {}
        }
        self.bodies.push_back(body);
        self.bodies.extend(self.held.take());
    }

    pub(crate) fn take(&mut self) -> Option<Vec<u8>> {
        self.bodies.pop_front()
    }

    pub(crate) fn len(&self) -> usize {
        self.bodies.len()
    }
}
