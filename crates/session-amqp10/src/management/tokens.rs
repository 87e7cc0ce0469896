//! `/auth/tokens`: a client renews the secret that it logged in with.

use leveret_amqp10::value::Value;
use leveret_model::{Action, Refused};

use crate::connection::Connection;
use crate::error::{Failure, Scope};
use crate::link::Link;
use crate::pairs::refusal::{Refusal, Result};
use crate::pairs::request::Body;
use crate::pairs::response::Done;
use crate::publisher::Destination;
use leveret_broker::time::Now;
use leveret_broker::wait_for::WaitFor;

impl Connection {
    /// PUT of a token. Users of the node's own database have none that could expire: as in RabbitMQ, any is taken.
    pub(super) fn renew_token(&mut self, body: Body<'_>) -> Result<Done> {
        let Body::Value(Value::Binary(_)) = body else {
            return Err(Refusal::bad_request("bad request: the token has to be a binary in an amqp-value"));
        };
        self.told().secret_updated("PUT /auth/tokens");
        self.renews_token = true;
        Ok(Done::no_content(WaitFor::default()))
    }

    /// Ends the sessions with links that the user's permissions don't allow any more, after a token was renewed.
    pub(super) fn end_forbidden(&mut self, now: Now) {
        if let Err(refused) = self.authorize(Action::Enter) {
            return self.fail(Failure::from(refused).ending(Scope::Connection), now);
        }
        for channel in self.sessions.channels() {
            let Some(mut session) = self.sessions.take(channel) else { continue };
            let refused = session.links().find_map(|link| self.no_longer(link));
            if let Some(refused) = refused.filter(|_| !session.ending) {
                self.fail_session(&mut session, Failure::from(refused).ending(Scope::Session), now);
            }
            self.sessions.put(session);
        }
    }

    /// The reason why a link wouldn't be attached now.
    fn no_longer(&self, link: &Link) -> Option<Refused> {
        let action = match link {
            Link::Consumer(consumer) => Action::Consume(&consumer.queue.info().name),
            Link::Replies(replies) => Action::Consume(replies.target().name()),
            Link::Publisher(publisher) => match &publisher.destination {
                Destination::Exchange { exchange, .. } => Action::Publish(exchange),
                Destination::Queue(_) => Action::Publish(""),
                // Each message is checked.
                Destination::Anonymous => return None,
            },
            _ => return None,
        };
        self.authorize(action).err()
    }
}
