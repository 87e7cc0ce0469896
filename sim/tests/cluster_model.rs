//! A small model of a placement: three replicas and two terms, with a few entries and power cuts, of which all states are explored.
//!
//! It has the rules that the entry log, the store and the crate `cluster` rely on, and nothing of the engine: what is answered when, what a
//! power cut leaves of records that weren't synced, a store that is ahead of its entry log, marks, purges, and how a start makes the two fit.
//! Links lose, delay, repeat and reorder: whatever was once sent may arrive at any later time. With each rule left out, a promise breaks.
//!
//! A record is synced at once, or lost in the power cut of its replica and so is each one behind it. All other times of a sync are among
//! these: an answer that is given later is one that arrives later, and a record that is synced and never answered is one whose answer
//! doesn't arrive.

use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

const REPLICAS: usize = 3;
const TERMS: u8 = 2;
const ENTRIES: usize = 3;

/// Terms of entries, from index 0 on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Terms {
    length: u8,
    of: [u8; ENTRIES],
}

impl Terms {
    fn list(&self) -> &[u8] {
        &self.of[..usize::from(self.length)]
    }

    fn cut(&mut self, length: usize) {
        self.length = self.length.min(length as u8);
        self.of[usize::from(self.length)..].fill(0);
    }

    fn push(&mut self, term: u8) {
        self.of[usize::from(self.length)] = term;
        self.length += 1;
    }

    fn last(&self) -> (u8, u8) {
        (self.list().last().copied().unwrap_or(0), self.length)
    }
}

/// A record of the entry log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Record {
    Vote { term: u8, replica: u8 },
    Entry { index: u8, term: u8 },
}

/// The content of an entry log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Log {
    term: u8,
    /// The replica that has the vote of this term; 0 for none.
    voted: u8,
    entries: Terms,
}

impl Log {
    fn take(&mut self, record: Record) {
        match record {
            Record::Vote { term, replica } => (self.term, self.voted) = (term, replica),
            Record::Entry { index, term } => {
                self.entries.cut(usize::from(index));
                self.entries.push(term);
            }
        }
    }
}

/// An answer that waits until what it says is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Vote {
        term: u8,
        replica: u8,
    },
    /// It asks for votes, with this last entry: not before its own vote is durable, or it might ask again with another log.
    Ask {
        term: u8,
        last: (u8, u8),
    },
    Entries {
        term: u8,
        count: u8,
    },
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Role {
    #[default]
    Follows,
    Stands,
    Leads,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Replica {
    durable: Log,
    now: Log,
    /// Its records are lost from here on, until its power cut.
    is_losing: bool,
    role: Role,
    /// Number of entries that it knows to be committed, and has applied.
    applied: u8,
    /// The entries that the store had durably applied at the last start.
    store: Terms,
    has_crashed: bool,
}

/// Everything that was ever sent in a term.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sent {
    /// The last entry of each replica that stood, as term and length; `None` if it didn't.
    stood: [Option<(u8, u8)>; REPLICAS],
    /// The replica that got the vote of each; 0 for none.
    granted: [u8; REPLICAS],
    /// The replica that led; 0 for none.
    leader: u8,
    /// Its log.
    log: Terms,
    committed: u8,
    /// Entries that each replica has acknowledged.
    acknowledged: [u8; REPLICAS],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct State {
    replicas: [Replica; REPLICAS],
    /// By term, from 1 on.
    sent: [Sent; TERMS as usize],
    committed: Terms,
}

/// A rule that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Without {
    SyncBeforeVote,
    SyncBeforeAsking,
    SyncBeforeAcknowledgement,
    /// Entries are taken, and applied, before the vote for their leader is durable.
    SyncBeforeEntries,
    WholeQuorum,
    /// Purges go by what is applied in memory.
    DurableStore,
    /// A start keeps an older tail in the place of what the store has.
    Fitting,
    /// A vote goes to whoever asks.
    LongerLog,
}

struct Model {
    without: Option<Without>,
    /// Most entries of a log.
    entries: usize,
    /// Most power cuts of all replicas together, each of which has at most one.
    crashes: usize,
}

impl Model {
    fn lacks(&self, rule: Without) -> bool {
        self.without == Some(rule)
    }

    fn quorum(&self) -> usize {
        if self.lacks(Without::WholeQuorum) { 1 } else { 2 }
    }

    /// All states that follow this one.
    ///
    /// # Errors
    /// A promise that is broken.
    fn next(&self, state: &State) -> Result<Vec<State>, String> {
        let mut found = Vec::new();
        for at in 0..REPLICAS {
            let replica = &state.replicas[at];
            self.stand(state, at, &mut found);
            for term in 1..=TERMS {
                self.vote(state, at, term, &mut found);
                self.receive(state, at, term, &mut found);
            }
            self.lead(state, at, &mut found)?;
            self.propose(state, at, &mut found);
            self.commit(state, at, &mut found)?;
            if replica.is_losing || self.may_crash(state, at) {
                // The store was synced at some time since: what it had then matters at the power cut only.
                for stored in replica.store.length..=replica.applied {
                    found.push(self.crash(state, at, stored)?);
                }
            }
        }
        Ok(found)
    }

    /// Whether another power cut may hit this replica.
    fn may_crash(&self, state: &State, at: usize) -> bool {
        let crashes = state.replicas.iter().filter(|replica| replica.is_losing || replica.has_crashed).count();
        let replica = &state.replicas[at];
        !replica.is_losing && !replica.has_crashed && crashes < self.crashes
    }

    /// The states before a replica appends records: those are synced, or lost.
    fn before_append(&self, state: &State, at: usize) -> impl Iterator<Item = State> + use<> {
        let losing = self.may_crash(state, at).then(|| {
            let mut losing = *state;
            losing.replicas[at].is_losing = true;
            losing
        });
        [*state].into_iter().chain(losing)
    }

    fn answer(&self, state: &mut State, at: usize, answer: Answer) {
        let is_early = match answer {
            Answer::Vote { .. } => self.lacks(Without::SyncBeforeVote),
            Answer::Ask { .. } => self.lacks(Without::SyncBeforeAsking),
            Answer::Entries { .. } => self.lacks(Without::SyncBeforeAcknowledgement),
        };
        if is_early || !state.replicas[at].is_losing {
            give(state, at, answer);
        }
    }

    fn stand(&self, state: &State, at: usize, found: &mut Vec<State>) {
        let replica = &state.replicas[at];
        if replica.role == Role::Leads || replica.now.term == TERMS {
            return;
        }
        let (term, id) = (replica.now.term + 1, at as u8 + 1);
        for mut next in self.before_append(state, at) {
            next.replicas[at].role = Role::Stands;
            append(&mut next, at, Record::Vote { term, replica: id });
            self.answer(&mut next, at, Answer::Vote { term, replica: id });
            self.answer(&mut next, at, Answer::Ask { term, last: replica.now.entries.last() });
            found.push(next);
        }
    }

    fn vote(&self, state: &State, at: usize, term: u8, found: &mut Vec<State>) {
        let voter = &state.replicas[at];
        for (asking, stood) in state.sent[usize::from(term) - 1].stood.iter().enumerate() {
            let Some(last) = stood else { continue };
            let is_long = self.lacks(Without::LongerLog) || *last >= voter.now.entries.last();
            if asking == at || voter.now.term >= term || !is_long {
                continue;
            }
            let replica = asking as u8 + 1;
            for mut next in self.before_append(state, at) {
                next.replicas[at].role = Role::Follows;
                append(&mut next, at, Record::Vote { term, replica });
                self.answer(&mut next, at, Answer::Vote { term, replica });
                found.push(next);
            }
        }
    }

    fn lead(&self, state: &State, at: usize, found: &mut Vec<State>) -> Result<(), String> {
        let (replica, id) = (&state.replicas[at], at as u8 + 1);
        if replica.role != Role::Stands {
            return Ok(());
        }
        let sent = &state.sent[usize::from(replica.now.term) - 1];
        if sent.granted.iter().filter(|granted| **granted == id).count() < self.quorum() {
            return Ok(());
        }
        if sent.leader != 0 && sent.leader != id {
            return Err(format!("term {} has two leaders, {} and {id}", replica.now.term, sent.leader));
        }
        // One that is elected late in an older term knows nothing of newer ones, and does no harm.
        let committed = state.committed.list();
        let older = committed.iter().take_while(|term| **term < replica.now.term).count();
        let committed = &committed[..older];
        if !replica.now.entries.list().starts_with(committed) {
            return Err(format!("{id} leads without the committed entries {committed:?}"));
        }
        let mut next = *state;
        next.replicas[at].role = Role::Leads;
        let sent = &mut next.sent[usize::from(replica.now.term) - 1];
        (sent.leader, sent.log) = (id, replica.now.entries);
        found.push(next);
        Ok(())
    }

    fn propose(&self, state: &State, at: usize, found: &mut Vec<State>) {
        let replica = &state.replicas[at];
        if replica.role != Role::Leads || usize::from(replica.now.entries.length) == self.entries {
            return;
        }
        let (term, index) = (replica.now.term, replica.now.entries.length);
        for mut next in self.before_append(state, at) {
            append(&mut next, at, Record::Entry { index, term });
            next.sent[usize::from(term) - 1].log = next.replicas[at].now.entries;
            self.answer(&mut next, at, Answer::Entries { term, count: index + 1 });
            found.push(next);
        }
    }

    /// An append of the leader of a term, with its log up to any length.
    fn receive(&self, state: &State, at: usize, term: u8, found: &mut Vec<State>) {
        let (replica, sent) = (&state.replicas[at], &state.sent[usize::from(term) - 1]);
        if sent.leader == 0 || usize::from(sent.leader) == at + 1 || replica.now.term > term {
            return;
        }
        let is_other = (replica.now.term, replica.now.voted) != (term, sent.leader);
        let follow = |next: &mut State| {
            next.replicas[at].role = Role::Follows;
            if is_other {
                append(next, at, Record::Vote { term, replica: sent.leader });
            }
        };
        // A vote that is lost never becomes durable before the power cut.
        let waits = replica.is_losing && (replica.durable.term, replica.durable.voted) != (term, sent.leader);
        if !self.lacks(Without::SyncBeforeEntries) && (is_other || waits) {
            if is_other {
                for mut next in self.before_append(state, at) {
                    follow(&mut next);
                    found.push(next);
                }
            }
            return;
        }
        for count in 1..=sent.log.length {
            let entries = &sent.log.list()[..usize::from(count)];
            let mine = replica.now.entries.list();
            let known = mine.iter().zip(entries).take_while(|(mine, sent)| mine == sent).count();
            let appends = is_other || known < entries.len();
            for mut next in self.before_append(state, at).take(if appends { 2 } else { 1 }) {
                follow(&mut next);
                for (index, term) in entries.iter().enumerate().skip(known) {
                    append(&mut next, at, Record::Entry { index: index as u8, term: *term });
                }
                self.answer(&mut next, at, Answer::Entries { term, count });
                let applied = sent.committed.min(count);
                next.replicas[at].applied = replica.applied.max(applied);
                if next != *state {
                    found.push(next);
                }
            }
        }
    }

    fn commit(&self, state: &State, at: usize, found: &mut Vec<State>) -> Result<(), String> {
        let replica = &state.replicas[at];
        if replica.role != Role::Leads {
            return Ok(());
        }
        let term = replica.now.term;
        let sent = &state.sent[usize::from(term) - 1];
        for count in sent.committed + 1..=replica.now.entries.length {
            let entries = &replica.now.entries.list()[..usize::from(count)];
            // Two terms are too few to show what happens without.
            let is_own = entries.last() == Some(&term);
            let holders = sent.acknowledged.iter().filter(|acknowledged| **acknowledged >= count).count();
            if !is_own || holders < self.quorum() {
                continue;
            }
            let mut next = *state;
            next.sent[usize::from(term) - 1].committed = count;
            next.replicas[at].applied = replica.applied.max(count);
            let known = state.committed.list();
            if !entries.starts_with(known) && !known.starts_with(entries) {
                return Err(format!("{entries:?} is committed after {known:?}"));
            }
            if entries.len() > known.len() {
                next.committed = replica.now.entries;
                next.committed.cut(entries.len());
            }
            found.push(next);
        }
        Ok(())
    }

    /// A power cut that leaves a store with so many entries; and a start. Entries were purged, at the worst, as soon as they might be.
    fn crash(&self, state: &State, at: usize, stored: u8) -> Result<State, String> {
        let mut next = *state;
        let replica = &mut next.replicas[at];
        let mut log = replica.durable;
        let mut store = replica.now.entries;
        store.cut(usize::from(stored));
        let purged = if self.lacks(Without::DurableStore) { replica.applied } else { stored };
        if purged > stored {
            return Err(format!("entries below {purged} are purged, the store has {:?}", store.list()));
        }
        let is_fitting = log.entries.list().starts_with(store.list());
        if !is_fitting && !self.lacks(Without::Fitting) {
            // Shorter, or an older tail: it gives way.
            log.entries = store;
        }
        (replica.now, replica.durable) = (log, log);
        (replica.role, replica.is_losing) = (Role::Follows, false);
        (replica.applied, replica.store) = (stored, store);
        replica.has_crashed = true;
        Ok(next)
    }

    /// A committed entry is durable on a majority, and what is applied is a prefix of what is committed.
    fn judge(&self, state: &State) -> Result<(), String> {
        for index in 0..state.committed.list().len() {
            let wanted = &state.committed.list()[..=index];
            let keeps = |replica: &&Replica| {
                replica.durable.entries.list().starts_with(wanted) || replica.store.list().starts_with(wanted)
            };
            if state.replicas.iter().filter(keeps).count() < 2 {
                return Err(format!("entry {index} of {wanted:?} is committed, and durable on no majority"));
            }
        }
        for replica in &state.replicas {
            if !replica.now.entries.list().starts_with(replica.store.list()) {
                let (log, store) = (replica.now.entries.list(), replica.store.list());
                return Err(format!("{store:?} is applied, and the log has {log:?}"));
            }
            if !state.committed.list().starts_with(replica.store.list()) {
                return Err(format!("{:?} is applied, {:?} committed", replica.store.list(), state.committed.list()));
            }
        }
        Ok(())
    }
}

fn append(state: &mut State, at: usize, record: Record) {
    let replica = &mut state.replicas[at];
    replica.now.take(record);
    if !replica.is_losing {
        replica.durable.take(record);
    }
}

fn give(state: &mut State, at: usize, answer: Answer) {
    match answer {
        Answer::Vote { term, replica } => state.sent[usize::from(term) - 1].granted[at] = replica,
        Answer::Ask { term, last } => state.sent[usize::from(term) - 1].stood[at] = Some(last),
        Answer::Entries { term, count } => {
            let acknowledged = &mut state.sent[usize::from(term) - 1].acknowledged[at];
            *acknowledged = (*acknowledged).max(count);
        }
    }
}

/// Explores all states. States that differ only in which replica is which are one.
///
/// # Errors
/// A promise that is broken.
fn explore(without: Option<Without>, entries: usize, crashes: usize) -> Result<usize, String> {
    let model = Model { without, entries, crashes };
    let mut seen: HashSet<u128, BuildHasherDefault<Half>> = HashSet::default();
    let mut queue = VecDeque::from([State::default()]);
    while let Some(state) = queue.pop_front() {
        model.judge(&state)?;
        for next in model.next(&state)? {
            if seen.insert(fingerprint(&next)) {
                queue.push_back(next);
            }
        }
    }
    Ok(seen.len())
}

/// The orders of three replicas: those at each new place.
const ORDERS: [[usize; REPLICAS]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];

/// 128 bits that stand for a state, and for those that differ from it only in the order of replicas: the replicas are ordered by what
/// they have themselves, and those that are alike in that in each way.
fn fingerprint(state: &State) -> u128 {
    let own = [0, 1, 2].map(|at| {
        let replica = &state.replicas[at];
        let mut hash = Fingerprint::default();
        hash.replica(replica, |voted| match usize::from(voted) {
            0 => 0,
            voted => 1 + u8::from(voted != at + 1),
        });
        state.sent.iter().for_each(|sent| hash.sent_by(sent, at));
        hash.both()
    });
    let is_ordered = |order: &&[usize; REPLICAS]| own[order[0]] <= own[order[1]] && own[order[1]] <= own[order[2]];
    let of_order = |order: &[usize; REPLICAS]| {
        let mut place = [0; REPLICAS + 1];
        order.iter().zip(1..).for_each(|(from, place_of)| place[from + 1] = place_of);
        let mut hash = Fingerprint::default();
        for from in *order {
            hash.replica(&state.replicas[from], |voted| place[usize::from(voted)]);
        }
        for sent in &state.sent {
            hash.word(&[place[usize::from(sent.leader)], sent.committed]);
            hash.terms(&sent.log);
            for from in *order {
                hash.sent_by(sent, from);
                hash.word(&[place[usize::from(sent.granted[from])]]);
            }
        }
        hash.terms(&state.committed);
        hash.both()
    };
    ORDERS.iter().filter(is_ordered).map(of_order).min().expect("one order is sorted")
}

/// A hash of two halves with different constants.
#[derive(Default)]
struct Fingerprint(u64, u64);

impl Fingerprint {
    /// Takes up to eight bytes.
    fn word(&mut self, bytes: &[u8]) {
        let word = bytes.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.1 = (self.1.rotate_left(29) ^ word).wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
        self.0 ^= self.0 >> 32;
        self.1 ^= self.1 >> 29;
    }

    fn terms(&mut self, terms: &Terms) {
        self.word(&[terms.length, terms.of[0], terms.of[1], terms.of[2]]);
    }

    fn replica(&mut self, replica: &Replica, name: impl Fn(u8) -> u8) {
        for log in [&replica.durable, &replica.now] {
            self.word(&[log.term, name(log.voted)]);
            self.terms(&log.entries);
        }
        let flags = [replica.is_losing, replica.has_crashed].map(u8::from);
        self.word(&[replica.role as u8, replica.applied, flags[0], flags[1]]);
        self.terms(&replica.store);
    }

    /// The answers of a replica in a term, without whom they are for.
    fn sent_by(&mut self, sent: &Sent, at: usize) {
        let (term, length) = sent.stood[at].map_or((0, 0), |(term, length)| (term + 1, length));
        let leads = u8::from(usize::from(sent.leader) == at + 1);
        self.word(&[term, length, sent.acknowledged[at], u8::from(sent.granted[at] != 0), leads]);
    }

    fn both(&self) -> u128 {
        u128::from(self.0) << 64 | u128::from(self.1)
    }
}

/// The hash of a fingerprint, which is one already.
#[derive(Default)]
struct Half(u64);

impl Hasher for Half {
    fn write(&mut self, _: &[u8]) {
        unreachable!("only fingerprints are hashed");
    }

    fn write_u128(&mut self, fingerprint: u128) {
        self.0 = fingerprint as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[test]
fn promises_hold_with_one_entry_and_a_power_cut_of_each_replica() {
    assert_eq!(explore(None, 1, REPLICAS), Ok(176_355));
}

#[test]
fn promises_hold_with_two_entries_and_one_power_cut() {
    assert_eq!(explore(None, 2, 1), Ok(378_064));
}

#[test]
fn promises_hold_with_three_entries_and_no_power_cut() {
    assert_eq!(explore(None, ENTRIES, 0), Ok(122_935));
}

#[test]
#[ignore = "53,509,324 states take minutes and 2 GB: `make sim-model`"]
fn promises_hold_with_three_entries_and_power_cuts_of_all() {
    assert_eq!(explore(None, ENTRIES, REPLICAS), Ok(53_509_324));
}

#[test]
fn without_any_of_its_rules_a_promise_breaks() {
    for (without, text) in [
        (Without::SyncBeforeVote, "has two leaders"),
        (Without::SyncBeforeAsking, "leads without the committed entries"),
        (Without::SyncBeforeAcknowledgement, "durable on no majority"),
        (Without::SyncBeforeEntries, "and the log has"),
        (Without::WholeQuorum, "has two leaders"),
        (Without::DurableStore, "are purged"),
        (Without::Fitting, "is applied, and the log has"),
        (Without::LongerLog, "leads without the committed entries"),
    ] {
        let broken = explore(Some(without), 1, REPLICAS).expect_err("a promise breaks");
        assert!(broken.contains(text), "{without:?}: {broken}");
    }
}
