//! Commands that change the control plane: they are asked for, and answered once the change is durable. Until its outcome is there,
//! the connection takes no further command.

use leveret_model::{CommandOutcome, Refused};
use leveret_stream_protocol::{ResponseCode, key};

use super::input_hold::{DurableAnswer, InputHold};
use super::questions::{AskedCommand, Changing, LateChange};
use super::refusal::code_of;
use super::session::Session;
use leveret_broker::asked::NowOrLater;
use leveret_broker::registry::{ChangeOutcome, ChangeRequest, ChangeRequests, ChangesOutcome};
use leveret_broker::ticket::Ticket;
use leveret_broker::time::Now;

enum Outcome {
    One(ChangeOutcome),
    All(ChangesOutcome),
}

impl Session {
    /// Asks for the change of a command.
    pub(crate) fn change(&mut self, request: ChangeRequest, changing: Changing, now: Now) {
        match self.client.change(request, now) {
            NowOrLater::Now(outcome) => self.changed(changing, outcome),
            NowOrLater::Later(answer) => self.wait_for_change(LateChange::One(answer), changing),
        }
    }

    /// Asks for the changes of a command, as one.
    pub(crate) fn change_all(&mut self, requests: ChangeRequests, changing: Changing, now: Now) {
        match self.client.broker.registry.change_all(requests, now.monotonic) {
            NowOrLater::Now(outcome) => self.all_changed(changing, outcome),
            NowOrLater::Later(answer) => self.wait_for_change(LateChange::All(answer), changing),
        }
    }

    fn wait_for_change(&mut self, change: LateChange, changing: Changing) {
        let outbox = self.client.outbox.clone();
        match &change {
            LateChange::One(answer) => answer.notify(outbox, 0),
            LateChange::All(answer) => answer.notify(outbox, 0),
        }
        self.held = InputHold::Asked(Box::new(AskedCommand::Change { change, changing }));
    }

    /// Goes on with the command whose outcome has come.
    pub(crate) fn take_change(&mut self, change: LateChange, changing: Changing, now: Now) {
        let outcome = match &change {
            LateChange::One(answer) => self.client.take_change(answer, now).map(Outcome::One),
            LateChange::All(answer) => answer.take().map(Outcome::All),
        };
        match outcome {
            Some(Outcome::One(outcome)) => self.changed(changing, outcome),
            Some(Outcome::All(outcome)) => self.all_changed(changing, outcome),
            None => self.held = InputHold::Asked(Box::new(AskedCommand::Change { change, changing })),
        }
    }

    fn changed(&mut self, changing: Changing, outcome: ChangeOutcome) {
        match outcome {
            // Declared again with the same arguments, it would be the same stream.
            Ok(changed) if changing.key == key::CREATE && changed.outcome != CommandOutcome::Created => {
                self.respond(changing.key, changing.correlation, ResponseCode::StreamAlreadyExists);
            }
            // Another client deleted it first.
            Ok(changed) if changed.outcome == CommandOutcome::Absent => {
                self.respond(changing.key, changing.correlation, ResponseCode::StreamDoesNotExist);
            }
            Ok(changed) => self.answer_changed(changing, changed.ticket),
            Err(refused) => self.answer_refused(&changing, &refused),
        }
    }

    fn all_changed(&mut self, changing: Changing, outcome: ChangesOutcome) {
        match outcome {
            Ok(changed) if changed.outcomes.first() == Some(&CommandOutcome::Absent) => {
                self.respond(changing.key, changing.correlation, ResponseCode::StreamDoesNotExist);
            }
            Ok(changed) => self.answer_changed(changing, changed.ticket),
            Err((_, refused)) => self.answer_refused(&changing, &refused),
        }
    }

    fn answer_changed(&mut self, changing: Changing, ticket: Ticket) {
        let Changing { key, correlation, deleted } = changing;
        self.answer_when_durable(ticket, DurableAnswer::Changed { key, correlation, deleted });
    }

    fn answer_refused(&mut self, changing: &Changing, refused: &Refused) {
        self.tell_refused(changing.name(), &refused.to_string());
        self.respond(changing.key, changing.correlation, code_of(refused));
    }
}
