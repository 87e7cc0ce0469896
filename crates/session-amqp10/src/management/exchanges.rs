//! `/exchanges/:exchange`.

use leveret_model::{Action, Arguments, Command, DeclareExchange, DeleteExchange, ExchangeType};

use crate::connection::Connection;
use crate::pairs::fields::{self, Taken};
use crate::pairs::names;
use crate::pairs::refusal::{Refusal, Result};
use crate::pairs::request::Body;
use crate::pairs::{Changing, Served};
use leveret_broker::registry::ChangeRequest;
use leveret_broker::time::Now;

const ALTERNATE: &str = "alternate-exchange";

/// The body of PUT.
struct Declaration {
    kind: String,
    durable: bool,
    auto_delete: bool,
    internal: bool,
    arguments: Arguments,
}

impl Declaration {
    fn parse(body: Body<'_>) -> Result<Self> {
        let mut it = Self {
            kind: ExchangeType::Direct.name().to_owned(),
            durable: true,
            auto_delete: false,
            internal: false,
            arguments: Arguments::default(),
        };
        fields::each(body, "exchange property", |name, value| match name {
            "type" => fields::text(&mut it.kind, value),
            "durable" => fields::flag(&mut it.durable, value),
            "auto_delete" => fields::flag(&mut it.auto_delete, value),
            "internal" => fields::flag(&mut it.internal, value),
            "arguments" => fields::table(&mut it.arguments, value),
            _ => Ok(Taken::No),
        })?;
        Ok(it)
    }
}

impl Connection {
    /// PUT of an exchange.
    pub(super) fn put_exchange(&mut self, name: &str, body: Body<'_>, now: Now) -> Result<Served> {
        let Declaration { kind, durable, auto_delete, internal, arguments } = Declaration::parse(body)?;
        if ExchangeType::parse(&kind).is_err() {
            return Err(Refusal::bad_request(format!("invalid exchange type '{kind}'")));
        }
        names::check_not_default(name)?;
        let alternate = fields::exchange_name(&arguments, ALTERNATE)?;
        let permit = self.permit(Action::DeclareExchange { exchange: name, alternate: alternate.as_deref() })?;
        if self.client.broker.registry.snapshot().topology.exchange(&self.client.vhost, name).is_none() {
            names::check_text(name)?;
            names::check_not_reserved("exchange", &self.client.vhost, name)?;
        }
        let command = Command::DeclareExchange(DeclareExchange {
            vhost: self.client.vhost.clone(),
            name: name.into(),
            kind,
            durable,
            auto_delete,
            internal,
            arguments,
        });
        self.change(Changing::DeclareExchange, ChangeRequest::new(permit, command), now)
    }

    /// DELETE of an exchange. One that doesn't exist counts as deleted.
    pub(super) fn remove_exchange(&mut self, name: &str, now: Now) -> Result<Served> {
        names::check_text(name)?;
        names::check_not_default(name)?;
        names::check_not_reserved("exchange", &self.client.vhost, name)?;
        let permit = self.permit(Action::DeleteExchange(name))?;
        let command = Command::DeleteExchange(DeleteExchange {
            vhost: self.client.vhost.clone(),
            name: name.into(),
            if_unused: false,
        });
        self.change(Changing::DeleteExchange, ChangeRequest::new(permit, command), now)
    }
}
