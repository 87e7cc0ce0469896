//! Requests that change the control plane: they are asked for, and the response is made of their outcome.

use leveret_broker::asked::NowOrLater;
use leveret_broker::queue_handle::Size;
use leveret_broker::registry::{ChangeOutcome, ChangeRequest};
use leveret_broker::streams::Waiter;
use leveret_broker::time::Now;
use leveret_model::CommandOutcome;

use crate::connection::Connection;
use crate::pairs::refusal::{Refusal, Result, Status};
use crate::pairs::response::{Body, Done};
use crate::pairs::{Changing, Served, describe};

impl Connection {
    /// Asks for the change of a request.
    pub(super) fn change(&mut self, changing: Changing, request: ChangeRequest, now: Now) -> Result<Served> {
        match self.client.change(request, now) {
            NowOrLater::Now(outcome) => self.changed(changing, outcome, now).map(Served::Done),
            NowOrLater::Later(answer) => Ok(Served::Asked(changing, answer)),
        }
    }

    /// The result of a request whose change was made or refused.
    pub(crate) fn changed(&self, changing: Changing, outcome: ChangeOutcome, now: Now) -> Result<Done> {
        let changed = outcome.map_err(|refused| match changing {
            Changing::DeclareQueue | Changing::DeclareExchange => Refusal::of_model(refused),
            _ => Refusal::without_conflict(refused),
        })?;
        let wait = changed.wait(|| Waiter::Connection(self.client.outbox.clone()));
        let (status, body) = match (changing, &changed.declared) {
            (Changing::DeclareQueue, Some(queue)) => {
                let node = &self.client.broker.settings.node_name;
                let body = match queue.ask(Size { used: Some(now.monotonic) }) {
                    NowOrLater::Now(size) => Body::Value(describe(node, queue.info(), size)),
                    NowOrLater::Later(answer) => {
                        Body::Declared { node: node.clone(), queue: queue.info().clone(), answer }
                    }
                };
                let is_new = changed.outcome == CommandOutcome::Created;
                (if is_new { Status::Created } else { Status::Ok }, body)
            }
            (Changing::DeleteQueue, _) => (Status::Ok, Body::Deleted(changed.deleted)),
            _ => return Ok(Done::no_content(wait)),
        };
        Ok(Done { status, body, wait })
    }
}
