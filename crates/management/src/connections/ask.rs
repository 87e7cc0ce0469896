//! Asks connections for their state; each responds on its own core.

use std::sync::Arc;
use std::time::Duration;

use leveret_broker::inquiry::Inquiry;
use leveret_broker::views::{Client, ConnectionView};
use tokio::sync::mpsc::{self, UnboundedSender};

use crate::api::Api;

/// Number of connections asked at the same time.
pub(crate) const BATCH: usize = 256;
/// Timeout after which a connection is omitted: its core is stuck.
const PATIENCE: Duration = Duration::from_secs(5);

/// The states of these connections, in order; connections that ended meanwhile are omitted.
pub(crate) async fn ask(api: &Api, clients: &[Arc<Client>]) -> Vec<ConnectionView> {
    ask_by(api, clients, |sender| Inquiry::new(move |view| sender.send(view).unwrap_or_default())).await
}

/// As [`ask`], without the clients' properties: see [`Inquiry::brief`].
pub(crate) async fn ask_briefly(api: &Api, clients: &[Arc<Client>]) -> Vec<ConnectionView> {
    ask_by(api, clients, |sender| Inquiry::brief(move |view| sender.send(view).unwrap_or_default())).await
}

async fn ask_by(
    api: &Api,
    clients: &[Arc<Client>],
    inquiry: impl Fn(UnboundedSender<ConnectionView>) -> Inquiry,
) -> Vec<ConnectionView> {
    let (sender, mut receiver) = mpsc::unbounded_channel();
    for client in clients {
        api.broker().describe(client.id, inquiry(sender.clone()));
    }
    drop(sender);
    let mut views = Vec::with_capacity(clients.len());
    let all = async {
        while let Some(view) = receiver.recv().await {
            views.push(view);
        }
    };
    if tokio::time::timeout(PATIENCE, all).await.is_err() {
        tracing::warn!(asked = clients.len(), answered = views.len(), "connections don't answer");
    }
    views.sort_unstable_by_key(|view| view.client.id);
    views
}
