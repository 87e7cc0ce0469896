//! Changes of the control plane: a response is sent once they are durable and published.

use leveret_broker::asked::NowOrLater;
use leveret_broker::registry::{ChangeRequest, ChangeRequests};
use leveret_broker::streams::Waiter;
use leveret_broker::wait_for::{WaitEnd, WaitFor};
use leveret_model::{Command, CommandOutcome, Permit, Refused};
use tokio::sync::oneshot;

use crate::api::Api;
use crate::error::Error;

impl Api {
    /// Executes a command. Returns once it is visible and survives a power cut.
    ///
    /// # Errors
    /// It is refused, or the node stops.
    pub(crate) async fn submit(&self, permit: Permit, command: Command) -> Result<CommandOutcome, Error> {
        Ok(self.change(ChangeRequest::new(permit, command)).await??)
    }

    /// Executes a command that deletes something. Returns once that is gone, also after a power cut.
    ///
    /// # Errors
    /// It isn't there, or not any more; the command is refused, or the node stops.
    pub(crate) async fn delete(&self, request: ChangeRequest) -> Result<(), Error> {
        match self.change(request).await?? {
            CommandOutcome::Absent => Err(Error::NotFound),
            _ => Ok(()),
        }
    }

    /// Asks for a change. Returns once it is visible and survives a power cut, or is refused.
    ///
    /// # Errors
    /// The node stops.
    pub(crate) async fn change(&self, request: ChangeRequest) -> Result<Result<CommandOutcome, Refused>, Error> {
        let (user, now) = (request.permit.user().cloned().unwrap_or_default(), self.node().clock().monotonic());
        let changed = match self.answer(self.broker().registry.change(request, now)).await? {
            Ok(changed) => changed,
            Err(refused) => return Ok(Err(refused)),
        };
        if let Some(mismatch) = &changed.mismatch {
            self.broker().redeclared.write(mismatch, &user, &"over HTTP", now);
        }
        self.durable(changed.ticket).await?;
        if let Some(history) = &changed.history {
            let (done, reached) = oneshot::channel();
            let wait = history.wait(Waiter::Call(Box::new(move || {
                let _ = done.send(());
            })));
            if !self.broker().streams.have(&wait) {
                reached.await.map_err(|_| Error::Unavailable("the node stops".to_owned()))?;
            }
        }
        Ok(Ok(changed.outcome))
    }

    /// Executes commands as one change: all of them, or none if one is refused.
    ///
    /// # Errors
    /// One is refused, or the node stops.
    pub(crate) async fn submit_all(
        &self,
        permit: Permit,
        commands: Vec<Command>,
    ) -> Result<Vec<CommandOutcome>, Error> {
        let changed = self.change_all(ChangeRequests { permit, commands: commands.into(), is_new: false }).await?;
        Ok(changed.map_err(|(_, refused)| refused)?)
    }

    /// Asks for several changes as one. Returns once they are visible and survive a power cut, or one of them, with this index, is
    /// refused.
    ///
    /// # Errors
    /// The node stops.
    pub(crate) async fn change_all(
        &self,
        requests: ChangeRequests,
    ) -> Result<Result<Vec<CommandOutcome>, (usize, Refused)>, Error> {
        let now = self.node().clock().monotonic();
        let changed = match self.answer(self.broker().registry.change_all(requests, now)).await? {
            Ok(changed) => changed,
            Err(refused) => return Ok(Err(refused)),
        };
        self.durable(changed.ticket).await?;
        Ok(Ok(changed.outcomes))
    }

    /// Waits until all queues behave by the policies that are published.
    ///
    /// # Errors
    /// The node stops.
    pub(crate) async fn policies_apply(&self) -> Result<(), Error> {
        let (done, applied) = oneshot::channel();
        self.broker().when_policies_apply(Box::new(move || {
            let _ = done.send(());
        }));
        applied.await.map_err(|_| Error::Unavailable("the node stops".to_owned()))
    }

    /// Whether this node has caught up with what the members of its cluster had agreed on before this call, so that an object that wasn't
    /// found may be there now.
    pub(crate) async fn catches_up(&self) -> bool {
        self.answer(self.broker().registry.catch_up()).await.unwrap_or(false)
    }

    /// The answer of a queue or of the control plane, at once or later.
    ///
    /// # Errors
    /// The node stops.
    pub(crate) async fn answer<T: Send + 'static>(&self, asked: NowOrLater<T>) -> Result<T, Error> {
        match asked {
            NowOrLater::Now(answer) => Ok(answer),
            NowOrLater::Later(later) => {
                let (done, answered) = oneshot::channel();
                later.then(move |answer| {
                    let _ = done.send(answer);
                });
                answered.await.map_err(|_| Error::Unavailable("the node stops".to_owned()))
            }
        }
    }

    /// Waits until this is on disk, and its changes are published.
    ///
    /// # Errors
    /// The node stops.
    pub(crate) async fn durable(&self, wait: impl Into<WaitFor>) -> Result<(), Error> {
        self.over(wait).await.map(drop)
    }

    /// Waits until this is on disk, and its changes are published. Returns whether a queue has it of which it was a message.
    ///
    /// # Errors
    /// The node stops.
    pub(crate) async fn over(&self, wait: impl Into<WaitFor>) -> Result<bool, Error> {
        let is_routed = match self.end_of(wait).await? {
            // A message that was published over HTTP counts as routed if a queue refused it, as in RabbitMQ.
            WaitEnd::Reached | WaitEnd::Refused(_) => true,
            WaitEnd::Unrouted => false,
            WaitEnd::Gone => return Err(Error::Unavailable(WaitEnd::GONE_TEXT.to_owned())),
        };
        self.broker().registry.publish();
        Ok(is_routed)
    }

    /// Waits for the end of a wait.
    ///
    /// # Errors
    /// The node stops.
    pub(crate) async fn end_of(&self, wait: impl Into<WaitFor>) -> Result<WaitEnd, Error> {
        let (streams, wait) = (&self.broker().streams, wait.into());
        streams.announce();
        let (done, ended) = oneshot::channel();
        streams.when_over(
            wait,
            Box::new(move |end| {
                let _ = done.send(end);
            }),
        );
        ended.await.map_err(|_| Error::Unavailable("the node stops".to_owned()))
    }
}
