//! Connections are asked what they do; each answers on its own core.

use std::sync::Arc;
use std::time::Duration;

use leveret_broker::clients::{Client, Inquiry};
use leveret_broker::views::ConnectionView;
use tokio::sync::mpsc;

use crate::api::Api;

/// So many connections are asked at once.
pub(crate) const BATCH: usize = 256;
/// One that doesn't answer by then isn't shown: its core is stuck.
const PATIENCE: Duration = Duration::from_secs(5);

/// What these connections say, in their order; those that ended meanwhile are left out.
pub(crate) async fn ask(api: &Api, clients: &[Arc<Client>]) -> Vec<ConnectionView> {
    let (sender, mut receiver) = mpsc::unbounded_channel();
    for client in clients {
        let sender = sender.clone();
        let inquiry = Inquiry::new(move |view| {
            let _ = sender.send(view);
        });
        api.broker().describe(client.id, inquiry);
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
