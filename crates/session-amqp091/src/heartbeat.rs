//! Deadlines and heartbeats (specification 4.2.7).

use leveret_amqp091::encode_heartbeat;

use super::session::{Phase, Session};
use leveret_broker::settings::TURN_BYTES_MAX;
use leveret_broker::time::{Nanos, Now, SECOND};

impl Session {
    /// Heartbeats and deadlines (specification 4.2.7).
    pub(crate) fn keep_time(&mut self, now: Now) {
        if !self.client.output.is_empty() {
            self.client.last_output = now.monotonic;
        }
        if let Some(deadline) = self.client.deadline
            && now.monotonic >= deadline
        {
            if !matches!(self.phase, Phase::Closing | Phase::Refused) {
                self.told().cut("handshake_timeout: the connection was not opened in time", now);
            }
            self.phase = Phase::Finished;
            return;
        }
        if self.heartbeat == 0 || self.phase == Phase::Finished {
            return;
        }
        if now.monotonic >= self.client.last_input + 2 * self.heartbeat {
            let seconds = self.heartbeat / SECOND;
            self.told().cut(&format!("missed heartbeats from client, timeout: {seconds}s"), now);
            self.phase = Phase::Finished;
        } else if now.monotonic >= self.client.last_output + self.heartbeat / 2
            && self.client.output.len() < TURN_BYTES_MAX
        {
            encode_heartbeat(self.client.output.buffer());
            self.client.last_output = now.monotonic;
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<Nanos> {
        let heartbeat = (self.heartbeat > 0 && self.phase != Phase::Finished)
            .then(|| (self.client.last_input + 2 * self.heartbeat).min(self.client.last_output + self.heartbeat / 2));
        match (self.client.deadline, heartbeat) {
            (Some(deadline), Some(heartbeat)) => Some(deadline.min(heartbeat)),
            (deadline, heartbeat) => deadline.or(heartbeat),
        }
    }
}
