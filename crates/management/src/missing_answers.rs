//! Requests of a user whose permissions a backend is asked for: what is missing is asked at once, and the request is answered anew.

use leveret_model::{Action, GrantAnswer, Identity, authorize};

use crate::api::Api;
use crate::identity::Requester;

/// Most times that a request is answered anew.
pub(crate) const ROUNDS_MAX: usize = 8;

/// Asks for the answers that were missing so far. Returns whether there were any.
pub(crate) async fn ask(api: &Api, identity: &Requester) -> bool {
    ask_of(api, identity.who()).await
}

/// As [`ask`], for an identity that makes no request.
pub(crate) async fn ask_of(api: &Api, who: &Identity) -> bool {
    let Some(asked) = who.asked() else { return false };
    let wanted = asked.take_all_wanted();
    let is_missing = !wanted.is_empty();
    let topology = api.topology();
    let authenticator = &api.broker().authenticator;
    // All are asked before the first answer is awaited.
    let asking: Vec<_> = wanted.into_iter().map(|it| (authenticator.ask(&topology, who, &it), it)).collect();
    for (answer, question) in asking {
        asked.note(question, api.answer(answer).await.unwrap_or(GrantAnswer::Failed));
    }
    is_missing
}

/// Asks which vhosts the user may enter, for a list.
pub(crate) async fn ask_vhosts(api: &Api, identity: &Requester) {
    if identity.who().asked().is_none() || identity.is_administrator() {
        return;
    }
    let topology = api.topology();
    for vhost in topology.vhosts() {
        let _noted = authorize(&topology, identity.who(), vhost, Action::Enter);
    }
    ask(api, identity).await;
}
