//! Settlements on their way to queues, and their answers.

use leveret_amqp10::performative::Disposition;
use leveret_amqp10::{Performative, Role, encode_performative};
use leveret_log::Wait;
use leveret_queue::{Deliveries, Run};

use super::answers::Answer;
use super::connection::Connection;
use super::settlements::{Asked, LinkSettlement};
use leveret_broker::queue_handle::Reason;
use leveret_broker::settlement::Settlement;
use leveret_broker::time::Now;
use leveret_broker::traffic::counted_as;
use leveret_broker::wait_for::WaitFor;

impl Connection {
    /// Hands collected settlements to their queues.
    pub(crate) fn flush_settlements(&mut self, now: Now) {
        for settlement in self.settlements.take() {
            let LinkSettlement { queue, consumer, settlement, added, runs, mut asked } = settlement;
            let count: u64 = runs.iter().map(Run::count).sum();
            let is_asked = !asked.ids.is_empty();
            let wait = if is_asked { Wait::Confirm } else { Wait::Lazy };
            let now = now.monotonic;
            let wait_for = match settlement {
                Settlement::Acknowledge => {
                    self.client.counters.acked_of(counted_as(queue.info())).add(count);
                    let deliveries = Deliveries::of(Some(consumer), &runs);
                    match is_asked {
                        true => queue.acknowledge_and_wait(deliveries, &self.client.outbox, now),
                        false => {
                            queue.settle(deliveries, Settlement::Acknowledge, Wait::Lazy, now);
                            WaitFor::default()
                        }
                    }
                }
                Settlement::Reject { failed } if is_asked => queue.reject(
                    Deliveries::of(Some(consumer), &runs),
                    failed,
                    &self.client.outbox,
                    Reason::Settlement,
                    now,
                ),
                Settlement::Reject { failed } => {
                    queue.settle(Deliveries::of(Some(consumer), &runs), Settlement::Reject { failed }, wait, now);
                    WaitFor::default()
                }
                Settlement::Requeue { failed } => {
                    let Some(added) = &added else {
                        queue.settle(
                            Deliveries::of(Some(consumer), &runs),
                            Settlement::Requeue { failed },
                            Wait::Lazy,
                            now,
                        );
                        self.answer(&asked, &WaitFor::default());
                        continue;
                    };
                    // The answer for a deferred message promises that its token finds it.
                    let is_deferred = is_asked && queue.is_quorum() && matches!(added.deferral_token(), Ok(Some(_)));
                    let wait = if is_deferred { Wait::Confirm } else { Wait::Lazy };
                    match queue.modify(Deliveries::of(Some(consumer), &runs), failed, added, wait, now) {
                        Some(ticket) if is_deferred => ticket.into(),
                        None if is_deferred => {
                            asked.release();
                            WaitFor::default()
                        }
                        _ => WaitFor::default(),
                    }
                }
            };
            self.answer(&asked, &wait_for);
        }
    }

    /// Keeps answers until the position that they wait for is durable.
    pub(crate) fn answer(&mut self, asked: &Asked, wait: &WaitFor) {
        let Asked { channel, handle, ids, state } = asked;
        for (first, last) in ids {
            let (wait, channel, handle, state) = (wait.clone(), *channel, *handle, *state);
            self.answers.push(Answer { wait, channel, handle, first: *first, last: *last, state });
        }
    }

    /// Answers the settlements that became durable.
    pub(crate) fn answer_settlements(&mut self) {
        if self.answers.is_empty() {
            return;
        }
        let streams = self.client.broker.streams.clone();
        for answer in self.answers.take_due(&|stream| streams.reached(stream)) {
            self.send_settled(&answer);
        }
    }

    fn send_settled(&mut self, answer: &Answer) {
        let &Answer { channel, first, last, state, .. } = answer;
        let answer = Disposition {
            role: Role::Sender,
            first: first.0,
            last: (first != last).then_some(last.0),
            settled: true,
            state: Some(state),
            batchable: false,
        };
        encode_performative(self.client.output.buffer(), channel, &Performative::Disposition(answer));
    }
}
