//! A core's turn of deferred work: each piece is handed to the part that does such work.

use std::sync::Arc;

use leveret_queue::dead_letter::TURN_MESSAGES_MAX;

use crate::broker::Broker;
use crate::deferred::Work;
use crate::queue_handle::QueueRef;
use crate::queue_stream::QueueStream;
use crate::streams::CommitStream;
use crate::time::Now;

impl Broker {
    /// Does a piece of a core's deferred work. Returns true if more can be done at once.
    pub fn deferred_turn(self: &Arc<Self>, core: usize, now: Now) -> bool {
        if !self.has_deferred_work(core, now) {
            return false;
        }
        if core == 0 {
            self.publish_notices(now);
        }
        let work = self.deferred.next(core, TURN_MESSAGES_MAX, now.monotonic);
        let stream = work.as_ref().and_then(Work::needs_room_of).map(|queue| queue.stream());
        let is_full = |stream: &dyn CommitStream| !stream.has_room() || self.deferred.is_set_aside(core, stream.id());
        let full = stream.filter(|stream| is_full(&***stream)).map(QueueStream::shared);
        match work {
            Some(work) if let Some(full) = full => self.deferred.set_aside(core, &*full, work),
            Some(Work::DeadLetters(queue)) => {
                self.move_dead_letters(core, &queue, now);
                self.reads.dead_letters_left();
            }
            Some(Work::Due(queue)) => self.run_timers(&queue, now),
            Some(Work::Refused(refused)) => self.move_refused(core, refused, now),
            Some(Work::Moving(moving)) => {
                self.go_on_moving(core, moving, now);
                self.reads.dead_letters_left();
            }
            Some(Work::Ended(mut ended)) => {
                ended.tell();
                if !ended.is_empty() {
                    self.deferred.tell_more(core, ended);
                }
            }
            Some(Work::Deleted(queues)) => queues.iter().for_each(QueueRef::delete),
            Some(Work::Asked(question)) => question(now),
            Some(Work::History(copy)) => self.copy_history(core, copy, now),
            Some(Work::Policies) => self.apply_policies(now),
            None => {}
        }
        self.streams.announce();
        self.has_deferred_work(core, now)
    }

    /// Whether a core has work. The notices are work of the first one.
    pub fn has_deferred_work(&self, core: usize, now: Now) -> bool {
        self.deferred.has_work(core, core == 0 && !self.notices.is_empty(), now.monotonic)
    }
}
