//! Memory of unfinished input: messages that have come in only partly, parts of frames, open transactions.
//!
//! A memory alarm holds their publishers back, so that nothing finishes them. If they are why the alarm is raised, it would never
//! clear: consumers can't take what isn't in a queue. Then the connections that hold most are closed, until the rest is within the
//! limit. Their messages weren't confirmed, and clients send them again.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::broker::Broker;
use crate::outbox::{Event, Outbox};

impl Broker {
    /// Bytes of memory that unfinished input of all connections takes.
    pub fn unfinished_bytes(&self) -> u64 {
        self.clients.outboxes().iter().map(|outbox| outbox.unfinished_bytes()).sum()
    }

    /// Number of connections that were closed since the start because their unfinished input kept the memory alarm raised.
    pub fn unfinished_closed(&self) -> u64 {
        self.unfinished_closed.load(Ordering::Relaxed)
    }

    /// Closes connections that hold unfinished input, those with the most first, until they held `excess` bytes together. Returns the
    /// number of connections.
    pub fn close_unfinished(&self, excess: u64) -> usize {
        let mut holders: Vec<(u64, Arc<Outbox>)> =
            self.clients.outboxes().into_iter().map(|outbox| (outbox.unfinished_bytes(), outbox)).collect();
        holders.retain(|(bytes, _)| *bytes > 0);
        holders.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
        let (mut freed, mut closed) = (0, 0);
        for (bytes, outbox) in holders {
            if freed >= excess {
                break;
            }
            freed += bytes;
            closed += 1;
            let reason = format!(
                "unfinished messages and transactions of this connection hold {bytes} bytes while a memory alarm blocks \
                 publishers, and together with others they are why it is raised: send them again; to have room for more, raise \
                 vm_memory_high_watermark"
            );
            outbox.send(Event::Close(reason.into()));
        }
        self.unfinished_closed.fetch_add(closed as u64, Ordering::Relaxed);
        closed
    }
}
