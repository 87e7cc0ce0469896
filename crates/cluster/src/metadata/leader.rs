//! Asking the leader, and deciding as the leader.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use leveret_broker::registry::{Decided, PlacedAnswer, PlacedRequest, decide};
use leveret_model::{MemberNumber, Model, Refused, RefusedKind};
use openraft::AsyncRuntime;
use serde::{Deserialize, Serialize};

use super::batch::{Batch, DecidedRequest, Origin};
use super::machine::{AskedRequest, REMEMBERED};
use super::read::READ;
use super::{Metadata, MetadataHost};
use crate::event::Happening;
use crate::placement::Proposed;

/// Most bytes of records in one entry, unless a single one has more.
const ENTRY_BYTES: usize = 1 << 20;
/// Longest time that the leader takes to say what it did with a request.
const REPLY_WITHIN: Duration = Duration::from_secs(2);
/// Time after which a request without a leader is sent again.
const AGAIN_AFTER: Duration = Duration::from_millis(20);
/// Time in which an entry with the request reaches its asker, or else the request is sent again.
const ENTRY_WITHIN: Duration = Duration::from_secs(1);

/// Time for which requests are gathered before they become an entry, while several ask at once. An entry costs each member several
/// wake-ups and a sync, whatever is in it: at a thousand declarations a second that is most of what they cost.
const GATHER: Duration = Duration::from_millis(1);
/// Requests in the inbox from which on nothing is waited for.
const GATHERED: usize = 16;

/// A request on its way to the leader.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Sent {
    origin: Origin,
    request: PlacedRequest,
    /// Index of an entry up to which the asker knows that the request is in none.
    after: u64,
}

/// The fate of a request at the member that it was sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It is in an entry that is committed, or was.
    Entered,
    /// That member doesn't lead; another one may.
    NotLeader(Option<MemberNumber>),
    /// It isn't known; the request has to be sent again.
    Unknown,
    /// That member doesn't remember the requests of entries up to this index, and this may be one: the asker has to apply them first.
    Forgotten(u64),
}

impl Fate {
    fn encode(self) -> Bytes {
        match self {
            Fate::Entered => Bytes::from_static(&[1]),
            Fate::NotLeader(None) => Bytes::from_static(&[2]),
            Fate::NotLeader(Some(member)) => Bytes::from([&[2], &member.0.to_le_bytes()[..]].concat()),
            Fate::Unknown => Bytes::from_static(&[3]),
            Fate::Forgotten(index) => Bytes::from([&[4], &index.to_le_bytes()[..]].concat()),
        }
    }

    fn decode(bytes: &[u8]) -> Fate {
        match bytes {
            [1] => Fate::Entered,
            [2, low, high] => Fate::NotLeader(Some(MemberNumber(u16::from_le_bytes([*low, *high])))),
            [2] => Fate::NotLeader(None),
            [4, index @ ..] => {
                index.try_into().map_or(Fate::Unknown, |index| Fate::Forgotten(u64::from_le_bytes(index)))
            }
            _ => Fate::Unknown,
        }
    }
}

fn refused(text: &str) -> PlacedAnswer {
    PlacedAnswer::Refused(0, Refused::new(RefusedKind::Undecided, text))
}

/// A request that waits to be decided.
pub(super) struct Inbox {
    sent: Sent,
    place: Rc<FatePlace>,
}

#[derive(Default)]
struct FatePlace {
    fate: RefCell<Option<Fate>>,
    told: Happening,
}

impl FatePlace {
    fn tell(&self, fate: Fate) {
        *self.fate.borrow_mut() = Some(fate);
        self.told.happen();
    }

    async fn wait(&self) -> Fate {
        loop {
            if let Some(fate) = *self.fate.borrow() {
                return fate;
            }
            self.told.more_than(0).await;
        }
    }
}

impl<R: AsyncRuntime, H: MetadataHost> Metadata<R, H> {
    /// Takes what this node's threads have asked since the last call.
    pub fn take_asked(&self) {
        // A request that is sent again has to be among those that the leader remembers.
        while self.in_flight() < REMEMBERED {
            let Some((request, answer)) = self.0.port.next() else { break };
            let number = self.0.requests.get() + 1;
            self.0.requests.set(number);
            self.0.shared.asked.borrow_mut().insert(number, AskedRequest::new(answer));
            let this = self.clone();
            drop(R::spawn(async move {
                this.ask(number, request).await;
                this.take_asked();
            }));
        }
        if self.0.port.is_behind() && !self.0.catches_up.replace(true) {
            let this = self.clone();
            drop(R::spawn(async move { this.catch_up().await }));
        }
    }

    /// Asks until this node has applied an entry with the request, or patience ends.
    async fn ask(&self, number: u64, request: PlacedRequest) {
        let shared = &self.0.shared;
        let deadline = shared.host.now() + self.0.patience.as_nanos() as u64;
        let is_asked_for_ever = request.is_asked_for_ever;
        let origin = Origin { member: shared.member, boot: shared.boot, number };
        let mut sent = Sent { origin, request, after: self.applied_index() };
        let (mut hint, restores) = (None, shared.restores.get());
        while shared.asked.borrow().contains_key(&number) {
            if shared.restores.get() != restores && !is_asked_for_ever {
                let text = "whether the change was made isn't known: this node was away for long, and has been sent the metadata whole";
                return shared.answer(number, refused(text));
            }
            // It would have been answered if it were in an entry up to there.
            sent.after = self.applied_index();
            let leader = hint.take().or(self.leader().1);
            let left = Duration::from_nanos(deadline.saturating_sub(shared.host.now()));
            let within = if is_asked_for_ever { REPLY_WITHIN } else { REPLY_WITHIN.min(left.max(AGAIN_AFTER)) };
            let fate = match leader {
                // A leader whose followers are gone proposes in vain until it notices.
                Some(leader) if leader == shared.member => {
                    R::timeout(within, self.put_in(sent.clone())).await.unwrap_or(Fate::Unknown)
                }
                Some(leader) => {
                    let encoded = serde_json::to_vec(&sent).expect("a request has a JSON form");
                    let asked = shared.host.ask_member(leader, encoded.into(), REPLY_WITHIN).await;
                    asked.map_or(Fate::Unknown, |fate| Fate::decode(&fate))
                }
                None => Fate::Unknown,
            };
            if fate == Fate::Entered {
                self.wait_for_answer(number, ENTRY_WITHIN).await;
                continue;
            }
            if shared.host.now() >= deadline && !is_asked_for_ever {
                let seconds = self.0.patience.as_secs_f32();
                let text = format!(
                    "failed to perform operation due to timeout: no member that a majority of the cluster follows has answered for \
                     {seconds} s"
                );
                return shared.answer(number, refused(&text));
            }
            match fate {
                Fate::NotLeader(Some(other)) if leader != Some(other) => hint = Some(other),
                Fate::Forgotten(index) if self.applied_index() >= index => {}
                _ => self.wait_for_answer(number, AGAIN_AFTER).await,
            }
        }
    }

    /// Waits until the request is answered, for at most this long.
    async fn wait_for_answer(&self, number: u64, within: Duration) {
        if let Some(answered) = self.0.shared.answered(number) {
            let _ = R::timeout(within, answered.more_than(0)).await;
        }
    }

    async fn put_in(&self, sent: Sent) -> Fate {
        let place = Rc::new(FatePlace::default());
        self.0.inbox.borrow_mut().push_back(Inbox { sent, place: place.clone() });
        self.0.arrivals.happen();
        place.wait().await
    }

    /// Takes a request of another member, and says what became of it.
    pub async fn take_request(&self, request: &[u8]) -> Bytes {
        if request == READ {
            return self.answer_read().await;
        }
        let Ok(sent) = serde_json::from_slice(request) else { return Fate::Unknown.encode() };
        self.put_in(sent).await.encode()
    }

    /// Index of the last entry that is applied here.
    fn applied_index(&self) -> u64 {
        self.0.placement.state().applied.map_or(0, |(_, index)| index)
    }

    /// Decides on requests while the placement runs.
    pub async fn run(self) {
        let mut several_ask = false;
        loop {
            let count = self.0.arrivals.count();
            if self.0.placement.stopped().is_some() {
                return;
            }
            if self.0.inbox.borrow().is_empty() {
                self.0.arrivals.more_than(count).await;
                continue;
            }
            if several_ask && self.0.inbox.borrow().len() < GATHERED {
                self.0.shared.host.pause(GATHER).await;
            }
            self.decide().await;
            several_ask = !self.0.inbox.borrow().is_empty();
        }
    }

    /// Whether this member leads, and has applied all entries of earlier leaders.
    pub(super) fn leads_with_all(&self) -> bool {
        let (term, leader) = self.leader();
        let applied = self.0.placement.state().applied;
        leader == Some(self.0.shared.member) && applied.is_some_and(|(of, _)| of == term)
    }

    /// Decides on the requests that have come, as one entry.
    async fn decide(&self) {
        let shared = &self.0.shared;
        if !self.leads_with_all() {
            let fate = match self.leader().1 {
                Some(leader) if leader == shared.member => Fate::Unknown,
                other => Fate::NotLeader(other),
            };
            let left = std::mem::take(&mut *self.0.inbox.borrow_mut());
            return left.into_iter().for_each(|inbox| inbox.place.tell(fate));
        }
        let mut model = self.model_to_decide_on();
        model.set_members_up(shared.host.members_up().into());
        let base = self.applied_index();
        let (mut batch, mut places, mut bytes) = (Batch { base, requests: Vec::new() }, Vec::new(), 0);
        let mut taken = BTreeSet::new();
        while bytes < ENTRY_BYTES {
            let Some(Inbox { sent: Sent { origin, request, after }, place }) = self.0.inbox.borrow_mut().pop_front()
            else {
                break;
            };
            let forgotten = shared.remembers_from.get();
            let is_answered = shared.is_answered(&origin);
            if !is_answered && after < forgotten {
                place.tell(Fate::Forgotten(forgotten));
                continue;
            }
            if is_answered || !taken.insert(origin) {
                place.tell(Fate::Entered);
                continue;
            }
            let actor = request.permit.actor().clone();
            let Decided { answer, record } = decide(&mut model, request);
            let record = record.map(Bytes::from);
            bytes += record.as_ref().map_or(0, Bytes::len) + actor.len();
            batch.requests.push(DecidedRequest { origin, actor, answer, record });
            places.push(place);
        }
        if batch.requests.is_empty() {
            return;
        }
        #[cfg(feature = "planted-bugs")]
        self.0.staged.replace(Some(model));
        // Of an import, it takes as much room as all that is there, which the applied entry is about to take.
        #[cfg(not(feature = "planted-bugs"))]
        drop(model);
        let fate = match self.0.placement.propose(batch.encode()).await {
            Proposed::Applied { answer, .. } if answer.0[..] == [1] => Fate::Entered,
            Proposed::NotLeader(other) => Fate::NotLeader(other.map(super::member_of)),
            Proposed::Refused(reason) => {
                self.refuse(&batch, &reason);
                Fate::Entered
            }
            Proposed::Applied { .. } | Proposed::Unknown(_) => Fate::Unknown,
        };
        places.into_iter().for_each(|place| place.tell(fate));
    }

    /// The model as far as it is committed: nothing that an earlier leadership has decided, but that didn't become an entry, is in it.
    fn model_to_decide_on(&self) -> Model {
        #[cfg(feature = "planted-bugs")]
        {
            leveret_model::planted::plant_numbers_given_again(planted!(GiveNumberAgain));
            if planted!(KeepStagedModel)
                && let Some(staged) = self.0.staged.take()
            {
                return staged;
            }
        }
        self.0.shared.broker.registry.committed_model()
    }

    /// Refuses requests that can't be an entry. Only this node's own askers hear of it; others send again until they give up.
    fn refuse(&self, batch: &Batch, reason: &str) {
        let refused = Refused::new(RefusedKind::PreconditionFailed, format!("the change is too large: {reason}"));
        let ours = batch.requests.iter().filter(|one| one.origin.member == self.0.shared.member);
        ours.for_each(|one| self.0.shared.answer(one.origin.number, PlacedAnswer::Refused(0, refused.clone())));
    }
}
