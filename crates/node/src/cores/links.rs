//! Data links of a cluster, served as connections of a core.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use leveret_broker::outbox::Outbox;
use leveret_broker::{Broker, Connection, Session};
use leveret_model::MemberNumber;
use leveret_session_peer::{AskingSession, HomeSession};
use tokio::sync::mpsc::UnboundedSender;

use super::accept::Arrival;
use super::connection::ConnectionTask;
use super::stream::Stream;
use super::{Core, RunningCore};
use crate::data_link::{DataLink, DataSeats};

/// The cores as places for data links.
pub(crate) struct LinkSeats {
    seats: Vec<(Arc<Core>, UnboundedSender<Arrival>)>,
    broker: Arc<Broker>,
    /// Links that others dialled go to the cores in turn.
    next: AtomicUsize,
}

impl LinkSeats {
    pub(crate) fn new(cores: &[RunningCore], broker: &Arc<Broker>) -> Self {
        let seats = cores.iter().map(|running| (running.core.clone(), running.reception.clone())).collect();
        Self { seats, broker: broker.clone(), next: AtomicUsize::new(0) }
    }
}

impl DataSeats for LinkSeats {
    fn cores(&self) -> usize {
        self.seats.len()
    }

    fn serve(&self, link: DataLink) {
        let core = link.dialled_by.unwrap_or_else(|| self.next.fetch_add(1, Ordering::Relaxed) % self.seats.len());
        let (core, reception) = &self.seats[core];
        let guest = LinkGuest { link, core: core.clone(), broker: self.broker.clone() };
        // A stopped core serves nobody, and the node is about to stop.
        let _ = reception.send(Arrival::Link(guest));
    }
}

/// A data link on its way to its core.
pub(crate) struct LinkGuest {
    link: DataLink,
    core: Arc<Core>,
    broker: Arc<Broker>,
}

impl LinkGuest {
    /// Serves it until it ends.
    pub(super) async fn serve(self) {
        let Self { link, core, broker } = self;
        let DataLink { socket, begin, member, node_name, dialled_by, end } = link;
        let wake = ConnectionTask::wake(&core).await;
        let outbox = Arc::new(Outbox::new(wake.clone()));
        end.begins(outbox.clone());
        let now = core.clock.monotonic();
        let session: Box<dyn Session> = match dialled_by {
            Some(of_core) => Box::new(AskingSession::new(&broker, MemberNumber(member), of_core, wake, now)),
            None => Box::new(HomeSession::new(&broker, (MemberNumber(member), node_name.into()), outbox.clone())),
        };
        let connection = Connection::of_session(outbox, session);
        ConnectionTask::new(Stream::link(socket), connection, core, begin.to_vec()).await;
        end.ended();
    }
}
