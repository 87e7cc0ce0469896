//! Attaching and detaching links.

use leveret_amqp10::performative::{Attach, Detach};
use leveret_amqp10::{Serial, encode_performative};

use super::client::keep;
use super::event::Event;
use super::link::{LinkEnd, LinkState};
use super::session::{Session, SessionState, Surroundings, role};
use crate::{Rule, Violation};

impl Session {
    pub(crate) fn on_attach(
        &mut self,
        attach: &Attach<'_>,
        body: &[u8],
        around: &mut Surroundings<'_>,
    ) -> Result<(), Violation> {
        let text = format!("attach of link {:?} as {:?} with handle {}", attach.name, attach.role, attach.handle);
        if attach.handle > self.options.handle_max {
            let handle_max = self.options.handle_max;
            return Err(self.refuse(Rule::HandleMax, format!("{text}, handle-max {handle_max}")));
        }
        if self.by_remote.iter().any(|(remote, _)| *remote == attach.handle) {
            return Err(self.refuse(Rule::HandleInUse, text));
        }
        let waiting = self.links.iter_mut().flatten().find(|link| {
            link.remote_handle.is_none() && link.name == attach.name && role(&link.end) == attach.role.opposite()
        });
        let Some(link) = waiting else {
            return Err(self.refuse(Rule::AttachAnswer, format!("{text}, which no attach waits for")));
        };
        match &mut link.end {
            LinkEnd::Sender(end) => end.max_message_size = attach.max_message_size.unwrap_or(0),
            LinkEnd::Receiver(end) => {
                let Some(count) = attach.initial_delivery_count else {
                    return Err(self.refuse(Rule::AttachAnswer, format!("{text} without initial-delivery-count")));
                };
                end.grants.shift(count);
                end.delivery_count = Serial(count);
                end.settle_mode = attach.snd_settle_mode;
            }
        }
        link.remote_handle = Some(attach.handle);
        if link.state == LinkState::Attaching {
            link.state = LinkState::Attached;
        }
        let handle = link.handle;
        self.by_remote.push((attach.handle, handle));
        let attach = keep(around.arena, body);
        around.events.push(Event::Attached { channel: self.channel, handle, attach });
        Ok(())
    }

    pub(crate) fn on_detach(&mut self, detach: &Detach<'_>, around: &mut Surroundings<'_>) -> Result<(), Violation> {
        let link = self.link_of_peer(detach.handle, "detach")?;
        let handle = link.handle;
        let by_peer = match link.state {
            LinkState::Detaching { closed } => {
                // A detach with an error was in flight when the client's was sent.
                if closed && !detach.closed && detach.error.is_none() {
                    let text = format!("detach of handle {} without closed", detach.handle);
                    return Err(self.refuse(Rule::DetachAnswer, text));
                }
                false
            }
            LinkState::Attaching | LinkState::Attached => true,
        };
        // Nothing is sent after the client's end.
        if by_peer && self.state != SessionState::Ending {
            let answer = Detach { handle, closed: detach.closed, error: None };
            encode_performative(around.out, self.channel, &answer.into());
        }
        self.by_remote.retain(|(remote, _)| *remote != detach.handle);
        self.links[handle as usize] = None;
        self.pending.retain(|pending| pending.handle != handle);
        self.outgoing.drop_link(handle);
        if let Some(incoming) = &mut self.incoming {
            incoming.drop_link(handle);
        }
        around.events.push(Event::Detached {
            channel: self.channel,
            handle,
            closed: detach.closed,
            error: detach.error.map(Into::into),
            by_peer,
        });
        Ok(())
    }
}
