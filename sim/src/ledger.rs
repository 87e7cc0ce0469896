//! What the clients know: which objects and messages were asked for, confirmed, settled, and when.
//!
//! "When" is a [`Stamp`]: how many changes the disk had seen. One run of a trace so tells what must be there after a
//! power cut at each of its changes. Facts that promise something carry the stamp at which the client learned of
//! them, facts that excuse something the stamp at which the client asked for it.

use std::collections::BTreeMap;

/// Number of changes that the disk had seen.
pub type Stamp = usize;

/// A message by its place in [`Ledger::messages`].
pub type MessageId = u64;

/// A durable object that clients declare.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Object {
    /// A queue.
    Queue(String),
    /// An exchange.
    Exchange(String),
    /// Exchange, queue, key.
    Binding(String, String, String),
}

/// Whether an object is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Never declared, or its deletion was confirmed.
    Absent,
    /// Asked for, one way or the other.
    Unknown,
    /// Its declaration was confirmed.
    Present,
}

/// What is known of a message in one queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// The binding that leads there was confirmed before and nobody asked to take it away.
    pub certain: bool,
    /// From here on somebody asked for something that takes it away.
    pub excused: Option<Stamp>,
    /// From here on it is known to be gone for good.
    pub gone: Option<Stamp>,
    /// A client got it from there.
    pub seen: bool,
}

/// A message.
#[derive(Clone, Debug)]
pub struct Message {
    /// Which.
    pub id: MessageId,
    /// Bytes of its body.
    pub length: usize,
    /// Delivery mode 2.
    pub persistent: bool,
    /// Where it was published to.
    pub exchange: String,
    /// Its routing key.
    pub key: String,
    /// The channel that published it, as a number that no other one has.
    pub publisher: u64,
    /// When it was published.
    pub published: Stamp,
    /// When the publisher learned that it is safe.
    pub confirmed: Option<Stamp>,
    /// By queue.
    pub targets: BTreeMap<String, Target>,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// All messages ever published, by id.
    pub messages: Vec<Message>,
    objects: BTreeMap<Object, Vec<(Stamp, Presence)>>,
    /// Queues for which a purge or deletion is under way, by how many: whatever is in them is excused.
    emptying: BTreeMap<String, u32>,
    /// Queues from which messages may go without a word, since a consumer or get doesn't acknowledge: how many.
    draining: BTreeMap<String, u64>,
    /// Queues that anybody ever read from.
    read: BTreeMap<String, Stamp>,
    publishers: u64,
}

impl Ledger {
    /// A number for a channel that publishes.
    pub fn publisher(&mut self) -> u64 {
        self.publishers += 1;
        self.publishers
    }

    /// Notes what is known of an object.
    pub fn note(&mut self, object: Object, at: Stamp, presence: Presence) {
        if presence == Presence::Unknown {
            self.may_reach(&object);
        }
        self.objects.entry(object).or_default().push((at, presence));
    }

    /// What was published but not yet confirmed may come to the broker after a queue or binding did.
    fn may_reach(&mut self, object: &Object) {
        let (from, queue) = match object {
            Object::Queue(name) => ("", name),
            Object::Binding(exchange, queue, _) => (exchange.as_str(), queue),
            Object::Exchange(_) => return,
        };
        for message in self.messages.iter_mut().filter(|message| message.confirmed.is_none()) {
            if message.exchange == from && (!from.is_empty() || message.key == *queue) {
                message.targets.entry(queue.clone()).or_default();
            }
        }
    }

    /// What was known at a stamp; nothing known means that nobody asked for it.
    #[must_use]
    pub fn presence(&self, object: &Object, at: Stamp) -> Presence {
        let history = self.objects.get(object).map_or(&[][..], Vec::as_slice);
        history.iter().rev().find(|(when, _)| *when <= at).map_or(Presence::Absent, |(_, presence)| *presence)
    }

    /// What is known now.
    #[must_use]
    pub fn presence_now(&self, object: &Object) -> Presence {
        self.presence(object, Stamp::MAX)
    }

    /// dbg
    pub fn dbg(&self, queue: &str) -> String {
        format!("{:?} {:?} read {:?}", self.objects[&Object::Queue(queue.into())], self.emptying, self.read)
    }
    /// All objects ever asked for.
    pub fn objects(&self) -> impl Iterator<Item = &Object> {
        self.objects.keys()
    }

    /// The names of all queues ever asked for.
    pub fn queues(&self) -> impl Iterator<Item = &str> {
        self.objects().filter_map(|object| match object {
            Object::Queue(name) => Some(name.as_str()),
            _ => None,
        })
    }

    /// A message is about to be published. Its targets follow from the bindings as they are known now.
    pub fn publish(
        &mut self,
        publisher: u64,
        exchange: &str,
        key: &str,
        length: usize,
        persistent: bool,
        at: Stamp,
    ) -> MessageId {
        let id = self.messages.len() as MessageId;
        let mut targets = BTreeMap::new();
        for (object, history) in &self.objects {
            let known = history.last().map_or(Presence::Absent, |(_, presence)| *presence);
            let queue = match object {
                Object::Queue(name) if exchange.is_empty() && name == key => name,
                Object::Binding(from, queue, with) if from == exchange && (with.is_empty() || with == key) => queue,
                _ => continue,
            };
            let queue_known = self.presence_now(&Object::Queue(queue.clone()));
            if known == Presence::Absent {
                continue;
            }
            let certain = known == Presence::Present && queue_known == Presence::Present;
            let target: &mut Target = targets.entry(queue.clone()).or_default();
            target.certain |= certain;
            if self.emptying.contains_key(queue) {
                target.excused = Some(at);
            }
        }
        let (exchange, key) = (exchange.to_owned(), key.to_owned());
        let (published, confirmed) = (at, None);
        self.messages.push(Message { id, length, persistent, exchange, key, publisher, published, confirmed, targets });
        id
    }

    /// The publisher learned that a message is safe.
    pub fn confirm(&mut self, id: MessageId, at: Stamp) {
        self.messages[id as usize].confirmed = Some(at);
    }

    /// Somebody asked to settle a message for good.
    pub fn settle(&mut self, queue: &str, id: MessageId, at: Stamp) {
        let targets = self.messages.get_mut(id as usize).map(|message| &mut message.targets);
        if let Some(target) = targets.and_then(|targets| targets.get_mut(queue)) {
            target.excused = Some(target.excused.map_or(at, |earlier| earlier.min(at)));
        }
    }

    /// Somebody asked to purge or delete a queue.
    pub fn begin_emptying(&mut self, queue: &str, at: Stamp) {
        *self.emptying.entry(queue.to_owned()).or_default() += 1;
        for message in &mut self.messages {
            if let Some(target) = message.targets.get_mut(queue) {
                target.excused.get_or_insert(at);
            }
        }
    }

    /// That was done (`at` is when the client learned of it), or its connection is over.
    /// `asked` is what [`Ledger::begin_emptying`] was told.
    pub fn end_emptying(&mut self, queue: &str, asked: Stamp, at: Option<Stamp>) {
        if let Some(count) = self.emptying.get_mut(queue) {
            *count -= 1;
            if *count == 0 {
                self.emptying.remove(queue);
            }
        }
        let was_read = self.read.contains_key(queue);
        let Some(at) = at else { return };
        for message in &mut self.messages {
            let before = message.confirmed.is_some_and(|confirmed| confirmed <= asked);
            if let Some(target) = message.targets.get_mut(queue)
                && before
                && !was_read
            {
                target.gone.get_or_insert(at);
            }
        }
    }

    /// A binding is about to be taken away: what isn't confirmed may pass it or not.
    pub fn begin_unbind(&mut self, exchange: &str, queue: &str, at: Stamp) {
        let open = |message: &&mut Message| message.confirmed.is_none() && message.exchange == exchange;
        for message in self.messages.iter_mut().filter(open) {
            if let Some(target) = message.targets.get_mut(queue) {
                target.excused.get_or_insert(at);
            }
        }
    }

    /// Somebody reads from a queue; without acknowledgements messages go unheard of, `limit` of them at most.
    pub fn begin_reading(&mut self, queue: &str, unheard: u64, at: Stamp) {
        self.read.entry(queue.to_owned()).or_insert(at);
        let draining = self.draining.entry(queue.to_owned()).or_default();
        *draining = draining.saturating_add(unheard);
    }

    /// That ended, and everything that it took was heard of.
    pub fn end_reading(&mut self, queue: &str, unheard: u64) {
        if let Some(draining) = self.draining.get_mut(queue) {
            *draining = draining.saturating_sub(unheard);
        }
    }

    /// Nothing is under way: whatever went was heard of.
    pub fn heard_everything(&mut self) {
        self.draining.clear();
    }

    /// How many messages of a queue may be gone unheard of.
    #[must_use]
    pub fn unheard(&self, queue: &str) -> u64 {
        self.draining.get(queue).copied().unwrap_or(0)
    }

    /// A new life begins: what a client found is what there is, and it is durable.
    pub fn rebase(&mut self, found: &BTreeMap<String, Vec<MessageId>>, present: &dyn Fn(&Object) -> bool) {
        for (object, history) in &mut self.objects {
            let presence = if present(object) { Presence::Present } else { Presence::Absent };
            *history = vec![(0, presence)];
        }
        self.emptying.clear();
        self.draining.clear();
        for message in &mut self.messages {
            message.published = 0;
            for target in message.targets.values_mut() {
                target.excused = None;
                target.gone = Some(0);
                target.certain = false;
            }
        }
        for (queue, ids) in found {
            for id in ids {
                let message = &mut self.messages[*id as usize];
                message.confirmed = Some(0);
                if let Some(target) = message.targets.get_mut(queue) {
                    target.gone = None;
                    target.certain = true;
                }
            }
        }
    }
}
