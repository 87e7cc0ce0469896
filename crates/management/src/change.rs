//! Changes of the control plane: a response is sent once they are durable and published.

use leveret_broker::DeleteIf;
use leveret_broker::queue_handle::QueueAnswer;
use leveret_broker::streams::Waiter;
use leveret_broker::wait_for::WaitFor;
use leveret_model::{Command, CommandOutcome, DeleteQueue, Permit};
use tokio::sync::oneshot;

use crate::api::Api;
use crate::error::Error;

impl Api {
    /// Executes a command. Returns once it is visible and survives a power cut.
    ///
    /// # Errors
    /// It is refused, or the node stops.
    pub(crate) async fn submit(&self, permit: Permit, command: Command) -> Result<CommandOutcome, Error> {
        let declares = matches!(command, Command::DeclareQueue(_));
        let (user, now) = (permit.user().cloned().unwrap_or_default(), self.node().clock().monotonic());
        let submitted = self.broker().registry.submit(permit, command, now)?;
        if let Some(mismatch) = &submitted.mismatch {
            self.broker().redeclared.write(mismatch, &user, &"over HTTP", now);
        }
        let created = declares && submitted.outcome == CommandOutcome::Created;
        self.broker().count_queues(u64::from(declares), u64::from(created), submitted.deleted.len() as u64);
        self.durable(submitted.ticket).await?;
        if let Some(history) = &submitted.history {
            let (done, reached) = oneshot::channel();
            let wait = history.wait(Waiter::Call(Box::new(move || {
                let _ = done.send(());
            })));
            if !self.broker().streams.have(&wait) {
                reached.await.map_err(|_| Error::Unavailable("the node stops".to_owned()))?;
            }
        }
        Ok(submitted.outcome)
    }

    /// Deletes a queue if the conditions hold, and waits until it is gone.
    ///
    /// # Errors
    /// A condition doesn't hold, it is refused, or the node stops.
    pub(crate) async fn delete_queue(
        &self,
        permit: Permit,
        command: DeleteQueue,
        condition: DeleteIf,
    ) -> Result<(), Error> {
        let now = self.node().clock().monotonic();
        let submitted = self.broker().registry.delete_queue(permit, command, condition, None, now)?;
        self.broker().count_queues(0, 0, submitted.deleted.len() as u64);
        self.durable(submitted.ticket).await
    }

    /// Executes commands as one change: all of them, or none if one is refused.
    ///
    /// # Errors
    /// One is refused, or the node stops.
    pub(crate) async fn submit_all(
        &self,
        permit: &Permit,
        commands: Vec<Command>,
    ) -> Result<Vec<CommandOutcome>, Error> {
        let now = self.node().clock().monotonic();
        let declares: Vec<bool> = commands.iter().map(|command| matches!(command, Command::DeclareQueue(_))).collect();
        let submitted = self.broker().registry.submit_all(permit, &commands, now);
        let (outcomes, ticket) = submitted.map_err(|(_, refused)| refused)?;
        let declared = declares.iter().zip(&outcomes).filter(|(declares, _)| **declares);
        let created = declared.clone().filter(|(_, outcome)| **outcome == CommandOutcome::Created).count();
        self.broker().count_queues(declared.count() as u64, created as u64, 0);
        self.durable(ticket).await?;
        Ok(outcomes)
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

    /// The answer of a queue, at once or later.
    ///
    /// # Errors
    /// The node stops.
    pub(crate) async fn answer<T: Send + 'static>(&self, asked: QueueAnswer<T>) -> Result<T, Error> {
        match asked {
            QueueAnswer::Now(answer) => Ok(answer),
            QueueAnswer::Later(later) => {
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
        let (streams, wait) = (&self.broker().streams, wait.into());
        streams.announce();
        if !streams.have(&wait) {
            let (done, reached) = oneshot::channel();
            streams.when_reached(
                wait,
                Box::new(move || {
                    let _ = done.send(());
                }),
            );
            reached.await.map_err(|_| Error::Unavailable("the node stops".to_owned()))?;
        }
        self.broker().registry.publish();
        Ok(())
    }
}
