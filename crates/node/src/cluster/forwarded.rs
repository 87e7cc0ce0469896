//! Requests of the HTTP API that members forward to each other. What they mean is the API's to know.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use leveret_model::MemberNumber;
use leveret_peer::{FORWARDED_BYTES_MAX, ForwardedRequest, ForwardedResponse, LinkKind};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::links::Links;

/// The kind of such requests between nodes.
pub(crate) const HTTP: u8 = 5;

/// The function that answers requests of other members.
type Answer = Box<dyn Fn(ForwardedRequest) -> Answering + Send + Sync>;
type Answering = Pin<Box<dyn Future<Output = ForwardedResponse> + Send>>;

/// The way of other members' requests to this node's HTTP API. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct ForwardedHttp(Arc<OnceLock<(Handle, Answer)>>);

impl std::fmt::Debug for ForwardedHttp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ForwardedHttp")
    }
}

impl ForwardedHttp {
    /// Lets requests be answered, on this runtime. Only the first call counts.
    pub(crate) fn answer_with<F: Future<Output = ForwardedResponse> + Send + 'static>(
        &self,
        runtime: Handle,
        answer: impl Fn(ForwardedRequest) -> F + Send + Sync + 'static,
    ) {
        let answer: Answer = Box::new(move |request| Box::pin(answer(request)));
        let _ = self.0.set((runtime, answer));
    }

    /// Answers a request of another member.
    ///
    /// # Errors
    /// It isn't one, or the node starts or stops.
    pub(crate) async fn take(&self, body: &Bytes) -> Result<Bytes, String> {
        let request = ForwardedRequest::decode(body).ok_or("the forwarded request isn't readable")?;
        let (runtime, answer) = self.0.get().ok_or("the node starts")?;
        let (sender, answered) = oneshot::channel();
        let answer = answer(request);
        // An asker that is gone needs no answer.
        runtime.spawn(async move { sender.send(answer.await).unwrap_or_default() });
        let response = answered.await.map_err(|_| "the node stops")?;
        if response.body.len() > FORWARDED_BYTES_MAX {
            return Err(format!(
                "the response has {} bytes, and at most {FORWARDED_BYTES_MAX} are forwarded: ask that node at its own address",
                response.body.len()
            ));
        }
        Ok(response.encode())
    }
}

/// Sends a request to a member, and waits for the response.
///
/// # Errors
/// The member can't be reached, doesn't respond in time, or the request or the response is too large.
pub(crate) async fn forward(
    links: &Links,
    member: MemberNumber,
    request: &ForwardedRequest,
    within: Duration,
) -> Result<ForwardedResponse, String> {
    let body = request.encode().ok_or("the request is too large to be forwarded")?;
    let answer = links.call(member.0, LinkKind::Bulk, HTTP, body, within).await?;
    ForwardedResponse::decode(&answer).ok_or_else(|| "the response isn't readable".to_owned())
}
