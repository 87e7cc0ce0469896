//! Deliveries: messages that scheduled consumers take, encoded into the connection's output.

use leveret_log::Wait;
use leveret_message::deliver::Delivery;
use leveret_queue::{Deliveries, Flow, Portion, Taken, TurnEnd};

use super::contents::Lead;
use super::encode::{Recipient, delivery_of, encode_delivery};
use super::error::ProtocolError;
use super::session::Session;
use super::unsettled::is_limited;
use leveret_broker::settings::{TAKE_BYTES_MAX, TAKE_MESSAGES_MAX, TURN_BYTES_MAX};
use leveret_broker::settlement::Settlement;
use leveret_broker::stats::Stat;
use leveret_broker::time::Now;
use leveret_broker::traffic::counted_as;

impl Session {
    /// Serves scheduled consumers until the output holds one write's worth.
    pub(crate) fn serve_consumers(&mut self, now: Now) {
        if self.contents.are_under_way() {
            // A large body and small messages of other channels share the room in the socket.
            let most = if self.client.turns.are_over() { TURN_BYTES_MAX } else { TURN_BYTES_MAX / 2 };
            self.send_contents(most, now);
        }
        self.deliver_scheduled(now);
        if self.contents.are_under_way() {
            self.send_contents(TURN_BYTES_MAX, now);
        }
    }

    fn deliver_scheduled(&mut self, now: Now) {
        if self.client.turns.are_over() && !self.client.turns.any_starved() {
            return;
        }
        let consumers = &self.consumers;
        let takes_more = self.client.tell_room(|key, has_room| {
            let Some(consumer) = consumers.get(&key) else { return false };
            consumer.queue().flow(consumer.id(), Flow::Room(has_room), now.monotonic);
            true
        });
        if !takes_more {
            return;
        }
        while let Some(key) = self.client.next_scheduled() {
            if self.serve(key, now) == TurnEnd::More {
                self.client.turns.schedule(key);
            }
        }
    }

    /// One turn of one consumer.
    fn serve(&mut self, key: u64, now: Now) -> TurnEnd {
        let Some(consumer) = self.consumers.get(&key) else { return TurnEnd::Done };
        if self.contents.is_on(consumer.channel()) {
            self.contents.park(consumer.channel(), key);
            consumer.queue().flow(consumer.id(), Flow::Window(false), now.monotonic);
            return TurnEnd::Done;
        }
        let mut most = TAKE_MESSAGES_MAX;
        // A consumer that is ending takes no more messages.
        let Some(channel) = self.channels.get_mut(&consumer.channel()).filter(|channel| !channel.is_closing()) else {
            return TurnEnd::Done;
        };
        if !consumer.no_ack() {
            most = most.min(
                channel.unsettled().room(self.client.broker.settings.unsettled_per_channel_max, &self.client.account),
            );
            let (room, parked) = channel.room_for(most, || is_limited(consumer.queue()));
            most = room;
            if most == 0 {
                parked.push(key);
                consumer.queue().flow(consumer.id(), Flow::Window(false), now.monotonic);
                return TurnEnd::Done;
            }
        }
        let mut taken = std::mem::take(&mut self.client.taken);
        let end = consumer.queue().take(
            consumer.id(),
            Portion { messages: most, bytes: TAKE_BYTES_MAX },
            now.monotonic,
            &mut taken,
        );
        for run in taken.drain(..) {
            self.encode_run(key, run, now);
        }
        self.client.taken = taken;
        end
    }

    fn encode_run(&mut self, key: u64, taken: Taken, now: Now) {
        let properties_max = self.negotiated.properties_max();
        let Some(consumer) = self.consumers.get(&key) else { return };
        let Some(channel) = self.channels.get_mut(&consumer.channel()) else { return };
        let out = self.client.output.buffer();
        let delivery = delivery_of(&taken, &self.client.broker.settings, now);
        let frame_max = self.negotiated.frame_max();
        let is_stream = consumer.queue().is_stream();
        let mut to =
            Recipient { channel: consumer.channel(), tag: consumer.tag(), frame_max, properties_max, delivery };
        let mut in_file = None;
        let mut too_large = None;
        for at in 0..taken.count {
            let tag = channel.unsettled_mut().next_tag();
            if taken.batch.is_in_file((taken.index + at) as usize) {
                in_file = Some(tag);
                if !consumer.no_ack() {
                    channel.unsettled_mut().delivered(tag, consumer.source(), &taken, at, now.monotonic);
                }
                continue;
            }
            let message = taken.batch.message((taken.index + at) as usize).view();
            to.delivery.stream_offset = is_stream.then(|| taken.first + u64::from(at));
            let encoded = encode_delivery(out, &to, tag, &message);
            if !consumer.no_ack() {
                // A message that can't be encoded has failed all the same: it is requeued with its channel.
                channel.unsettled_mut().delivered(tag, consumer.source(), &taken, at, now.monotonic);
            }
            if let Err(bytes) = encoded {
                too_large = Some((at, bytes));
                break;
            }
        }
        if let Some((at, bytes)) = too_large {
            let (channel, queue, id) = (consumer.channel(), consumer.queue().clone(), consumer.id());
            if !consumer.no_ack() && at + 1 < taken.count {
                queue.settle(
                    Deliveries::of(Some(id), &taken.rest(at + 1).runs()),
                    Settlement::Requeue { failed: false },
                    Wait::Lazy,
                    now.monotonic,
                );
            }
            return self.fail(channel, ProtocolError::header_too_large(bytes, frame_max), now);
        }
        let count = u64::from(taken.count);
        self.client.counters.delivered_of(counted_as(consumer.queue().info()), consumer.no_ack()).add(count);
        if consumer.no_ack() {
            channel.stats_mut().count_of_queue(consumer.queue().info(), Stat::DeliverNoAck, count, now.monotonic);
        } else {
            if channel.unsettled().shared().is_some() && is_limited(consumer.queue()) {
                channel.unsettled_mut().delivered_limited(taken.count as usize);
            }
            channel.unsettled_mut().report(&mut self.client.account);
            let node_ms = self.client.broker.consumer_timeout_ms();
            channel.unsettled_mut().watch(
                consumer.timeout(),
                node_ms,
                now.monotonic,
                consumer.channel(),
                &mut self.client.looks,
            );
            channel.stats_mut().count_of_queue(consumer.queue().info(), Stat::Deliver, count, now.monotonic);
        }
        if taken.redelivered {
            self.client.counters.redelivered_of(consumer.queue().is_quorum()).add(count);
            channel.stats_mut().count_of_queue(consumer.queue().info(), Stat::Redeliver, count, now.monotonic);
        }
        let (channel, settings) = (consumer.channel(), &self.client.broker.settings);
        let stream_offset = is_stream.then_some(taken.first);
        let delivery = Delivery { stream_offset, ..delivery_of(&taken, settings, now) };
        let messages = taken.part();
        self.client.trace_delivered(channel, &consumer.queue().info().name, messages, &delivery, now);
        if let Some(tag) = in_file {
            let lead = Lead::Deliver { consumer_tag: consumer.tag().clone() };
            let (channel, queue) = (consumer.channel(), consumer.queue().clone());
            // This is the last message that was taken.
            let last = taken.rest(taken.count - 1);
            self.begin_content(channel, lead, tag, last, &queue);
        }
    }
}
