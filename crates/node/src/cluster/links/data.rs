//! Data links: the traffic of clients, on a connection of its own for each core of the node that dials. The handshake is done here, in the
//! cluster's thread; then a core serves the connection.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::Duration;

use leveret_peer::{Hello, LinkKind, Verdict};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tracing::debug;

use super::Inner;
use super::counters::{CountedSocket, Standing};
use super::dial::{dial_member, wait};
use crate::data_link::{DataLink, LinkEnd, Socket};

/// Time between the beginnings of two attempts.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Most data links that a member may have opened to this node: one for each of its cores.
pub(super) const ACCEPTED_MAX: usize = 1024;

/// The data links that stand, by member.
#[derive(Default)]
pub(super) struct DataLinks(BTreeMap<u16, Vec<Weak<LinkEnd>>>);

impl DataLinks {
    fn add(&mut self, member: u16, end: &Arc<LinkEnd>) {
        let links = self.0.entry(member).or_default();
        links.retain(|end| end.strong_count() > 0);
        links.push(Arc::downgrade(end));
    }

    /// The number of those of a member.
    pub(super) fn count(&self, member: u16) -> usize {
        let links = self.0.get(&member).into_iter().flatten();
        links.filter(|end| end.strong_count() > 0).count()
    }

    /// Ends those of a member.
    pub(super) fn end(&mut self, member: u16) {
        let links = self.0.remove(&member).into_iter().flatten();
        links.filter_map(|end| end.upgrade()).for_each(|end| end.ask());
    }

    pub(super) fn end_all(&mut self) {
        let members: Vec<_> = self.0.keys().copied().collect();
        members.into_iter().for_each(|member| self.end(member));
    }
}

impl Inner {
    /// Has a core serve a data link that another node dialled.
    pub(super) fn seat(&self, socket: Socket, verdict: Verdict) -> Result<(), String> {
        let (sender, _) = oneshot::channel();
        self.serve_data(socket, verdict, None, sender)
    }

    fn serve_data(
        &self,
        socket: Socket,
        verdict: Verdict,
        dialled_by: Option<usize>,
        ended: oneshot::Sender<()>,
    ) -> Result<(), String> {
        let Verdict { hello, rest, .. } = verdict;
        let member = hello.member.ok_or("it has no member number")?;
        let seats = self.service.data_seats().ok_or("the node starts")?;
        let end = LinkEnd::told(ended);
        self.data.borrow_mut().add(member, &end);
        let node_name = hello.node_name;
        let standing = Standing::new(LinkKind::Data, self.counters.clone(), Some(member));
        standing.received(rest.len());
        let socket: Socket = Box::new(CountedSocket { socket, standing });
        debug!("data link with node {node_name}");
        seats.serve(DataLink { socket, begin: rest.into(), member, node_name, dialled_by, end });
        Ok(())
    }
}

/// Keeps the data link of a core to a member.
pub(super) async fn keep(inner: Rc<Inner>, member: u16, core: usize) {
    let mut changes = inner.changes.subscribe();
    let mut last: Option<Instant> = None;
    loop {
        // It follows the control link, so that a node that can't be reached is dialled once a second and not once more for each core.
        let is_due = || inner.link(member, LinkKind::Control).is_some() && inner.service.data_seats().is_some();
        if !is_due() {
            if changes.changed().await.is_err() {
                return;
            }
            continue;
        }
        if let Some(turn) = last.map(|begin| begin + AGAIN_AFTER)
            && wait(&mut changes, turn, || !is_due()).await
        {
            continue;
        }
        last = Some(Instant::now());
        let (sender, ended) = oneshot::channel();
        let take = |socket, verdict| inner.serve_data(socket, verdict, Some(core), sender);
        match dial_member(&inner, member, LinkKind::Data, take).await {
            // The sender is gone only with the link.
            Ok(()) => _ = ended.await,
            Err(text) => debug!("data link: {text}"),
        }
    }
}

/// Whether a node may have one more data link.
pub(super) fn admit(inner: &Inner, hello: &Hello) -> Result<(), String> {
    let member = hello.member.ok_or("it has no member number")?;
    match inner.service.data_seats() {
        None => Err("the node starts".to_owned()),
        Some(_) if inner.data.borrow().count(member) >= ACCEPTED_MAX => {
            Err(format!("node {} has {ACCEPTED_MAX} data links already", hello.node_name))
        }
        Some(_) => Ok(()),
    }
}
