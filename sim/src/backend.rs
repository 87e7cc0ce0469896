//! The backend of logins and permissions.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use leveret_broker::Authenticate;
use leveret_broker::asked::{AnswerPlace, NowOrLater};
use leveret_broker::authenticate::{LoginOrigin, LoginOutcome, claimed, later_grant, later_login};
use leveret_model::{AskedGrants, GrantAnswer, GrantQuestion, Grants, Identity, Topology};

/// Admits everybody under the name that is claimed: at once as a user of the model, or later, in any order. Late ones are no users of the
/// model, and each of their permissions is asked for and granted later too.
#[derive(Default)]
pub struct Backend {
    is_late: AtomicBool,
    answered: AtomicU64,
    waiting: Mutex<Vec<Waiting>>,
}

enum Waiting {
    Login(Identity, AnswerPlace<LoginOutcome>),
    Grant(AnswerPlace<GrantAnswer>),
}

impl Backend {
    /// From now on it answers when the simulator chooses so.
    pub fn be_late(&self) {
        self.is_late.store(true, Ordering::Relaxed);
    }

    /// Number of questions without an answer.
    pub fn waiting(&self) -> usize {
        self.waiting.lock().expect("nothing panics with it").len()
    }

    /// Number of late answers so far.
    pub fn answered(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }

    /// Gives one of the answers.
    pub fn answer(&self, choice: usize) {
        let waiting = {
            let mut all = self.waiting.lock().expect("nothing panics with it");
            let choice = choice % all.len().max(1);
            (choice < all.len()).then(|| all.swap_remove(choice))
        };
        self.answered.fetch_add(waiting.is_some().into(), Ordering::Relaxed);
        match waiting {
            Some(Waiting::Login(identity, place)) => place.answer(Ok(identity)),
            Some(Waiting::Grant(place)) => place.answer(GrantAnswer::Granted),
            None => {}
        }
    }
}

impl Authenticate for Backend {
    fn authenticate(&self, _: &Topology, _: &str, response: &[u8], _: LoginOrigin<'_>) -> NowOrLater<LoginOutcome> {
        let name: Arc<str> = claimed(response).unwrap_or_default().into();
        if !self.is_late.load(Ordering::Relaxed) {
            return NowOrLater::Now(Ok(Identity::of_model(name)));
        }
        let identity = Identity::new(name, Vec::new(), Grants::Asked(AskedGrants::default()), "late");
        let (place, outcome) = later_login();
        self.waiting.lock().expect("nothing panics with it").push(Waiting::Login(identity, place));
        NowOrLater::Later(outcome)
    }

    fn recognise(&self, _: &Topology, name: &str, _: LoginOrigin<'_>) -> NowOrLater<LoginOutcome> {
        NowOrLater::Now(Ok(Identity::of_model(name)))
    }

    fn ask(&self, _: &Topology, _: &Identity, _: &GrantQuestion) -> NowOrLater<GrantAnswer> {
        let (place, answer) = later_grant();
        self.waiting.lock().expect("nothing panics with it").push(Waiting::Grant(place));
        NowOrLater::Later(answer)
    }
}
