//! Deliveries to the client that it hasn't settled, by delivery-id.

use std::collections::VecDeque;

use leveret_amqp10::Serial;
use leveret_queue::{Run, push_run};

#[derive(Debug, Clone, Copy)]
struct Delivery {
    id: Serial,
    handle: u32,
    number: u64,
    bytes: u32,
    durable: bool,
    settled: bool,
}

/// Deliveries of one link that leave together.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Settled {
    pub handle: u32,
    pub runs: Vec<Run>,
    /// Their delivery-ids: first and last of each run.
    pub ids: Vec<(Serial, Serial)>,
}

/// See the module. Delivery-ids of a session go up (2.7.5), so a queue of them is sorted.
#[derive(Debug, Default)]
pub(crate) struct Unsettled {
    deliveries: VecDeque<Delivery>,
}

impl Unsettled {
    /// Notes a delivery; `id` comes after all that are known.
    pub(crate) fn add(&mut self, id: Serial, handle: u32, number: u64, bytes: u32, durable: bool) {
        self.deliveries.push_back(Delivery { id, handle, number, bytes, durable, settled: false });
    }

    /// Takes out the deliveries `first..=last` (2.7.6). Ids that aren't there were settled before.
    pub(crate) fn settle(&mut self, first: Serial, last: Serial) -> Vec<Settled> {
        let mut out = Vec::new();
        let start = self.deliveries.partition_point(|delivery| delivery.id < first);
        let end = self.deliveries.partition_point(|delivery| delivery.id <= last);
        if start >= end {
            return out;
        }
        if start == 0 {
            for delivery in self.deliveries.drain(..end).filter(|delivery| !delivery.settled) {
                add(&mut out, &delivery);
            }
        } else {
            for delivery in self.deliveries.range_mut(start..end).filter(|delivery| !delivery.settled) {
                delivery.settled = true;
                add(&mut out, delivery);
            }
        }
        while self.deliveries.pop_front_if(|first| first.settled).is_some() {}
        while self.deliveries.pop_back_if(|last| last.settled).is_some() {}
        out
    }

    /// Takes out everything that a link delivered.
    pub(crate) fn settle_link(&mut self, handle: u32) -> Vec<Run> {
        let mut out = Vec::new();
        self.deliveries.retain(|delivery| {
            let ours = delivery.handle == handle;
            if ours && !delivery.settled {
                add(&mut out, delivery);
            }
            !ours
        });
        out.pop().map_or_else(Vec::new, |settled| settled.runs)
    }
}

fn add(out: &mut Vec<Settled>, delivery: &Delivery) {
    let run = Run {
        first: delivery.number,
        last: delivery.number,
        bytes: u64::from(delivery.bytes),
        durable: delivery.durable,
    };
    let id = delivery.id;
    match out.iter_mut().find(|settled| settled.handle == delivery.handle) {
        Some(settled) => {
            push_run(&mut settled.runs, run);
            match settled.ids.last_mut().filter(|(_, last)| last.next() == id) {
                Some((_, last)) => *last = id,
                None => settled.ids.push((id, id)),
            }
        }
        None => out.push(Settled { handle: delivery.handle, runs: vec![run], ids: vec![(id, id)] }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(from: u32, count: u32) -> Unsettled {
        let mut unsettled = Unsettled::default();
        for at in 0..count {
            unsettled.add(Serial(from.wrapping_add(at)), at % 2, u64::from(at / 2), 1, true);
        }
        unsettled
    }

    fn numbers(settled: &[Settled]) -> Vec<(u32, u64, u64)> {
        settled.iter().flat_map(|link| link.runs.iter().map(|run| (link.handle, run.first, run.last))).collect()
    }

    #[test]
    fn a_range_settles_each_delivery_once() {
        let mut unsettled = filled(u32::MAX - 3, 10);
        let (first, last) = (Serial(u32::MAX - 1), Serial(1));
        assert_eq!(numbers(&unsettled.settle(first, last)), [(0, 1, 2), (1, 1, 2)]);
        assert!(unsettled.settle(first, last).is_empty());
        assert_eq!(
            numbers(&unsettled.settle(Serial(u32::MAX - 3), Serial(5))),
            [(0, 0, 0), (0, 3, 4), (1, 0, 0), (1, 3, 4)]
        );
        assert!(unsettled.deliveries.is_empty());
    }

    #[test]
    fn a_link_takes_its_own_with_it() {
        let mut unsettled = filled(0, 10);
        unsettled.settle(Serial(2), Serial(2));
        let runs = unsettled.settle_link(0);
        assert_eq!(runs.iter().map(|run| (run.first, run.last)).collect::<Vec<_>>(), [(0, 0), (2, 4)]);
        assert!(unsettled.settle_link(0).is_empty());
        assert_eq!(numbers(&unsettled.settle(Serial(0), Serial(9))), [(1, 0, 4)]);
    }
}
