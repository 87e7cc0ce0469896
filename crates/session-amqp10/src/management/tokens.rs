//! `/auth/tokens`: a client renews the secret that it logged in with.

use leveret_amqp10::value::Value;

use crate::connection::Connection;
use crate::pairs::refusal::{Refusal, Result};
use crate::pairs::request::Body;
use crate::pairs::response::Done;
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
}
