//! A new leader's question to all other members: what do your clients hold of the placement's queues?

use std::collections::BTreeMap;
use std::sync::Arc;

use leveret_model::{MemberNumber, PlacementNumber, QueueId};
use parking_lot::Mutex;

use crate::claims::Claims;
use crate::remote::{HomeAnswer, HomeQuestion, Lanes};
use crate::replicas::HeldOfMember;

/// The answers so far.
#[derive(Default)]
pub struct HeldAnswers(Mutex<State>);

#[derive(Default)]
struct State {
    missing: usize,
    by_queue: HeldByQueue,
    all_there: Option<Box<dyn FnOnce() + Send>>,
}

/// The messages that members hold, by queue.
pub(crate) type HeldByQueue = BTreeMap<QueueId, Vec<(MemberNumber, Claims)>>;

impl HeldAnswers {
    /// Asks the members that are reached. `all_there` is called once all have answered, or can't any more.
    pub(crate) fn ask(
        lanes: &Lanes,
        (placement, term): (PlacementNumber, u64),
        all_there: Box<dyn FnOnce() + Send>,
    ) -> Arc<Self> {
        let lanes = lanes.of_core_to_all(0);
        let state = State { missing: lanes.len() + 1, by_queue: HeldByQueue::new(), all_there: Some(all_there) };
        let answers = Arc::new(Self(Mutex::new(state)));
        for (member, lane) in lanes {
            // It concerns all of the placement's queues.
            let asked = lane.ask(
                QueueId(0),
                HomeQuestion::Held(placement, term),
                || None,
                |answer| match answer {
                    HomeAnswer::Held(held) => Some(Some(held)),
                    _ => None,
                },
            );
            let answers = answers.clone();
            asked.then(move |held| answers.one_there(member, held.unwrap_or_default()));
        }
        answers.one_there(MemberNumber(0), HeldOfMember::new());
        answers
    }

    /// These answers, for members that are asked in another way.
    pub fn of(reports: impl IntoIterator<Item = (MemberNumber, HeldOfMember)>) -> Self {
        let answers = Self(Mutex::new(State { missing: usize::MAX, ..State::default() }));
        reports.into_iter().for_each(|(member, held)| answers.one_there(member, held));
        answers
    }

    fn one_there(&self, member: MemberNumber, held: HeldOfMember) {
        let all_there = {
            let mut state = self.0.lock();
            for (queue, claims) in held {
                state.by_queue.entry(queue).or_default().push((member, claims));
            }
            state.missing -= 1;
            if state.missing == 0 { state.all_there.take() } else { None }
        };
        if let Some(all_there) = all_there {
            all_there();
        }
    }

    /// The answers that are there. Later answers count for nothing.
    pub(crate) fn take(&self) -> HeldByQueue {
        std::mem::take(&mut self.0.lock().by_queue)
    }
}
