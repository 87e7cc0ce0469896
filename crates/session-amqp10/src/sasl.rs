//! The SASL layer: the client's login (specification 5.3).

use leveret_amqp10::{HEADER_SASL, SaslFrame, Symbol, Symbols, condition, sasl};

use super::connection::{Connection, Phase};
use super::error::{Failure, Result};
use leveret_broker::authenticate::offered;
use leveret_broker::time::Now;

impl Connection {
    /// Answers the SASL header with ours, and the mechanisms that we offer.
    pub(crate) fn start(&mut self) {
        self.client.output.buffer().extend_from_slice(&HEADER_SASL);
        let broker = self.client.broker.clone();
        let names: Vec<Symbol<'_>> =
            offered(&broker.settings, &self.client.peer).into_iter().filter_map(Symbol::checked).collect();
        self.send_sasl(&SaslFrame::Mechanisms(sasl::Mechanisms { sasl_server_mechanisms: Symbols::of(&names) }));
    }

    fn send_sasl(&mut self, frame: &SaslFrame<'_>) {
        frame.encode(self.client.output.buffer());
    }

    /// Handles a SASL frame of the client. All our mechanisms need one step.
    pub(crate) fn sasl(&mut self, body: &[u8], now: Now) -> Result<()> {
        let SaslFrame::Init(init) = SaslFrame::decode(body)? else {
            return Err(Failure::connection(condition::ILLEGAL_STATE, "expected sasl-init"));
        };
        let mechanism = init.mechanism.as_str();
        let offered = offered(&self.client.broker.settings, &self.client.peer);
        if !offered.contains(&mechanism) {
            let offered = offered.join(" ");
            let why = format!("unsupported SASL mechanism '{mechanism}', this server offers: {offered}");
            self.told().failed(self.state(), &why);
            self.refuse_login(now);
            return Ok(());
        }
        let response = init.initial_response.unwrap_or_default();
        let Ok(response) = self.client.plain_response(mechanism, response) else {
            self.told().failed(self.state(), &format!("the response to the SASL mechanism {mechanism} is malformed"));
            self.refuse_login(now);
            return Ok(());
        };
        // Without an outcome the frame is taken again.
        let Some(outcome) = self.client.check_login(mechanism, response, now) else { return Ok(()) };
        match outcome {
            Ok(who) => {
                self.told().authenticated(who.name());
                self.client.log_in(who, mechanism, now);
                self.send_sasl(&SaslFrame::Outcome(sasl::Outcome { code: sasl::SaslCode::Ok, additional_data: None }));
                self.phase = Phase::Header;
            }
            Err(reason) => {
                self.told().failed(self.state(), &reason);
                self.refuse_login(now);
            }
        }
        Ok(())
    }

    /// Delays the answer to a refused login, so that passwords can't be tried in quick succession.
    fn refuse_login(&mut self, now: Now) {
        self.phase = Phase::Refused;
        self.client.delay_refusal(now);
    }

    /// Sends the delayed answer to a refused login.
    pub(crate) fn send_login_refused(&mut self) {
        self.send_sasl(&SaslFrame::Outcome(sasl::Outcome { code: sasl::SaslCode::Auth, additional_data: None }));
        self.phase = Phase::Finished;
    }
}
