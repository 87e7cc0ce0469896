//! Replicated queues on three nodes that apply one list of committed entries, each at its own pace: power cuts, changes of the leader,
//! proposals that are lost with it, and replicas that lack entries and get the state of another one.
//!
//! How entries are committed is the engine's, which has worlds of its own. Here it is a list.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use leveret_broker::Now;
use leveret_broker::asked::{Later, NowOrLater};
use leveret_broker::group::Group;
use leveret_broker::held_answers::HeldAnswers;
use leveret_broker::queue_handle::Size;
use leveret_broker::replicas::{Lacking, PlacedState, PlacedStream, are_same};
use leveret_broker::settlement::Settlement;
use leveret_broker::ticket::Ticket;
use leveret_broker::wait_for::{WaitEnd, WaitFor};
use leveret_log::{Lane, Wait};
use leveret_message::{BatchBuilder, BatchPart, StoredMessage};
use leveret_queue::{ConsumerId, Deliveries, Link, NoConsumer, Portion, Run, Signal, Taken};
use leveret_sim::placed::{PLACEMENT, PREFETCH, PlacedMember, QUEUES, SINGLE, consumer, number_of};
use leveret_sim::random::Random;

struct NoBell;

impl Link for NoBell {
    fn signal(&self, _: Signal) {}
}

/// A state of another member that is being completed.
struct Completing {
    state: PlacedState,
    lacking: Vec<Lacking>,
    next: Option<u64>,
    last: Ticket,
}

struct Leader {
    at: usize,
    term: u64,
    stream: Arc<PlacedStream>,
    /// Entries that were taken and aren't committed.
    taken: Vec<Bytes>,
}

/// A consumer of a member, which gets messages while that leads. What it holds stays with it whoever leads.
struct Consumer {
    id: ConsumerId,
    queue: usize,
    added: Option<Later<Result<(), NoConsumer>>>,
    held: Vec<(u64, Run)>,
    /// The messages that it has acknowledged.
    acknowledged: BTreeSet<u64>,
}

/// A transaction that isn't committed.
struct Transaction {
    at: usize,
    group: Group,
    numbers: Vec<u64>,
    left: u64,
}

struct World {
    members: Vec<PlacedMember>,
    /// The states that members are getting from others.
    completing: [Option<Completing>; 3],
    /// Indexes below which each has said that everything is in its store for good.
    durable_below: [u64; 3],
    /// Committed entries, by index: with their term, and the commands of those that have some.
    entries: BTreeMap<u64, (u64, Option<Bytes>)>,
    next: u64,
    term: u64,
    leader: Option<Leader>,
    /// An entry of an earlier leadership that its node proposes when it leads again, before it has noticed that there was another term.
    late: Option<Bytes>,
    consumers: BTreeMap<usize, Consumer>,
    /// The member and the consumer that was given something last of the queue with one active consumer.
    active: Option<(usize, ConsumerId)>,
    /// Number of times that such a queue has waited for the active consumer of another member.
    waited: u32,
    /// The messages that consumers which have left have acknowledged, by member.
    acknowledged: BTreeMap<usize, BTreeSet<u64>>,
    now: Now,
    random: Random,
    published: u64,
    /// Publishes whose end isn't known: their member, the number of their message, their wait.
    open: Vec<(usize, u64, WaitFor)>,
    confirmed: BTreeSet<u64>,
    settling: Vec<(usize, u64, WaitFor)>,
    /// Messages that are acknowledged for good.
    settled: BTreeSet<u64>,
    /// Messages that may be: their acknowledgement was on its way when the leadership ended.
    perhaps: BTreeSet<u64>,
    delivered: BTreeSet<u64>,
    transaction: Option<Transaction>,
    /// The messages of each transaction.
    groups: Vec<Vec<u64>>,
    /// Commits whose end isn't known.
    committing: Vec<(usize, Vec<u64>, WaitFor)>,
    committed: u32,
    completed: u32,
    compared: u32,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut now = Now { monotonic: 1_000_000_000, wall_ms: 1_000_000 };
        let members = (0..3).map(|at| PlacedMember::new(at, &mut now)).collect();
        Self {
            members,
            completing: Default::default(),
            durable_below: [0; 3],
            entries: BTreeMap::new(),
            next: 0,
            term: 0,
            leader: None,
            late: None,
            consumers: BTreeMap::new(),
            active: None,
            waited: 0,
            acknowledged: BTreeMap::new(),
            now,
            random: Random::new(seed),
            published: 0,
            open: Vec::new(),
            confirmed: BTreeSet::new(),
            settling: Vec::new(),
            settled: BTreeSet::new(),
            perhaps: BTreeSet::new(),
            delivered: BTreeSet::new(),
            transaction: None,
            groups: Vec::new(),
            committing: Vec::new(),
            committed: 0,
            completed: 0,
            compared: 0,
        }
    }

    fn commit(&mut self, term: u64, commands: Option<Bytes>) {
        self.entries.insert(self.next, (term, commands));
        self.next += 1;
    }

    /// A member applies its next entry. Returns whether there was one.
    fn apply(&mut self, at: usize) -> bool {
        let member = &self.members[at];
        let index = member.next();
        let Some((term, commands)) = self.entries.get(&index) else { return false };
        if self.completing[at].is_some() {
            return false;
        }
        let state = PlacedState {
            applied: Some((*term, index)),
            clock: 1_000 + index,
            members_at: Some((0, 0)),
            members: vec![3],
        };
        let applied = member.broker.apply_placed(PLACEMENT, state, commands.as_ref()).expect("it can be read");
        if let Some(leader) = &self.leader
            && leader.at == at
            && leader.term == *term
            && let Some(sequence) = applied.sequence
        {
            leader.stream.applied(sequence);
            // As the connections of publishers do.
            (0..QUEUES.len()).for_each(|queue| member.queue(queue).apply());
        }
        true
    }

    fn elect(&mut self) {
        let at = self.random.below(3) as usize;
        // The next leader has everything that is committed, or gets it first.
        if self.leader.is_some() || self.completing[at].is_some() {
            return;
        }
        if self.members[at].next() < self.entries.keys().next().copied().unwrap_or(self.next) {
            return;
        }
        self.term += 1;
        self.commit(self.term, None);
        if let Some(entry) = self.late.take() {
            self.commit(self.term, Some(entry));
        }
        while self.apply(at) {}
        let member = &self.members[at];
        member.make_durable(member.replicas().last(PLACEMENT), &mut self.now);
        let others = self.members.iter().enumerate().filter(|(other, _)| *other != at);
        let held = others.map(|(other, member)| {
            (number_of(other), member.broker.report_held((PLACEMENT, self.term), self.now.monotonic))
        });
        let held = HeldAnswers::of(held);
        let stream = member.broker.lead((PLACEMENT, self.term), &held, self.now.monotonic, Box::new(|| ()));
        member.broker.streams.announce();
        for (other, member) in self.members.iter().enumerate().filter(|(other, _)| *other != at) {
            let _ = other;
            member.broker.follow_leader(PLACEMENT, Some((number_of(at), self.term)), self.now.monotonic);
        }
        self.leader = Some(Leader { at, term: self.term, stream, taken: Vec::new() });
    }

    /// The leadership ends. Of the entries that were proposed some are committed.
    fn depose(&mut self) {
        let Some(Leader { at, term, taken, .. }) = self.leader.take() else { return };
        let survive = self.random.below(taken.len() as u64 + 1) as usize;
        let mut taken = taken.into_iter();
        taken.by_ref().take(survive).for_each(|entry| self.commit(term, Some(entry)));
        // One may have been refused before it.
        self.late = taken.nth(self.random.below(2) as usize);
        // Its settlements may have been proposed.
        let settling = std::mem::take(&mut self.settling);
        self.perhaps.extend(settling.into_iter().map(|(_, number, _)| number));
        self.members[at].broker.follow_leader(PLACEMENT, None, self.now.monotonic);
    }

    fn propose(&mut self) {
        let Some(leader) = &mut self.leader else { return };
        if leader.taken.len() < 4
            && let Some(entry) = leader.stream.take_entry(0)
        {
            leader.taken.push(entry);
        }
    }

    fn commit_one(&mut self) {
        let Some(leader) = &mut self.leader else { return };
        if !leader.taken.is_empty() {
            let (term, entry) = (leader.term, leader.taken.remove(0));
            self.commit(term, Some(entry));
        }
    }

    fn crash(&mut self, at: usize) {
        if self.leader.as_ref().is_some_and(|leader| leader.at == at) {
            self.depose();
        }
        let lost = self.transaction.take_if(|transaction| transaction.at == at);
        let seed = self.random.next();
        let before = self.members[at].replicas().durable_below(PLACEMENT);
        self.now.monotonic += 1_000_000;
        self.members[at] = self.members[at].crashed(seed, self.now);
        let broker = &self.members[at].broker;
        broker.streams.announce();
        let leader = self.leader.as_ref().map(|leader| (number_of(leader.at), leader.term));
        broker.follow_leader(PLACEMENT, leader, self.now.monotonic);
        let durable_below = before.max(self.durable_below[at]);
        (self.completing[at], self.durable_below[at]) = (None, durable_below);
        let next = self.members[at].next();
        assert!(next >= durable_below, "member {at} had entries below {durable_below} for good, and now below {next}");
        assert_eq!(self.members[at].broker.unowned(), [], "nothing is left without an owner");
        // Its clients are gone, and with them what they said. Later ones may have their ids.
        self.active.take_if(|(member, _)| *member == at);
        let consumer = self.consumers.remove(&at);
        let acknowledged = self.acknowledged.remove(&at).into_iter().chain(consumer.map(|one| one.acknowledged));
        self.perhaps.extend(acknowledged.flatten());
        self.open.retain(|(member, ..)| *member != at);
        self.committing.retain(|(member, ..)| *member != at);
        self.groups.extend(lost.map(|transaction| transaction.numbers));
    }

    /// Purges entries that two of three have for good, the leader among them: it has those in its own log that it hasn't applied.
    fn purge(&mut self) {
        let mut durable: Vec<u64> =
            self.members.iter().map(|member| member.replicas().durable_below(PLACEMENT)).collect();
        let of_leader = self.leader.as_ref().map_or(u64::MAX, |leader| durable[leader.at]);
        durable.sort_unstable();
        self.entries = self.entries.split_off(&durable[1].min(of_leader));
    }

    /// A member that lacks entries gets the state of another one, step by step.
    fn complete(&mut self, at: usize) {
        let source = self.random.below(3) as usize;
        if source == at {
            return;
        }
        match self.completing[at].take() {
            None => self.completing[at] = self.begin_completing(at, source),
            Some(completing) if completing.lacking.is_empty() => self.finish_completing(at, completing),
            Some(completing) => self.completing[at] = Some(self.go_on_completing((at, source), completing)),
        }
    }

    fn begin_completing(&mut self, at: usize, source: usize) -> Option<Completing> {
        let first = self.entries.keys().next().copied().unwrap_or(self.next);
        if self.members[at].next() >= first {
            return None;
        }
        let replicas = self.members[at].replicas();
        self.members[at].make_durable(replicas.last(PLACEMENT), &mut self.now);
        let (state, saved) = self.members[source].broker.save_placed(PLACEMENT)?;
        if state.applied.is_none_or(|(_, index)| index + 1 < first) {
            return None;
        }
        let lacking = replicas.begin_difference(PLACEMENT, &saved).expect("it is a state");
        let next = lacking.first().and_then(|lacking| lacking.numbers.min());
        Some(Completing { state, lacking, next, last: Ticket::default() })
    }

    fn go_on_completing(&mut self, (at, source): (usize, usize), mut completing: Completing) -> Completing {
        let replicas = self.members[at].replicas();
        let Lacking { queue, numbers } = &completing.lacking[0];
        let Some(from) = completing.next.filter(|next| Some(*next) <= numbers.max()) else {
            completing.lacking.remove(0);
            completing.next = completing.lacking.first().and_then(|lacking| lacking.numbers.min());
            return completing;
        };
        let question = replicas.question(PLACEMENT, *queue, from);
        let answer = Arc::new(Mutex::new(None));
        let told = answer.clone();
        let source = &self.members[source];
        let tell = move |answer| *told.lock().expect("nobody panics") = Some(answer);
        source.broker.answer_placed(PLACEMENT, &question, Box::new(tell));
        source.serve(&mut self.now);
        // One that lags behind refuses.
        if let Some(Ok(answer)) = answer.lock().expect("nobody panics").take() {
            let (next, last) = replicas.take_answer(PLACEMENT, *queue, answer).expect("it is an answer");
            self.members[at].broker.streams.announce();
            (completing.next, completing.last) = (next, completing.last.or_later(last));
        }
        completing
    }

    fn finish_completing(&mut self, at: usize, completing: Completing) {
        let Completing { state, last, .. } = completing;
        let member = &self.members[at];
        member.make_durable(last, &mut self.now);
        let ticket = member.replicas().adopt_difference(PLACEMENT, state).expect("it is complete");
        // A checkpoint may come in between, or a crash.
        if self.random.below(2) == 0 {
            member.work(&mut self.now);
        }
        if self.random.below(8) == 0 {
            return self.crash(at);
        }
        member.make_durable(ticket, &mut self.now);
        member.broker.finish_placed(PLACEMENT, ticket).expect("it can be read");
        self.completed += 1;
    }

    fn publish(&mut self) {
        let at = self.random.below(3) as usize;
        let count = 1 + self.random.below(3);
        let first = self.published;
        self.published += count;
        let wait = self.members[at].publish(first..first + count, 2000, &mut self.random, self.now);
        self.open.extend((first..first + count).map(|number| (at, number, wait.clone())));
    }

    /// A step of a transaction at the leader, which goes on whoever leads by then.
    fn transact(&mut self) {
        let queue = self.random.below(2) as usize;
        let Some(transaction) = &mut self.transaction else {
            let Some(Leader { at, .. }) = self.leader else { return };
            let group = Group::new(self.members[at].queue(queue).stream().id());
            self.transaction = Some(Transaction { at, group, numbers: Vec::new(), left: 1 + self.random.below(5) });
            return;
        };
        let member = &self.members[transaction.at];
        if transaction.left > 0 {
            transaction.left -= 1;
            transaction.numbers.push(self.published);
            let mut builder = BatchBuilder::default();
            let body = self.published.to_le_bytes();
            builder.push_message(&StoredMessage { body: &body, ..StoredMessage::default() });
            self.published += 1;
            let batch = Arc::new(builder.finish());
            let part = BatchPart::whole(&batch);
            let _ = member.queue(queue).publish_in(&mut transaction.group, part, true, self.now.monotonic);
        } else if let Some(Transaction { at, group, numbers, .. }) = self.transaction.take() {
            let ticket = group.close(Wait::Confirm);
            self.members[at].broker.streams.announce();
            self.groups.push(numbers.clone());
            self.committing.push((at, numbers, ticket.into()));
        }
    }

    fn consume(&mut self, queue: usize) {
        let Some(leader) = self.leader.as_ref().filter(|leader| !self.consumers.contains_key(&leader.at)) else {
            return;
        };
        let member = &self.members[leader.at];
        let id = member.broker.fresh_consumer_id();
        let added = match member.queue(queue).consume(id, consumer(Arc::new(NoBell)), self.now.monotonic) {
            NowOrLater::Now(added) => {
                added.expect("it is led here");
                None
            }
            NowOrLater::Later(added) => Some(added),
        };
        let acknowledged = BTreeSet::new();
        self.consumers.insert(leader.at, Consumer { id, queue, added, held: Vec::new(), acknowledged });
    }

    /// The consumer of a member leaves; what it holds is ready again.
    fn leave(&mut self, at: usize) {
        let Some(Consumer { id, queue, held, acknowledged, .. }) = self.consumers.remove(&at) else { return };
        self.acknowledged.entry(at).or_default().extend(acknowledged);
        let runs = held.into_iter().map(|(_, run)| run).collect();
        let left = self.members[at].queue(queue).leave(&[id], &[(Some(id), runs)], false, self.now.monotonic);
        drop(left);
    }

    /// The member whose client has a message, or has acknowledged it.
    fn has(&self, number: u64) -> Option<usize> {
        let has = |consumer: &Consumer| {
            consumer.acknowledged.contains(&number) || consumer.held.iter().any(|(held, _)| *held == number)
        };
        let now = self.consumers.iter().find(|(_, consumer)| has(consumer)).map(|(at, _)| *at);
        now.or_else(|| {
            let earlier = self.acknowledged.iter().find(|(_, acknowledged)| acknowledged.contains(&number));
            earlier.map(|(at, _)| *at)
        })
    }

    fn take(&mut self) {
        let Some(Leader { at: leader, .. }) = self.leader else { return };
        let Some(consumer) = self.consumers.get_mut(&leader) else { return };
        if let Some(answer) = consumer.added.as_ref().and_then(Later::take) {
            answer.expect("a consumer is added");
            consumer.added = None;
        }
        let (id, queue) = (consumer.id, consumer.queue);
        let member = &self.members[leader];
        member.serve(&mut self.now);
        let mut taken: Vec<Taken> = Vec::new();
        let stream = &self.leader.as_ref().expect("it leads").stream;
        stream.renew_lease(self.now.monotonic);
        let most = Portion { messages: 1, bytes: 4000 };
        let _ = member.queue(queue).take(id, most, self.now.monotonic, &mut taken);
        assert!(taken.is_empty(), "nothing is handed out after the end of the lease");
        let is_missed = stream.renew_lease(self.now.monotonic + 1);
        assert!(is_missed, "the consumer is told to look again");
        let most = Portion { messages: 1 + self.random.below(5) as u32, bytes: 4000 };
        let _ = member.queue(queue).take(id, most, self.now.monotonic, &mut taken);
        if queue == SINGLE && !taken.is_empty() {
            let before = self.active.replace((leader, id)).filter(|(_, before)| *before != id);
            let lives = before.filter(|(at, before)| self.consumers.get(at).is_some_and(|one| one.id == *before));
            assert_eq!(lives, None, "the active consumer lives, and member {leader} serves another one");
        }
        let mut held = Vec::new();
        for taken in taken {
            for at in 0..taken.count {
                let body = taken.batch.message((taken.index + at) as usize).view().body;
                let number = u64::from_le_bytes(body[..8].try_into().expect("it is numbered"));
                assert!(!self.settled.contains(&number), "{number} was acknowledged for good");
                let has = self.has(number);
                assert!(
                    has.is_none(),
                    "a client of member {has:?} has {number}, which member {leader} gave another one"
                );
                let is_new = self.delivered.insert(number);
                assert!(is_new || taken.redelivered, "{number} came again without a flag");
                let run = Taken { count: 1, ..taken.rest(at) }.runs()[0];
                held.push((number, run));
            }
        }
        let consumer = self.consumers.get_mut(&leader).expect("it takes");
        consumer.held.extend(held);
        assert!(consumer.held.len() <= PREFETCH as usize, "no more than the prefetch");
    }

    /// The leader hears from other members whether their clients have the active consumers that it waits for.
    fn answer_awaited(&mut self) {
        let Some(Leader { at: leader, .. }) = self.leader else { return };
        let broker = &self.members[leader].broker;
        for (queue, id) in broker.awaited_consumers(PLACEMENT) {
            let at = (0..3).find(|at| number_of(*at) == id.member()).expect("it is a member's");
            let has = self.members[at].broker.has_consumer(queue, id);
            self.waited += u32::from(has);
            broker.answer_awaited(PLACEMENT, (queue, id), has, self.now.monotonic);
        }
    }

    fn settle(&mut self) {
        let of = self.random.below(3) as usize;
        self.settle_of(of);
    }

    /// The consumer of a member settles a message, whoever leads.
    fn settle_of(&mut self, of: usize) {
        let Some(consumer) = self.consumers.get_mut(&of).filter(|consumer| !consumer.held.is_empty()) else { return };
        let member = &self.members[of];
        let at = self.random.below(consumer.held.len() as u64) as usize;
        let (number, run) = consumer.held.remove(at);
        let how = match self.random.below(4) {
            0 => Settlement::Requeue { failed: false },
            _ => Settlement::Acknowledge,
        };
        let deliveries = [run];
        let deliveries = Deliveries::of(Some(consumer.id), &deliveries);
        let ticket = member.queue(consumer.queue).settle(deliveries, how, Wait::Confirm, self.now.monotonic);
        if how == Settlement::Acknowledge {
            consumer.acknowledged.insert(number);
            match ticket {
                Some(ticket) => self.settling.push((of, number, ticket.into())),
                // It is carried out when there is a leader that knows the consumer.
                None => _ = self.perhaps.insert(number),
            }
        }
    }

    /// Notes what has ended.
    fn look(&mut self) {
        let streams: Vec<_> = self.members.iter().map(|member| member.broker.streams.clone()).collect();
        let confirmed = &mut self.confirmed;
        self.open.retain(|(at, number, wait)| match streams[*at].end(wait) {
            None => true,
            Some(WaitEnd::Reached) => {
                confirmed.insert(*number);
                false
            }
            Some(end) => panic!("message {number} of member {at}: {end:?}"),
        });
        let committed = &mut self.committed;
        self.committing.retain(|(at, numbers, wait)| match streams[*at].end(wait) {
            None => true,
            Some(WaitEnd::Reached) => {
                confirmed.extend(numbers);
                *committed += 1;
                false
            }
            Some(_) => false,
        });
        let (settled, perhaps) = (&mut self.settled, &mut self.perhaps);
        self.settling.retain(|(at, number, wait)| match streams[*at].end(wait) {
            None => true,
            Some(WaitEnd::Reached) => {
                settled.insert(*number);
                false
            }
            Some(_) => {
                perhaps.insert(*number);
                false
            }
        });
    }

    /// Members that have the same entries for good have the same replicas.
    fn compare(&mut self) {
        let saved =
            |at: usize| self.members[at].broker.save_placed(PLACEMENT).filter(|(state, _)| state.applied.is_some());
        let (one, other) = (self.random.below(3) as usize, self.random.below(3) as usize);
        if one == other {
            return;
        }
        if let (Some(first), Some(second)) = (saved(one), saved(other))
            && first.0.applied == second.0.applied
        {
            assert!(are_same(&first.1, &second.1), "members {one} and {other} differ at {:?}", first.0.applied);
            self.compared += 1;
        }
    }

    fn step(&mut self) {
        self.now.monotonic += 1_000_000;
        let at = self.random.below(3) as usize;
        match self.random.below(60) {
            0..=5 => self.publish(),
            6..=9 => self.take(),
            10..=13 => self.settle(),
            14 if self.random.below(6) == 0 => self.leave(at),
            14 => {
                let queue = self.random.below(2) as usize;
                self.consume(queue);
            }
            15 if self.random.below(8) == 0 => self.depose(),
            16 if self.random.below(10) == 0 => self.crash(at),
            17 => self.purge(),
            18..=19 => self.elect(),
            20..=25 => self.propose(),
            26..=31 => self.commit_one(),
            32..=37 => {
                let lane = if self.random.below(2) == 0 { Lane::Commit } else { Lane::Background };
                self.members[at].job(lane, &mut self.now);
            }
            38..=40 => self.compare(),
            41..=46 => self.complete(at),
            47..=48 => self.transact(),
            49 => self.answer_awaited(),
            // The third one is slow.
            _ if at < 2 || self.random.below(6) == 0 => _ = self.apply(at),
            _ => {}
        }
        self.look();
    }

    /// The leader commits what it has, and applies it.
    fn carry_on(&mut self) {
        self.now.monotonic += 1_000_000;
        let at = self.leader.as_ref().expect("it leads").at;
        self.answer_awaited();
        for _ in 0..4 {
            self.propose();
            self.commit_one();
            while self.apply(at) {}
        }
        self.members[at].work(&mut self.now);
    }

    /// Everybody gets everything, and what is left is delivered and acknowledged.
    fn drain(&mut self) {
        while self.transaction.is_some() {
            self.transact();
        }
        self.depose();
        // After a start a member says nothing until it has applied an entry.
        self.term += 1;
        self.commit(self.term, None);
        for _ in 0..2000 {
            for at in 0..3 {
                self.complete(at);
                while self.apply(at) {}
                self.now.monotonic += 1_000_000;
                self.members[at].work(&mut self.now);
            }
            if self.members.iter().all(|member| member.next() == self.next)
                && self.completing.iter().all(Option::is_none)
            {
                break;
            }
        }
        let saved: Vec<_> = (0..3)
            .map(|at| {
                let member = &self.members[at];
                member.make_durable(member.replicas().last(PLACEMENT), &mut self.now);
                member.broker.save_placed(PLACEMENT)
            })
            .collect();
        let saved: Vec<_> = saved.into_iter().map(|saved| saved.expect("all queues are known").1).collect();
        assert!(are_same(&saved[0], &saved[1]) && are_same(&saved[1], &saved[2]), "all have the same at the end");
        // Each member's clients are known to it when it leads.
        let mut led = BTreeSet::new();
        while led.len() < 3 {
            while self.leader.is_none() {
                self.elect();
            }
            let at = self.leader.as_ref().expect("it leads").at;
            led.insert(at);
            while self.consumers.get(&at).is_some_and(|consumer| !consumer.held.is_empty()) {
                self.settle_of(at);
            }
            self.leave(at);
            self.carry_on();
            if led.len() < 3 {
                self.depose();
            }
        }
        // The others were told what clients of its members held, of which nobody is left.
        for queue in [0, 1, 0, 1] {
            self.consume(queue);
            let at = self.leader.as_ref().expect("it leads").at;
            for _ in 0..3000 {
                self.carry_on();
                self.take();
                while self.consumers.get(&at).is_some_and(|consumer| !consumer.held.is_empty()) {
                    self.settle_of(at);
                }
                self.look();
            }
            self.leave(at);
        }
        let at = self.leader.as_ref().expect("it leads").at;
        for queue in 0..QUEUES.len() {
            let (ready, _) = self.members[at].queue(queue).look(Size { used: None });
            let held = self.members[at].queue(queue).gauges().unacknowledged;
            assert_eq!((ready, held), (0, 0), "ready and held messages of queue {queue} at the end");
        }
        let is_over = |number: &u64| self.settled.contains(number) || self.perhaps.contains(number);
        let lost: Vec<_> = self.confirmed.iter().filter(|number| !is_over(number)).collect();
        assert!(lost.is_empty(), "confirmed, and never delivered to be acknowledged: {lost:?}");
        for group in &self.groups {
            let delivered = group.iter().filter(|number| self.delivered.contains(number)).count();
            assert!([0, group.len()].contains(&delivered), "{delivered} messages of a transaction of {}", group.len());
        }
        let never: Vec<_> = self.perhaps.iter().filter(|number| !self.delivered.contains(number)).collect();
        assert!(never.is_empty(), "acknowledged, and never delivered: {never:?}");
    }
}

/// A life of the three members with this seed.
fn live(seed: u64) -> World {
    let mut world = World::new(seed);
    (0..4000).for_each(|_| world.step());
    world.drain();
    world
}

/// Each of them shows in one of these seeds.
#[cfg(feature = "planted-bugs")]
#[test]
fn planted_bugs_of_replicas_are_seen() {
    use leveret_broker::planted::{Bug, plant};
    let bugs = [
        Bug::IgnoreHeld,
        Bug::ForgetDecisions,
        Bug::TakeAnyEntry,
        Bug::OmitWriters,
        Bug::MarkBeforeRecords,
        Bug::ShortDifference,
    ];
    let first_seen = || (1..=200).find(|seed| std::panic::catch_unwind(|| live(*seed)).is_err());
    for bug in bugs {
        plant(Some(bug));
        let seen = first_seen();
        plant(None);
        println!("{bug:?}: seed {seen:?}");
        assert!(seen.is_some(), "{bug:?} isn't seen");
    }
    for bug in [leveret_queue::planted::Bug::DeliverUnmarked, leveret_queue::planted::Bug::ElectAtOnce] {
        leveret_queue::planted::plant(Some(bug));
        let seen = first_seen();
        leveret_queue::planted::plant(None);
        println!("{bug:?}: seed {seen:?}");
        assert!(seen.is_some(), "{bug:?} isn't seen");
    }
}

#[test]
fn replicas_are_equal_and_lose_nothing_whatever_happens() {
    let seeds = std::env::var("LEVERET_REPLICA_SEEDS").ok().map_or(12, |seeds| seeds.parse().expect("a number"));
    let (mut completed, mut compared, mut committed, mut waited) = (0, 0, 0, 0);
    for seed in 1..=seeds {
        let world = std::panic::catch_unwind(|| live(seed)).unwrap_or_else(|_| panic!("seed {seed}"));
        assert!(world.confirmed.len() > 20, "seed {seed}: {} are confirmed", world.confirmed.len());
        (completed, compared) = (completed + world.completed, compared + world.compared);
        (committed, waited) = (committed + world.committed, waited + world.waited);
    }
    assert!(
        completed > 0 && compared > 0 && committed > 0 && waited > 0,
        "{completed} states of others, {compared} comparisons, {committed} transactions, {waited} waits for an active consumer"
    );
}
