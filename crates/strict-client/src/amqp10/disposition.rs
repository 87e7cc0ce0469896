//! Dispositions from the peer.

use leveret_amqp10::performative::Disposition;
use leveret_amqp10::{Role, Serial};

use super::event::Event;
use super::link::{LinkEnd, Tag};
use super::session::{Session, Surroundings};
use super::window::Refusal;
use crate::{Rule, Violation};

impl Session {
    pub(crate) fn on_disposition(
        &mut self,
        disposition: &Disposition<'_>,
        around: &mut Surroundings<'_>,
    ) -> Result<(), Violation> {
        let first = Serial(disposition.first);
        let last = Serial(disposition.last.unwrap_or(disposition.first));
        let text = || format!("disposition of {first} to {last} as {:?}", disposition.role);
        if last.distance_from(first) < 0 {
            return Err(self.refuse(Rule::DispositionRange, text()));
        }
        let checked = match (disposition.role, &self.incoming) {
            (Role::Receiver, _) => self.outgoing.check(first, last),
            (Role::Sender, Some(incoming)) => incoming.check(first, last),
            (Role::Sender, None) => Err(Refusal::Unknown(first)),
        };
        checked.map_err(|refusal| match refusal {
            Refusal::Unknown(id) => self.refuse(Rule::KnownDelivery, format!("{}, but {id} was never sent", text())),
            Refusal::Settled(id) => self.refuse(Rule::SettledOnce, format!("{}, but {id} is settled", text())),
        })?;
        if disposition.settled {
            match disposition.role {
                Role::Receiver => self.outgoing.settle(first, last, |_| {}),
                Role::Sender => self.settle_incoming(first, last),
            }
        }
        around.events.push(Event::Disposition {
            channel: self.channel,
            role: disposition.role,
            first,
            last,
            settled: disposition.settled,
            state: disposition.state.map(Into::into),
        });
        Ok(())
    }

    /// Settles received deliveries, whichever side settled them.
    pub(crate) fn settle_incoming(&mut self, first: Serial, last: Serial) {
        let Some(incoming) = &mut self.incoming else { return };
        let links = &mut self.links;
        incoming.settle(first, last, |slot| {
            if let Some(Some(link)) = links.get_mut(slot.handle as usize)
                && let LinkEnd::Receiver(end) = &mut link.end
            {
                let tag: &Tag = &slot.more;
                end.tags.remove(tag);
            }
        });
    }
}
