//! The page's sessions, wherever they are: kept by this node or another member, or held by their tokens.

use std::time::{Duration, Instant};

use axum::body::Bytes;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use leveret_model::{Identity, MemberNumber};
use leveret_node::{ForwardedIdentity, ForwardedRequest, ForwardedResponse, PageSessions};

use crate::account::Account;
use crate::api::Api;
use crate::session_token::{SessionToken, SignedSession};
use crate::sessions::{NoSession, SessionId, random};

/// Longest time for the answer of the member that keeps a session.
const KEEPER_WITHIN: Duration = Duration::from_secs(5);
/// The same for a response that goes on, which waits meanwhile and asks again.
const STREAM_WITHIN: Duration = Duration::from_secs(1);
/// Longest time for which a node that has just started waits for others' words about ended sessions.
const WORDS_WITHIN: Duration = Duration::from_secs(3);
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// The path at which members ask each other for a session.
pub(crate) const PATH: &str = "/local/page-sessions/";

/// An open session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PageSession {
    /// This node keeps it.
    Here(SessionId),
    /// Another member keeps it.
    At(MemberNumber, SessionId),
    /// Its token holds it.
    Signed(SignedSession),
}

fn wall_ms(api: &Api) -> u64 {
    api.node().clock().now().wall_ms
}

impl SignedSession {
    fn is_open(&self, ended: &PageSessions, now_ms: u64) -> bool {
        self.ends_ms > now_ms && ended.knows_since(self.began_ms) && !ended.has_ended(self.id, self.began_ms)
    }
}

impl Api {
    /// Begins a session. Returns its token.
    ///
    /// # Errors
    /// There are too many, or there is no randomness.
    pub(crate) fn begin_session(&self, account: Account, lasts: Duration) -> Result<String, NoSession> {
        let key = self.page_sessions().and_then(PageSessions::key);
        // Another backend's login is more than its name: only this node can ask that backend for its rights.
        if let Some(key) = key
            && account.who == Identity::of_model(account.user.name.clone())
        {
            let lasts_ms = u64::try_from(lasts.as_millis()).unwrap_or(u64::MAX);
            let session = SignedSession::new(&account.user, random()?, wall_ms(self), lasts_ms);
            if let Some(token) = session.token(key) {
                return Ok(token);
            }
        }
        let prefix = SessionToken::prefix(key.and_then(|_| self.own_member()));
        self.sessions().begin(&prefix, account, lasts, Instant::now())
    }

    fn page_sessions(&self) -> Option<&PageSessions> {
        self.node().cluster().map(|cluster| cluster.page_sessions())
    }

    fn own_member(&self) -> Option<MemberNumber> {
        self.node().cluster().and_then(|cluster| cluster.seen().member)
    }

    /// The session of a token, if it can be one of this node or its cluster.
    fn session_of(&self, token: &SessionToken) -> Option<PageSession> {
        match token {
            SessionToken::Signed(signed) => {
                let key = self.page_sessions()?.key()?;
                SignedSession::of(signed, key).map(PageSession::Signed)
            }
            SessionToken::Kept(Some(member), id) if Some(*member) != self.own_member() => {
                Some(PageSession::At(*member, *id))
            }
            SessionToken::Kept(_, id) => Some(PageSession::Here(*id)),
        }
    }

    /// The session of a token with its user as of now; `None` if there is no such session any more.
    pub(crate) async fn open_session(&self, token: &SessionToken) -> Option<(PageSession, Account)> {
        let session = self.session_of(token)?;
        let mut account = match &session {
            PageSession::Here(id) => self.kept_account(*id),
            PageSession::At(member, id) => self.account_at(*member, *id).await,
            PageSession::Signed(signed) => {
                self.await_words(signed).await;
                self.signed_account(signed)
            }
        };
        if account.is_none()
            && let PageSession::Signed(signed) = &session
            && signed.ends_ms > wall_ms(self)
            && self.catches_up_for_session().await
        {
            // Its user, or the password, may be newer than what this node has applied.
            account = self.signed_account(signed);
        }
        Some((session, account?))
    }

    async fn catches_up_for_session(&self) -> bool {
        self.own_member().is_some() && self.catches_up().await
    }

    /// The user of a session that this node keeps.
    pub(crate) fn kept_account(&self, id: SessionId) -> Option<Account> {
        let account = self.sessions().account(id, Instant::now())?;
        let renewed = account.renewed(&self.topology(), wall_ms(self));
        if renewed.is_none() {
            self.sessions().end(id);
        }
        renewed
    }

    fn signed_account(&self, session: &SignedSession) -> Option<Account> {
        if !session.is_open(self.page_sessions()?, wall_ms(self)) {
            return None;
        }
        let topology = self.topology();
        let account = Account::of(&topology, Identity::of_model(session.name.as_str()))?;
        session.is_of(&account.user).then_some(account)
    }

    /// Waits until this node would know if a session had been ended, which a node that starts learns from others.
    async fn await_words(&self, session: &SignedSession) {
        let until = Instant::now() + WORDS_WITHIN;
        while self.page_sessions().is_some_and(|words| !words.knows_since(session.began_ms))
            && Instant::now() < until
            && session.ends_ms > wall_ms(self)
        {
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }

    async fn account_at(&self, member: MemberNumber, id: SessionId) -> Option<Account> {
        let response = self.ask_keeper("GET", member, id).await?;
        let who = Identity::decode(&STANDARD.decode(response).ok()?)?;
        let topology = self.topology();
        Account::of(&topology, who)?.renewed(&topology, wall_ms(self))
    }

    async fn ask_keeper(&self, method: &str, member: MemberNumber, id: SessionId) -> Option<Bytes> {
        let response = self.keeper_response(method, member, id, KEEPER_WITHIN).await?;
        (response.status == 200).then_some(response.body)
    }

    /// The response of the member that keeps a session; `None` if there is none in time.
    async fn keeper_response(
        &self,
        method: &str,
        member: MemberNumber,
        id: SessionId,
        within: Duration,
    ) -> Option<ForwardedResponse> {
        self.topology().member(member)?;
        let target = format!("{PATH}{}", id.to_hex());
        let (method, identity) = (method.to_owned(), ForwardedIdentity::Machine);
        let request = ForwardedRequest { identity, method, target, headers: Vec::new(), body: Bytes::new() };
        self.node().forward(member, request, within).await.ok()
    }

    /// Ends the session of a token, if it is open.
    pub(crate) async fn end_session(&self, token: &SessionToken) {
        match self.session_of(token) {
            Some(PageSession::Here(id)) => self.sessions().end(id),
            Some(PageSession::At(member, id)) => drop(self.ask_keeper("DELETE", member, id).await),
            Some(PageSession::Signed(signed)) => {
                if let Some(sessions) = self.page_sessions() {
                    sessions.end(signed.ended(), wall_ms(self));
                }
            }
            None => {}
        }
    }

    /// Whether a session is still open, for a response that goes on. If the member that keeps it can't be asked, it is: the next
    /// request of the page says otherwise.
    pub(crate) async fn is_session_open(&self, session: &PageSession) -> bool {
        match session {
            PageSession::Here(id) => self.sessions().account(*id, Instant::now()).is_some(),
            PageSession::At(member, id) => {
                let response = self.keeper_response("GET", *member, *id, STREAM_WITHIN).await;
                response.is_none_or(|response| response.status != 404)
            }
            PageSession::Signed(signed) => self.signed_account(signed).is_some(),
        }
    }
}
