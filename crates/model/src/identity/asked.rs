use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;

use super::Right;

/// Number of answers that one connection keeps. With one more it forgets them all.
const ANSWERS_MAX: usize = 1_000;

/// Number of missing answers that are noted, the last ones: those of all vhosts in a list.
const WANTED_MAX: usize = 1_000;

/// A question to a backend: whether an identity may do one thing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum GrantQuestion {
    /// Whether it may enter a vhost.
    Enter {
        /// The vhost.
        vhost: Arc<str>,
    },
    /// Whether it has a permission on a queue or an exchange.
    Resource {
        /// The vhost.
        vhost: Arc<str>,
        /// Whether it is a queue, and no exchange.
        is_queue: bool,
        /// The name; `amq.default` for the default exchange.
        name: Arc<str>,
        /// The permission.
        right: Right,
    },
    /// Whether it has a permission on a routing key at a topic exchange.
    Topic {
        /// The vhost.
        vhost: Arc<str>,
        /// The exchange.
        exchange: Arc<str>,
        /// The routing key.
        routing_key: Arc<str>,
        /// The permission.
        right: Right,
        /// The client's own id, in a protocol that has one.
        client_id: Option<Arc<str>>,
    },
}

impl GrantQuestion {
    /// Whether the identity may enter this vhost.
    pub fn enter(vhost: &str) -> Self {
        Self::Enter { vhost: vhost.into() }
    }
}

/// A backend's answer to a [`GrantQuestion`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GrantAnswer {
    /// It may.
    Granted,
    /// It may not.
    Refused,
    /// No answer came. It counts as a refusal once, and the next time the backend is asked again.
    #[default]
    Failed,
}

/// The answers of a backend so far. Clones share them.
///
/// A question without an answer is noted. The connection asks it, and takes the frame again that needs the answer.
#[derive(Clone, Default)]
pub struct AskedGrants(Arc<Kept>);

#[derive(Default)]
struct Kept {
    answers: Mutex<Answers>,
    context: Option<Arc<dyn Any + Send + Sync>>,
}

#[derive(Debug, Default)]
struct Answers {
    known: FxHashMap<GrantQuestion, bool>,
    wanted: Vec<GrantQuestion>,
    failed: Vec<GrantQuestion>,
    /// The name that the server chose for the object of a frame that may be taken again.
    chosen: Option<String>,
}

impl AskedGrants {
    /// These answers, to which others may be added.
    pub fn new(known: impl IntoIterator<Item = (GrantQuestion, bool)>) -> Self {
        let answers = Answers { known: known.into_iter().collect(), ..Answers::default() };
        Self(Arc::new(Kept { answers: Mutex::new(answers), context: None }))
    }

    /// No answers yet, with something that the backend needs to know of the client when it is asked. It isn't written down.
    pub fn with_context(context: Arc<dyn Any + Send + Sync>) -> Self {
        Self(Arc::new(Kept { answers: Mutex::default(), context: Some(context) }))
    }

    /// The context that the backend gave, if it is of this type.
    pub fn context<T: Any>(&self) -> Option<&T> {
        self.0.context.as_deref()?.downcast_ref()
    }

    /// The answer to a question. `None` if it isn't there; then the question is noted.
    pub(crate) fn look(&self, question: GrantQuestion) -> Option<bool> {
        let mut answers = self.lock();
        if let Some(known) = answers.known.get(&question) {
            return Some(*known);
        }
        if let Some(at) = answers.failed.iter().position(|failed| *failed == question) {
            answers.failed.swap_remove(at);
            return Some(false);
        }
        if !answers.wanted.contains(&question) {
            if answers.wanted.len() == WANTED_MAX {
                answers.wanted.remove(0);
            }
            answers.wanted.push(question);
        }
        None
    }

    /// The answer to a question, if it is there.
    pub fn known(&self, question: &GrantQuestion) -> Option<bool> {
        self.lock().known.get(question).copied()
    }

    /// Whether an answer was missing since the last question was taken.
    pub fn wants(&self) -> bool {
        !self.lock().wanted.is_empty()
    }

    /// Takes the last question whose answer was missing, and forgets those before.
    pub fn take_wanted(&self) -> Option<GrantQuestion> {
        self.take_all_wanted().pop()
    }

    /// Takes all questions whose answers were missing.
    pub fn take_all_wanted(&self) -> Vec<GrantQuestion> {
        std::mem::take(&mut self.lock().wanted)
    }

    /// Notes the answer to a question.
    pub fn note(&self, question: GrantQuestion, answer: GrantAnswer) {
        let mut answers = self.lock();
        if answers.known.len() >= ANSWERS_MAX {
            answers.known.clear();
        }
        match answer {
            GrantAnswer::Granted => _ = answers.known.insert(question, true),
            GrantAnswer::Refused => _ = answers.known.insert(question, false),
            GrantAnswer::Failed => {
                if answers.failed.len() == WANTED_MAX {
                    answers.failed.remove(0);
                }
                answers.failed.push(question);
            }
        }
    }

    /// A name that begins with `prefix`, chosen for an object: the same one until it is used, since the answer is about that.
    pub fn choose(&self, prefix: &str, choose: impl FnOnce() -> String) -> String {
        let mut answers = self.lock();
        let kept = answers.chosen.take().filter(|name| name.starts_with(prefix));
        answers.chosen.insert(kept.unwrap_or_else(choose)).clone()
    }

    /// The chosen name is used: the next one is another.
    pub fn use_chosen(&self) {
        self.lock().chosen = None;
    }

    pub(super) fn all(&self) -> Vec<(GrantQuestion, bool)> {
        self.lock().known.iter().map(|(question, answer)| (question.clone(), *answer)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Answers> {
        // Every change is one assignment.
        self.0.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Without the context, which may hold secrets.
impl fmt::Debug for AskedGrants {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lock().fmt(f)
    }
}

/// Whether they have the same answers.
impl PartialEq for AskedGrants {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.lock().known == FxHashMap::from_iter(other.all())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_answer_is_wanted_until_it_is_noted() {
        let grants = AskedGrants::default();
        let question = GrantQuestion::enter("v");
        assert_eq!(grants.look(question.clone()), None);
        assert!(grants.wants());
        assert_eq!(grants.take_wanted(), Some(question.clone()));
        grants.note(question.clone(), GrantAnswer::Granted);
        assert_eq!((grants.look(question.clone()), grants.take_wanted()), (Some(true), None));
        grants.note(question.clone(), GrantAnswer::Refused);
        assert_eq!(grants.clone().look(question), Some(false));
    }

    #[test]
    fn all_missing_answers_are_noted_once_each() {
        let grants = AskedGrants::with_context(Arc::new(7_u32));
        let questions = ["a", "b"].map(GrantQuestion::enter);
        for question in questions.iter().chain(&questions) {
            grants.look(question.clone());
        }
        assert_eq!(grants.take_all_wanted(), questions);
        assert!(!grants.wants());
        assert_eq!((grants.context::<u32>(), grants.context::<u8>()), (Some(&7), None));
    }

    #[test]
    fn a_failed_question_is_refused_once_and_asked_again() {
        let grants = AskedGrants::default();
        let question = GrantQuestion::enter("v");
        grants.note(question.clone(), GrantAnswer::Failed);
        assert_eq!(grants.look(question.clone()), Some(false));
        assert_eq!(grants.look(question), None);
    }

    #[test]
    fn a_chosen_name_stays_until_it_is_used() {
        let grants = AskedGrants::default();
        let mut count = 0;
        let mut choose = |prefix: &str| {
            grants.choose(prefix, || {
                count += 1;
                format!("{prefix}{count}")
            })
        };
        assert_eq!([choose("a-"), choose("a-"), choose("b-"), choose("b-")], ["a-1", "a-1", "b-2", "b-2"]);
        grants.use_chosen();
        assert_eq!(choose("b-"), "b-3");
    }

    #[test]
    fn answers_have_a_limit() {
        let grants = AskedGrants::default();
        for number in 0..ANSWERS_MAX * 3 {
            grants.note(GrantQuestion::enter(&number.to_string()), GrantAnswer::Granted);
            assert!(grants.all().len() <= ANSWERS_MAX);
        }
        assert_eq!(grants.look(GrantQuestion::enter(&(ANSWERS_MAX * 3 - 1).to_string())), Some(true));
    }
}
