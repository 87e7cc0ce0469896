//! The fast path for a message that takes the route of the one before it and has nothing to check: most of what clients
//! send in large numbers. [`transfer`](super::transfer) handles all cases and takes more than twice as long.

use leveret_amqp10::performative::Transfer;
use leveret_message::incoming::Plain;

use super::connection::Connection;
use super::error::Result;
use super::publisher::{Collected, Publisher};
use super::session::Session;
use leveret_broker::time::Now;

impl Connection {
    /// Adds a transfer's message to its link's run. False if it has to take the slow path: nothing was done then.
    ///
    /// # Errors
    /// As for [`Assembly::receive_whole`](super::assembly::Assembly::receive_whole).
    #[inline]
    pub(super) fn receive_plain(
        &mut self,
        session: &mut Session,
        publisher: &mut Publisher,
        transfer: &Transfer<'_>,
        payload: &[u8],
        now: Now,
    ) -> Result<bool> {
        let settings = &self.client.broker.settings;
        if !publisher.assembly().is_whole(transfer)
            || payload.len() >= settings.body_file_from
            || settings.stamps.is_some()
        {
            return Ok(false);
        }
        let Some(message) = Plain::read(payload) else { return Ok(false) };
        let (destination, assembly, grant, run) = publisher.parts();
        let Some((exchange, key)) = destination.fixed() else { return Ok(false) };
        if !run.goes_on(message.is_durable(), message.has_headers(), self.client.broker.registry.generation()) {
            return Ok(false);
        }
        let (id, settled) = assembly.receive_whole(transfer, payload.len(), settings.max_message_size, grant)?;
        grant.received(payload.len() as u64);
        self.client.counters.published(payload.len() as u64);
        if run.is_empty() {
            self.publishing.collect(session.channel(), transfer.handle);
        }
        run.push(Collected { id, settled }, &message.stored(exchange.as_bytes(), key.as_bytes(), now.wall_ms));
        if run.is_full() {
            self.flush_run_in_parts(session, transfer.handle, publisher, now);
        }
        Ok(true)
    }
}
