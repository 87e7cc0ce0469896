//! Attaching the halves of a link pair: two links of the same name between the same two nodes (link pair, 2.1).

use leveret_amqp10::performative::Attach;
use leveret_amqp10::value::{EncodedMap, Value};
use leveret_amqp10::{ReceiverSettleMode, Role, SenderSettleMode, Serial, TargetArchetype, condition};

use super::connection::Connection;
use super::error::{Failure, Result};
use super::link::Link;
use super::link_state::INITIAL_DELIVERY_COUNT;
use super::pairs::{ADDRESS, PairName, Requests, Responses};
use super::session::Session;

const PAIRED: &str = "paired";
/// Largest size in bytes of the address of the client's end, which is kept as long as a half exists.
const CLIENT_ADDRESS_MAX: usize = 1024;

impl Connection {
    /// Handles the attach of the half on which the client sends requests.
    pub(crate) fn attach_requests(&mut self, session: &mut Session, attach: &Attach<'_>) -> Result<()> {
        check_paired(attach)?;
        if attach.snd_settle_mode != SenderSettleMode::Settled {
            return Err(Failure::link(
                condition::INVALID_FIELD,
                format!("snd-settle-mode of requests to {ADDRESS} must be settled, not {:?}", attach.snd_settle_mode),
            ));
        }
        let pair = PairName::new(attach, attach.source.as_ref().and_then(|source| source.address));
        check_other_half(session, &pair, attach.role)?;
        self.check_unanswered(session, &pair)?;
        let initial = Serial(attach.initial_delivery_count.unwrap_or(0));
        session.put(attach.handle, Box::new(Link::Requests(Requests::new(pair, initial, self.client.partial.clone()))));
        session.note_granted(attach.handle);
        let max_message_size = Some(self.client.broker.settings.max_message_size);
        self.answer_half(session, attach, Attach { role: Role::Receiver, max_message_size, ..Attach::default() })?;
        self.send_session_flows(session);
        Ok(())
    }

    /// Handles the attach of the half on which the client receives responses. They are sent settled, whatever the
    /// client asks for.
    pub(crate) fn attach_responses(&mut self, session: &mut Session, attach: &Attach<'_>) -> Result<()> {
        check_paired(attach)?;
        let client = match &attach.target {
            Some(TargetArchetype::Target(target)) => target.address,
            Some(TargetArchetype::Coordinator(_)) | None => None,
        };
        let pair = PairName::new(attach, client);
        check_other_half(session, &pair, attach.role)?;
        let key = self.client.broker.fresh_id();
        self.links.insert(key, (session.channel(), attach.handle));
        let responses = Responses::new(pair, key, attach.max_message_size.unwrap_or(0));
        session.put(attach.handle, Box::new(Link::Responses(responses)));
        let answer = Attach {
            role: Role::Sender,
            initial_delivery_count: Some(INITIAL_DELIVERY_COUNT.0),
            max_message_size: attach.max_message_size,
            ..Attach::default()
        };
        self.answer_half(session, attach, answer)
    }

    fn answer_half(&mut self, session: &Session, attach: &Attach<'_>, answer: Attach<'_>) -> Result<()> {
        let properties = EncodedMap::new().with(PAIRED, true);
        let answer = Attach {
            name: attach.name,
            handle: attach.handle,
            snd_settle_mode: SenderSettleMode::Settled,
            rcv_settle_mode: ReceiverSettleMode::First,
            source: attach.source,
            target: attach.target,
            properties: Some(properties.as_map()),
            ..answer
        };
        self.send_attach(session.channel(), answer)
    }
}

fn check_paired(attach: &Attach<'_>) -> Result<()> {
    let own = match (&attach.source, &attach.target) {
        (Some(source), _) if attach.role == Role::Sender => source.address,
        (_, Some(TargetArchetype::Target(target))) if attach.role == Role::Receiver => target.address,
        _ => None,
    };
    let length = own.map_or(0, str::len);
    if length > CLIENT_ADDRESS_MAX {
        let text = format!("client address of {length} bytes is too long: at most {CLIENT_ADDRESS_MAX} are kept");
        return Err(Failure::link(condition::INVALID_FIELD, text));
    }
    match attach.properties.and_then(|properties| properties.lookup(PAIRED)) {
        Some(Value::Bool(true)) => Ok(()),
        _ => Err(Failure::link(
            condition::INVALID_FIELD,
            format!("Link property '{PAIRED}' is not set to boolean value 'true'"),
        )),
    }
}

/// Refuses a link whose name is in use, unless that link is the other half of the same pair and has no partner yet.
fn check_other_half(session: &mut Session, pair: &PairName, role: Role) -> Result<()> {
    for handle in session.handles() {
        let Some((other, other_role)) = session.link(handle).and_then(|link| link.pair()) else { continue };
        if other.name() == pair.name() && (other_role == role || other != pair) {
            let text = format!(
                "received invalid attach for management link pair '{}': the name has {} with client address {:?}",
                pair.name(),
                if other_role == role { "this half already" } else { "its other half" },
                other.client().unwrap_or_default(),
            );
            return Err(Failure::link(condition::PRECONDITION_FAILED, text));
        }
    }
    Ok(())
}
