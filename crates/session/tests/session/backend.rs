//! A backend of logins that answers when the test says so.

use std::sync::{Arc, Mutex};

use leveret_broker::Authenticate;
use leveret_broker::asked::{AnswerPlace, NowOrLater};
use leveret_broker::authenticate::{
    LoginOrigin, LoginOutcome, RenewalOutcome, claimed, later_grant, later_login, later_renewal,
};
use leveret_model::{GrantAnswer, GrantQuestion, Identity, Topology};

/// Questions without an answer, the oldest first. Users of the model whose names begin with `guest` are admitted at once.
#[derive(Default)]
pub(crate) struct Backend {
    pub(crate) logins: Mutex<Vec<(String, AnswerPlace<LoginOutcome>)>>,
    pub(crate) grants: Mutex<Vec<(GrantQuestion, AnswerPlace<GrantAnswer>)>>,
    pub(crate) renewals: Mutex<Vec<(Vec<u8>, AnswerPlace<RenewalOutcome>)>>,
}

impl Authenticate for Backend {
    fn authenticate(&self, _: &Topology, _: &str, response: &[u8], _: LoginOrigin<'_>) -> NowOrLater<LoginOutcome> {
        let name = claimed(response).unwrap_or_default();
        if name.starts_with("guest") {
            return NowOrLater::Now(Ok(Identity::of_model(name)));
        }
        let (place, outcome) = later_login();
        self.logins.lock().expect("no panic").push((name.to_owned(), place));
        NowOrLater::Later(outcome)
    }

    fn recognise(&self, _: &Topology, _: &str, _: LoginOrigin<'_>) -> NowOrLater<LoginOutcome> {
        NowOrLater::Now(Err("no certificates here".to_owned()))
    }

    fn ask(&self, _: &Topology, _: &Identity, question: &GrantQuestion) -> NowOrLater<GrantAnswer> {
        let (place, answer) = later_grant();
        self.grants.lock().expect("no panic").push((question.clone(), place));
        NowOrLater::Later(answer)
    }

    fn renew(&self, _: &Topology, _: &Identity, secret: &[u8]) -> NowOrLater<RenewalOutcome> {
        let (place, outcome) = later_renewal();
        self.renewals.lock().expect("no panic").push((secret.to_vec(), place));
        NowOrLater::Later(outcome)
    }
}

impl Backend {
    /// Answers the only login that waits.
    #[track_caller]
    pub(crate) fn answer_login(&self, outcome: LoginOutcome) {
        let (_, place) = only(&mut self.logins.lock().expect("no panic"));
        place.answer(outcome);
    }

    /// Answers the only renewal that waits, and returns its secret.
    #[track_caller]
    pub(crate) fn answer_renewal(&self, outcome: RenewalOutcome) -> Vec<u8> {
        let (secret, place) = only(&mut self.renewals.lock().expect("no panic"));
        place.answer(outcome);
        secret
    }

    /// Answers the only question that waits, and returns it.
    #[track_caller]
    pub(crate) fn answer(&self, answer: GrantAnswer) -> GrantQuestion {
        let (question, place) = only(&mut self.grants.lock().expect("no panic"));
        place.answer(answer);
        question
    }

    /// Whether nothing waits for an answer.
    pub(crate) fn is_idle(&self) -> bool {
        self.logins.lock().expect("no panic").is_empty() && self.grants.lock().expect("no panic").is_empty()
    }
}

#[track_caller]
fn only<T>(waiting: &mut Vec<T>) -> T {
    assert_eq!(waiting.len(), 1, "one question waits");
    waiting.remove(0)
}

/// A shared backend.
pub(crate) fn backend() -> Arc<Backend> {
    Arc::default()
}
