//! Deadlines and idle timeouts (specification 2.4.5).

use leveret_amqp10::{condition, encode_empty};

use super::connection::{Connection, Phase};
use super::error::Failure;
use leveret_broker::settings::TURN_BYTES_MAX;
use leveret_broker::time::{Nanos, Now, SECOND};

impl Connection {
    /// Handles deadlines and idle timeouts that have passed.
    pub(crate) fn keep_time(&mut self, now: Now) {
        if !self.client.output.is_empty() {
            self.client.last_output = now.monotonic;
        }
        if let Some(deadline) = self.client.deadline
            && now.monotonic >= deadline
        {
            match self.phase {
                Phase::Refused => self.send_login_refused(),
                Phase::Closing => self.phase = Phase::Finished,
                _ => {
                    self.told().cut("handshake_timeout: the connection was not opened in time", now);
                    self.phase = Phase::Finished;
                }
            }
            return;
        }
        if self.phase != Phase::Running {
            return;
        }
        if self.idle_in > 0 && self.takes_input() && now.monotonic >= self.client.last_input + self.idle_in {
            let seconds = self.idle_in / SECOND;
            let text = format!("no frame received from client within idle timeout threshold of {seconds}s");
            self.fail(Failure::connection(condition::RESOURCE_LIMIT_EXCEEDED, text), now);
            return;
        }
        if self.idle_out > 0
            && now.monotonic >= self.client.last_output + self.idle_out / 2
            && self.client.output.len() < TURN_BYTES_MAX
        {
            encode_empty(self.client.output.buffer());
            self.client.last_output = now.monotonic;
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<Nanos> {
        let running = self.phase == Phase::Running;
        let idle_in =
            (running && self.idle_in > 0 && self.takes_input()).then(|| self.client.last_input + self.idle_in);
        let idle_out = (running && self.idle_out > 0).then(|| self.client.last_output + self.idle_out / 2);
        [self.client.deadline, idle_in, idle_out].into_iter().flatten().min()
    }
}
