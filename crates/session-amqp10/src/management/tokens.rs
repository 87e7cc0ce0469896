//! `/auth/tokens`: a client renews the secret that it logged in with.

use leveret_amqp10::value::Value;

use crate::connection::Connection;
use crate::pairs::refusal::{Refusal, Result};
use crate::pairs::request::Body;
use crate::pairs::response::Done;
use leveret_broker::time::Now;
use leveret_broker::wait_for::WaitFor;

impl Connection {
    /// PUT of a token, which is checked like that of a login. Users of the node's own database have none that could expire: as in
    /// RabbitMQ, any is taken. With a token that isn't, the connection ends after the response.
    pub(super) fn renew_token(&mut self, body: Body<'_>, now: Now) -> Result<Done> {
        let Body::Value(Value::Binary(token)) = body else {
            return Err(Refusal::bad_request("bad request: the token has to be a binary in an amqp-value"));
        };
        match self.client.check_renewal(token, now) {
            // No client sees it: the request is served again.
            None => return Err(Refusal::bad_request("the backend hasn't answered yet")),
            Some(Ok(who)) => {
                let mechanism = self.client.mechanism().clone();
                self.client.log_in(who, &mechanism, now);
                self.told().secret_updated("PUT /auth/tokens");
                self.renews_token = true;
            }
            Some(Err(not_renewed)) => {
                self.told().secret_refused(not_renewed.reason());
                self.refused_token = Some(not_renewed.text());
            }
        }
        Ok(Done::no_content(WaitFor::default()))
    }
}
