//! The side of a data link that has the clients.

use std::sync::Arc;

use leveret_broker::output::Output;
use leveret_broker::remote::Lane;
use leveret_broker::time::{Nanos, Now};
use leveret_broker::{Broker, Session, Wake};
use leveret_model::MemberNumber;
use tracing::warn;

use crate::calls::{encode_begin, encode_call};
use crate::frame::{DataFrameError, decode};
use crate::replies::{Reply, decode_reply};

/// Bytes of output that no more calls are added to.
const OUTPUT_BYTES: usize = 256 << 10;

/// Sends the calls of one core's lane, and passes on what comes back.
pub struct AskingSession {
    broker: Arc<Broker>,
    member: MemberNumber,
    core: usize,
    lane: Arc<Lane>,
    output: Output,
    is_finished: bool,
    has_left: bool,
}

impl AskingSession {
    /// The session of a link that this core dialled to a member; `wake` wakes its task. Its lane is open from now on.
    pub fn new(broker: &Arc<Broker>, member: MemberNumber, core: usize, wake: Arc<dyn Wake>, now: Nanos) -> Self {
        let lane = broker.open_lane(member, core, wake, now);
        let broker = broker.clone();
        let mut output = Output::default();
        encode_begin(output.buffer(), core as u16);
        Self { broker, member, core, lane, output, is_finished: false, has_left: false }
    }

    fn pass_on(&mut self, kind: u8, fields: &[u8]) -> Result<(), DataFrameError> {
        match decode_reply(kind, fields)? {
            Reply::Done(through, not_taken) => {
                if !self.lane.done(through, not_taken) {
                    return Err(DataFrameError::Unfit("calls are done that were never made"));
                }
            }
            Reply::Answer(number, answer) => self.lane.answered(number, answer),
            Reply::Deliver(queue, id, taken) => self.lane.delivered(queue, id, taken),
            Reply::DeliverChunk(id, taken, committed) => self.lane.delivered_chunk(id, taken, committed),
            Reply::Signal(id, signal) => self.lane.signalled(id, signal),
        }
        Ok(())
    }
}

impl Session for AskingSession {
    fn receive(&mut self, input: &[u8], _: Now) -> usize {
        let mut used = 0;
        while !self.is_finished {
            let passed = match decode(&input[used..]) {
                Ok(None) => return used,
                Ok(Some((kind, fields, length))) => {
                    used += length;
                    self.pass_on(kind, fields)
                }
                Err(error) => Err(error),
            };
            if let Err(error) = passed {
                warn!("the data link to member {} ends: {error}", self.member.0);
                self.is_finished = true;
            }
        }
        input.len()
    }

    fn turn(&mut self, _: Now) {
        while self.output.len() < OUTPUT_BYTES
            && let Some(call) = self.lane.next_call()
        {
            encode_call(self.output.buffer(), &call);
        }
    }

    fn wants_turn(&self) -> bool {
        // The socket wakes the task when it has taken the output.
        self.output.len() < OUTPUT_BYTES && self.lane.has_calls()
    }

    fn wants_read(&self) -> bool {
        true
    }

    fn next_deadline(&self) -> Option<Nanos> {
        None
    }

    fn is_finished(&self) -> bool {
        self.is_finished
    }

    fn is_ending(&self) -> bool {
        false
    }

    fn is_logged_in(&self) -> bool {
        true
    }

    fn output(&mut self) -> &mut Output {
        &mut self.output
    }

    fn transferred(&mut self, _: u64, _: u64, _: Now) {}

    fn disconnected(&mut self, _: Now) {
        if !std::mem::replace(&mut self.has_left, true) {
            self.broker.lanes.close(self.member, self.core, &self.lane, &self.broker.streams);
        }
    }
}
