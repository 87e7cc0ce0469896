//! A backend of logins that answers when the test says so. `guest` has a password; `robot` is admitted late, and is no user of the node.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use leveret_broker::Authenticate;
use leveret_broker::asked::{AnswerPlace, NowOrLater};
use leveret_broker::authenticate::{LoginOrigin, LoginOutcome, claimed, later_grant, later_login};
use leveret_model::{GrantAnswer, GrantQuestion, Identity, Topology};

/// Questions that have no answer.
type Unanswered = Vec<(GrantQuestion, AnswerPlace<GrantAnswer>)>;

#[derive(Clone)]
pub(crate) struct Backend {
    internal: Arc<dyn Authenticate>,
    logins: Arc<Mutex<Vec<AnswerPlace<LoginOutcome>>>>,
    grants: Arc<Mutex<Unanswered>>,
}

impl Authenticate for Backend {
    fn authenticate(
        &self,
        topology: &Topology,
        mechanism: &str,
        response: &[u8],
        origin: LoginOrigin<'_>,
    ) -> NowOrLater<LoginOutcome> {
        if claimed(response) != Some("robot") {
            return self.internal.authenticate(topology, mechanism, response, origin);
        }
        let (place, outcome) = later_login();
        self.logins.lock().expect("no panic").push(place);
        NowOrLater::Later(outcome)
    }

    fn recognise(&self, topology: &Topology, name: &str, origin: LoginOrigin<'_>) -> NowOrLater<LoginOutcome> {
        self.internal.recognise(topology, name, origin)
    }

    fn ask(&self, _: &Topology, _: &Identity, question: &GrantQuestion) -> NowOrLater<GrantAnswer> {
        let (place, answer) = later_grant();
        self.grants.lock().expect("no panic").push((question.clone(), place));
        NowOrLater::Later(answer)
    }
}

impl Backend {
    pub(crate) fn new(internal: Arc<dyn Authenticate>) -> Self {
        Self { internal, logins: Arc::default(), grants: Arc::default() }
    }

    /// Waits for a login, and answers it.
    pub(crate) fn answer_login(&self, outcome: LoginOutcome) {
        first(&self.logins).answer(outcome);
    }

    /// Waits for a question, answers it, and returns it.
    pub(crate) fn answer(&self, answer: GrantAnswer) -> GrantQuestion {
        let (question, place) = first(&self.grants);
        place.answer(answer);
        question
    }
}

fn first<T>(waiting: &Mutex<Vec<T>>) -> T {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(first) = waiting.lock().expect("no panic").pop() {
            return first;
        }
        assert!(Instant::now() < deadline, "nothing is asked");
        std::thread::sleep(Duration::from_millis(5));
    }
}
