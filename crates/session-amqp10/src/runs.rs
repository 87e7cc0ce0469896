//! Messages that publishers' links collected, on their way to their queues.

use super::connection::Connection;
use super::link::Link;
use super::publisher::{Collected, PublishRun, Publisher, TakenRun, WideRun};
use super::session::Session;
use super::unconfirmed::{Alike, PublishOutcome};
use leveret_broker::time::Now;
use leveret_session::fan_out::{FanOut, FannedOut};

/// One of [`Connection::flush_run`] and [`Connection::flush_run_in_parts`].
type Flush = fn(&mut Connection, &mut Session, u32, &mut Publisher, Now);

impl Connection {
    /// Hands all collected runs to their queues, in parts, except for the runs of a session that is taken out.
    pub(crate) fn flush_runs(&mut self, now: Now) {
        for (channel, handle) in self.publishing.take_collecting() {
            match self.sessions.take(channel) {
                Some(mut session) => {
                    self.flush_link(&mut session, handle, Self::flush_run_in_parts, now);
                    self.sessions.put(session);
                }
                None => self.publishing.collect(channel, handle),
            }
        }
    }

    /// Hands all collected runs to their queues whole, also those of this session, which is taken out.
    pub(crate) fn flush_whole_runs(&mut self, session: &mut Session, now: Now) {
        for (channel, handle) in self.publishing.take_collecting() {
            if channel == session.channel() {
                self.flush_link(session, handle, Self::flush_run, now);
            } else if let Some(mut other) = self.sessions.take(channel) {
                self.flush_link(&mut other, handle, Self::flush_run, now);
                self.sessions.put(other);
            }
        }
    }

    /// Hands a link's collected run to its queues by `flush`.
    pub(crate) fn flush_link(&mut self, session: &mut Session, handle: u32, flush: Flush, now: Now) {
        if let Some(mut link) = session.take(handle) {
            if let Link::Publisher(publisher) = &mut *link {
                flush(self, session, handle, publisher, now);
            }
            session.put(handle, link);
        }
    }

    /// Hands the whole collected run of a link to its queues, before something else is done.
    pub(crate) fn flush_run(&mut self, session: &mut Session, handle: u32, publisher: &mut Publisher, now: Now) {
        if let Some(mut fan_out) = self.take_run(session.channel(), publisher.run_mut(), now) {
            fan_out.whole(&mut self.client, now.monotonic);
            self.end_run(session, handle, publisher, fan_out, now);
        }
    }

    /// Hands a link's collected run to as many of its queues as the turn allows. No input is read until the others have
    /// it.
    pub(crate) fn flush_run_in_parts(
        &mut self,
        session: &mut Session,
        handle: u32,
        publisher: &mut Publisher,
        now: Now,
    ) {
        let Some(mut fan_out) = self.take_run(session.channel(), publisher.run_mut(), now) else { return };
        match fan_out.part(&mut self.client, now.monotonic) {
            true => self.end_run(session, handle, publisher, fan_out, now),
            false => {
                let (channel, messages) = (session.channel(), publisher.run_mut().take_list());
                self.publishing.push_wide(WideRun { channel, handle, messages, fan_out });
            }
        }
    }

    /// Takes out the collected run to hand it to its queues. None if nothing is collected, or if the run has to wait.
    fn take_run(&mut self, channel: u16, run: &mut PublishRun, now: Now) -> Option<FanOut> {
        let TakenRun { route, batch, persistent, file } = run.take()?;
        route.count(batch.len() as u64, now.monotonic);
        self.client.trace_published(channel, &route, &batch, now);
        Some(FanOut::new(&self.client, route, batch, persistent, file))
    }

    fn end_run(&mut self, session: &mut Session, handle: u32, publisher: &mut Publisher, fan_out: FanOut, now: Now) {
        let messages = publisher.run_mut().take_list();
        let fanned_out = fan_out.end(&mut self.client);
        self.note_outcomes(publisher, &messages, &fanned_out, now);
        publisher.run_mut().keep_list(messages);
        session.note_confirming(handle);
    }

    /// Notes the outcomes of a run of these messages that all its queues were offered.
    fn note_outcomes(&mut self, publisher: &mut Publisher, messages: &[Collected], fanned_out: &FannedOut, now: Now) {
        let (queues, count) = (fanned_out.route.queues.len(), messages.len() as u32);
        let slot = publisher.paced(fanned_out.slot, queues, count, now.monotonic);
        self.client.pace.granted(slot, fanned_out.paced_by, now.monotonic);
        let &FannedOut { ref route, accepted, ref wait, refusing, is_refused, reached_nobody, .. } = fanned_out;
        let refused = refusing.map_or(PublishOutcome::Accepted, |at| {
            let queue = route.queues.get(at).expect("a queue of the route");
            let reason = match queue.has_failed() {
                _ if is_refused => "disk full",
                false => "maxlen",
                true => "unavailable",
            };
            PublishOutcome::Rejected { queue: queue.info().name.clone(), reason }
        });
        let reached = if reached_nobody { PublishOutcome::Released } else { PublishOutcome::Accepted };
        let (taken, others) = messages.split_at(accepted as usize);
        let mut index = 0;
        for (messages, outcome) in [(taken, &reached), (others, &refused)] {
            for alike in messages.chunk_by(|before, next| before.is_followed_by(next)) {
                let (first, count) = (alike[0], alike.len() as u32);
                if !first.settled {
                    self.client.counters.published_with_confirm.add(u64::from(count));
                }
                let alike = Alike { first: first.id, count, index, settled: first.settled };
                publisher.add_outcome(alike, wait.clone(), outcome, now.monotonic);
                index += count;
            }
        }
    }

    /// Continues with runs that go to many queues. True if all queues have them.
    pub(super) fn go_on_fanning_out(&mut self, now: Now) -> bool {
        while let Some(wide) = self.publishing.first_wide() {
            if self.client.budget.is_spent() || !wide.fan_out.part(&mut self.client, now.monotonic) {
                return false;
            }
            let Some(wide) = self.publishing.pop_wide() else { break };
            let WideRun { channel, handle, messages, fan_out } = *wide;
            let fanned_out = fan_out.end(&mut self.client);
            let Some(mut session) = self.sessions.take(channel) else { continue };
            if let Some(Link::Publisher(publisher)) = session.link(handle) {
                self.note_outcomes(publisher, &messages, &fanned_out, now);
                session.note_confirming(handle);
            }
            self.sessions.put(session);
        }
        true
    }

    /// Whether input is blocked from now on, because publishes of this connection aren't in their queues yet. `session` is taken out.
    #[cold]
    pub(crate) fn awaits_publishes(&mut self, session: &mut Session, now: Now) -> bool {
        self.flush_whole_runs(session, now);
        self.client.await_publishes()
    }
}
