//! The answer of a queue, of the control plane or of a backend of logins to a call: at once, or later, as from another node.
//!
//! A caller handles both ways in one function: with an answer at once it calls that function itself, with a later one once it
//! is signalled. Every question is answered: if whoever was asked is gone, or the way to it is cut, the asker gets the answer that
//! says so. Of a queue it is the default value of the answer's type, which every call gives for a queue that is gone.

use std::sync::Arc;

use leveret_queue::{Link, Signal};
use parking_lot::Mutex;

/// An answer, or the place where it will be.
pub enum NowOrLater<T> {
    /// The answer.
    Now(T),
    /// It comes later.
    Later(Later<T>),
}

/// The asker's end of an answer that comes later. If it is dropped, the answer is dropped when it comes.
pub struct Later<T>(Arc<Mutex<State<T>>>);

/// The other end of an answer that comes later. If it is dropped without an answer, whoever was asked is gone.
pub struct AnswerPlace<T> {
    state: Option<Arc<Mutex<State<T>>>>,
    /// The answer of somebody who is gone.
    gone: fn() -> T,
}

enum State<T> {
    /// No link is to be notified yet.
    Open,
    /// This link is signalled with this key.
    Notify(Arc<dyn Link>, u64),
    /// This function gets the answer.
    Then(Box<dyn FnOnce(T) + Send>),
    /// The answer is there.
    Answered(T),
    /// The asker has the answer, or has gone.
    Over,
}

/// Both ends of an answer of a queue that comes later.
pub(crate) fn later<T: Default>() -> (AnswerPlace<T>, Later<T>) {
    later_or(T::default)
}

/// Both ends of an answer that comes later; `gone` is the answer of somebody who is gone.
pub fn later_or<T>(gone: fn() -> T) -> (AnswerPlace<T>, Later<T>) {
    let state = Arc::new(Mutex::new(State::Open));
    (AnswerPlace { state: Some(state.clone()), gone }, Later(state))
}

impl<T> NowOrLater<T> {
    /// The answer, if it came at once.
    pub fn now(self) -> Option<T> {
        match self {
            Self::Now(answer) => Some(answer),
            Self::Later(_) => None,
        }
    }

    /// The value that `function` makes of the answer, when it is there.
    pub(crate) fn map<U: Default + Send + 'static>(
        self,
        function: impl FnOnce(T) -> U + Send + 'static,
    ) -> NowOrLater<U> {
        match self {
            Self::Now(answer) => NowOrLater::Now(function(answer)),
            Self::Later(asked) => {
                let (place, answer) = later();
                asked.then(move |asked| place.answer(function(asked)));
                NowOrLater::Later(answer)
            }
        }
    }

    /// Calls `function` with the answer: in this call if it is there, otherwise as [`Later::then`].
    pub fn then(self, function: impl FnOnce(T) + Send + 'static) {
        match self {
            Self::Now(answer) => function(answer),
            Self::Later(later) => later.then(function),
        }
    }
}

impl<T> AnswerPlace<T> {
    /// The answer of somebody who is gone.
    pub(crate) fn gone(&self) -> fn() -> T {
        self.gone
    }
}

impl<T> Later<T> {
    /// Signals `link` with [`Signal::Answered`] and `key` once the answer is there, in this call if it is.
    pub fn notify(&self, link: Arc<dyn Link>, key: u64) {
        let mut state = self.0.lock();
        match &*state {
            State::Answered(_) => {
                drop(state);
                link.signal(Signal::Answered(key));
            }
            _ => *state = State::Notify(link, key),
        }
    }

    /// Takes the answer, if it is there. It is there once only.
    pub fn take(&self) -> Option<T> {
        let mut state = self.0.lock();
        match std::mem::replace(&mut *state, State::Over) {
            State::Answered(answer) => Some(answer),
            other => {
                *state = other;
                None
            }
        }
    }

    /// Calls `function` with the answer, in this call if it is there; otherwise on the core or thread that it comes on, without
    /// any lock. The asker needn't exist then.
    pub fn then(self, function: impl FnOnce(T) + Send + 'static) {
        let answer = {
            let mut state = self.0.lock();
            match std::mem::replace(&mut *state, State::Over) {
                State::Answered(answer) => answer,
                _ => {
                    *state = State::Then(Box::new(function));
                    return;
                }
            }
        };
        function(answer);
    }
}

impl<T> Drop for Later<T> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        if !matches!(*state, State::Then(_)) {
            *state = State::Over;
        }
    }
}

impl<T> AnswerPlace<T> {
    /// Answers. The caller holds no lock.
    pub fn answer(mut self, answer: T) {
        if let Some(state) = self.state.take() {
            put(&state, answer);
        }
    }
}

impl<T> Drop for AnswerPlace<T> {
    fn drop(&mut self) {
        if let Some(state) = self.state.take() {
            put(&state, (self.gone)());
        }
    }
}

fn put<T>(place: &Mutex<State<T>>, answer: T) {
    let mut state = place.lock();
    match std::mem::replace(&mut *state, State::Over) {
        State::Notify(link, key) => {
            *state = State::Answered(answer);
            drop(state);
            link.signal(Signal::Answered(key));
        }
        State::Then(function) => {
            drop(state);
            function(answer);
        }
        State::Open => *state = State::Answered(answer),
        State::Answered(_) | State::Over => {}
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// Counts signals.
    #[derive(Default)]
    struct Bell(AtomicU64);

    impl Link for Bell {
        fn signal(&self, signal: Signal) {
            assert_eq!(signal, Signal::Answered(7));
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn rings(bell: &Bell) -> u64 {
        bell.0.swap(0, Ordering::Relaxed)
    }

    #[test]
    fn an_asker_is_signalled_once_whichever_end_is_first() {
        for asks_first in [true, false] {
            let bell = Arc::new(Bell::default());
            let (place, answer) = later::<u32>();
            if asks_first {
                answer.notify(bell.clone(), 7);
                assert_eq!((rings(&bell), answer.take()), (0, None));
                place.answer(5);
            } else {
                place.answer(5);
                answer.notify(bell.clone(), 7);
            }
            assert_eq!((rings(&bell), answer.take(), answer.take()), (1, Some(5), None));
        }
    }

    #[test]
    fn a_function_gets_the_answer_whichever_end_is_first() {
        for asks_first in [true, false] {
            let got = Arc::new(AtomicU64::new(0));
            let note = got.clone();
            let note = move |answer| note.store(answer, Ordering::Relaxed);
            let (place, answer) = later::<u64>();
            if asks_first {
                // The asker had an answer signalled, and goes.
                answer.notify(Arc::new(Bell::default()), 7);
                answer.then(note);
                place.answer(5);
            } else {
                place.answer(5);
                answer.then(note);
            }
            assert_eq!(got.load(Ordering::Relaxed), 5);
        }
    }

    #[test]
    fn a_queue_that_is_gone_answers_with_nothing() {
        let bell = Arc::new(Bell::default());
        let (place, answer) = later::<Option<u32>>();
        answer.notify(bell.clone(), 7);
        drop(place);
        assert_eq!((rings(&bell), answer.take()), (1, Some(None)));
    }

    #[test]
    fn an_asker_that_has_gone_is_not_signalled() {
        let bell = Arc::new(Bell::default());
        let (place, answer) = later::<Arc<u32>>();
        answer.notify(bell.clone(), 7);
        drop(answer);
        let message = Arc::new(1);
        place.answer(message.clone());
        assert_eq!((rings(&bell), Arc::strong_count(&message)), (0, 1), "the answer is dropped");
    }
}
