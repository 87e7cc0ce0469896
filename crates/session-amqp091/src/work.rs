//! Work on many things at once, done in parts: see [`leveret_broker::turn_budget`].
//!
//! Until the last part is done, no input is read and nothing is delivered, so that neither the client nor a queue sees
//! it half done. The answer is sent when all of it is done.

use leveret_amqp091::{Method, encode_method, method::basic};

use super::by_queue::{ByQueue, OfQueue};
use super::channel::Channel;
use super::held::Answer;
use super::session::{Phase, Session};
use super::unfinished::{EndingChannel, EndingConnection, NextChannel, Settling, Unfinished};
use super::unsettled::Settled;
use leveret_broker::quota::Kind;
use leveret_broker::time::Now;
use leveret_broker::turn_budget::{CONSUMER, TurnBudget};

impl Session {
    /// Begins the work and does as much of it as this turn allows.
    pub(super) fn begin_work(&mut self, unfinished: Unfinished, now: Now) {
        self.unfinished.add(unfinished);
        self.continue_work(now);
    }

    /// Continues unfinished work, as much as this turn allows.
    pub(super) fn continue_work(&mut self, now: Now) {
        while !self.client.budget.is_spent()
            && let Some(mut unfinished) = self.unfinished.take_first()
        {
            let is_done = match &mut unfinished {
                Unfinished::FanOut(_, fan_out) => fan_out.part(&mut self.client, now.monotonic),
                Unfinished::Settling(settling) => self.settle_part(settling, now),
                Unfinished::Commit(committing) => self.commit_part(committing, now),
                Unfinished::Channel(ending) => self.end_channel_part(ending, now),
                Unfinished::Connection(ending) => self.end_connection_part(ending, now),
            };
            if !is_done {
                self.unfinished.put_first(unfinished);
                return;
            }
            let (gone_at, answer) = match unfinished {
                Unfinished::FanOut(run, fan_out) => {
                    self.fanned_out(run, *fan_out, now);
                    continue;
                }
                Unfinished::Settling(settling) => {
                    if settling.recover_ok && self.phase == Phase::Running {
                        let answer = Method::BasicRecoverOk(basic::RecoverOk {});
                        encode_method(self.out(settling.channel), settling.channel, &answer);
                    }
                    continue;
                }
                Unfinished::Commit(_) => continue,
                Unfinished::Channel(ending) => ending.into_answer(),
                Unfinished::Connection(ending) => ending.into_answer(),
            };
            if let Some(answer) = answer.filter(|_| self.phase == Phase::Running && !self.client.is_gone()) {
                let number = answer.ends().unwrap_or(0);
                self.answer_when_gone(number, gone_at, answer);
            }
        }
    }

    /// Whether deliveries of a channel are being settled, or its transaction is being committed.
    pub(super) fn is_settling(&self, number: u16) -> bool {
        self.unfinished.is_settling(number)
    }

    /// Finishes a channel's settlements at once, since the channel ends.
    fn finish_settling(&mut self, number: u16, now: Now) {
        while let Some(mut settling) = self.unfinished.take_settling(number) {
            let budget = std::mem::replace(&mut self.client.budget, TurnBudget::unlimited());
            self.settle_part(&mut settling, now);
            self.client.budget = budget;
        }
    }

    /// Settles deliveries, the lowest tags first. True if none is left.
    fn settle_part(&mut self, settling: &mut Settling, now: Now) -> bool {
        let Settling { channel, up_to, settlement, .. } = *settling;
        let Some(entry) = self.channels.get_mut(&channel) else { return true };
        let (settled, is_done) = entry.unsettled_mut().settle_part(up_to, &mut self.client.budget);
        self.settled(channel, settled, settlement, now);
        self.flush_acks(now);
        is_done
    }

    /// Takes a channel out of the connection and begins to end it. The answer is sent when it has ended.
    pub(super) fn begin_end_of_channel(&mut self, number: u16, answer: Option<Answer>, now: Now) {
        self.finish_settling(number, now);
        self.requeue_unsent(Some(number), now);
        let Some(channel) = self.channels.remove(&number) else { return };
        self.late_returns.forget(number);
        let ending = self.ending_channel(number, channel, answer);
        self.begin_work(Unfinished::Channel(ending), now);
    }

    fn ending_channel(&mut self, number: u16, mut channel: Box<Channel>, answer: Option<Answer>) -> EndingChannel {
        channel.unsettled_mut().watch_no_more(number, &mut self.client.looks);
        self.tx_end(&mut channel);
        if let Some(reply) = channel.take_reply() {
            self.forget_reply_consumer(&reply);
        }
        if channel.has_published() {
            self.client.counters.publishers_closed.increment();
        }
        // A channel whose close the client hasn't answered was already counted when it was closed.
        if !channel.is_closing() {
            self.client.account.give(Kind::Channels, 1);
            self.client.channel_closed(number, channel.consumers());
        }
        EndingChannel::new(channel, answer)
    }

    /// Requeues deliveries and removes consumers, each queue's in one step. True if none is left.
    fn end_channel_part(&mut self, ending: &mut EndingChannel, now: Now) -> bool {
        let mut by_queue = ByQueue::default();
        let unsettled = ending.channel().unsettled_mut();
        let (settled, mut is_done) = unsettled.settle_part(u64::MAX, &mut self.client.budget);
        for Settled { source, runs } in settled {
            by_queue.add(unsettled.source(source), runs);
        }
        unsettled.report(&mut self.client.account);
        while is_done && let Some(key) = ending.next_consumer() {
            if let Some(consumer) = self.consumers.remove(&key) {
                self.client.account.give(Kind::Consumers, 1);
                self.client.consumer_closed(&consumer.event());
                by_queue.of(consumer.queue()).ended.push(consumer.id());
            }
            self.client.budget.spend(CONSUMER);
            is_done = !self.client.budget.is_spent();
        }
        for OfQueue { queue, settled, ended } in by_queue.take() {
            // As RabbitMQ counts: a delivery that the client got and never settled has failed.
            let left = queue.leave(&ended, &settled, true, now.monotonic);
            ending.deletes(self.client.delete_if_unused(&queue, left, now));
        }
        is_done
    }

    /// Begins to end the connection and everything that it owns.
    pub(super) fn begin_end(&mut self, answer: Option<Answer>, now: Now) {
        self.run.give_up_file();
        self.flush_run(now);
        self.flush_acks(now);
        self.abandon_questions(now);
        self.begin_work(Unfinished::Connection(EndingConnection::new(answer)), now);
    }

    fn end_connection_part(&mut self, ending: &mut EndingConnection, now: Now) -> bool {
        if !ending.has_begun() {
            self.confirming.clear();
            self.requeue_unsent(None, now);
            self.contents.clear();
            self.client.turns.clear();
            self.replies.drop_waiting();
            ending.begin(std::mem::take(&mut self.channels), self.client.first_exclusive_queue());
        }
        while !self.client.budget.is_spent()
            && let Some(next) = ending.next_channel()
        {
            let mut channel = match next {
                NextChannel::Begun(channel) => channel,
                NextChannel::New(number, channel) => {
                    self.client.budget.spend(CONSUMER);
                    self.ending_channel(number, channel, None)
                }
            };
            let is_done = self.end_channel_part(&mut channel, now);
            ending.channel_ended(channel, is_done);
        }
        while !self.client.budget.is_spent()
            && let Some(next) = ending.next_queue()
        {
            let gone_at = self.client.delete_exclusive_queues(next, now);
            ending.queues_deleted(gone_at);
        }
        if !ending.is_done() {
            return false;
        }
        self.client.left();
        true
    }
}
