//! Another node in this process, which has a queue that clients of the first one use over a link.

use std::sync::Arc;

use leveret_broker::authenticate::Anybody;
use leveret_broker::outbox::Outbox;
use leveret_broker::streams::StoreId;
use leveret_broker::{Broker, Now, Session, Settings, Setup, Wake};
use leveret_log::{Lane, MemoryDisk, Next, Options};
use leveret_model::{
    AppliedEntry, Arguments, Command, DeclareQueue, MemberNumber, Model, Permit, PutMember, PutUser, SetPermissions,
    User,
};
use leveret_session_peer::{AskingSession, HomeSession};

/// The number of the node that has the queue.
const MEMBER: MemberNumber = MemberNumber(1);

/// A wake-up without an effect: the test goes on by itself.
struct NoWake;

impl Wake for NoWake {
    fn wake(&self) {}
}

/// The metadata of two nodes, the second of which has a queue.
fn metadata(user: &User, queue: &str) -> Vec<u8> {
    let mut model = Model::default();
    let mut submit = |command| drop(model.submit(Permit::system(), command).expect("is accepted"));
    for (name, node_id) in [("one", 7), ("two", 8)] {
        let member = PutMember { name: name.into(), node_id, boot: 1, nonce: 1, addresses: Vec::new() };
        submit(Command::PutMember(member));
    }
    submit(Command::CreateVhost { name: "/".into() });
    submit(Command::PutUser(PutUser {
        name: user.name.clone(),
        password_hash: user.password_hash.clone(),
        hashing_algorithm: user.hashing_algorithm.clone(),
        tags: user.tags.clone(),
    }));
    let all = || ".*".to_owned();
    let (user, vhost) = (user.name.clone(), "/".into());
    submit(Command::SetPermissions(SetPermissions { user, vhost, configure: all(), write: all(), read: all() }));
    model.set_asker(MEMBER);
    let declare = DeclareQueue::durable("/".into(), queue.into(), Arguments::default());
    drop(model.submit(Permit::system(), Command::DeclareQueue(declare)).expect("is accepted"));
    model.snapshot()
}

/// The node that has the queue.
pub(crate) struct Home {
    broker: Arc<Broker>,
    disk: MemoryDisk,
}

/// A link to it.
pub(crate) struct Link {
    asking: AskingSession,
    home: HomeSession,
    /// Bytes that came and weren't used, by direction.
    there: Vec<u8>,
    back: Vec<u8>,
}

impl Home {
    /// A node with a queue of this name, which `other` knows from now on.
    pub(crate) fn new(other: &Broker, queue: &str, now: Now) -> Self {
        let user = other.registry.snapshot().topology.user("guest").expect("the first user").clone();
        let metadata = metadata(&user, queue);
        let settings = Settings { member: MEMBER, ..Settings::default() };
        let (disk, counters) = (MemoryDisk::new(), vec![Arc::default()]);
        let setup = Setup { settings, protocols: Vec::new(), authenticator: Arc::new(Anybody), counters };
        let (broker, _) = Broker::recover(&disk, Options::default(), setup, now).expect("an empty disk");
        for broker in [&*broker, other] {
            broker.registry.replace(&metadata, AppliedEntry::default(), now.monotonic).expect("it can be read");
            broker.streams.announce();
        }
        let this = Self { broker, disk };
        this.work(now);
        this
    }

    /// Connects a node to it: its core has a commit stream for it from now on.
    pub(crate) fn connect(&self, other: &Arc<Broker>, now: Now) -> Link {
        let asking = AskingSession::new(other, MEMBER, 0, Arc::new(NoWake), now.monotonic);
        let home =
            HomeSession::new(&self.broker, (MemberNumber(1), "one".into()), Arc::new(Outbox::new(Arc::new(NoWake))));
        Link { asking, home, there: Vec::new(), back: Vec::new() }
    }

    /// Does all disk work.
    fn work(&self, mut now: Now) {
        for lane in [Lane::Commit, Lane::Background] {
            loop {
                match self.broker.next_job(StoreId::FIRST, lane, now).expect("the log works") {
                    Next::Run(id, job) => {
                        let done = job.run(&self.disk);
                        self.broker.complete(StoreId::FIRST, id, done, now).expect("the log works");
                    }
                    Next::At(at) if at < now.monotonic + 10_000_000 => now.monotonic = now.monotonic.max(at),
                    Next::At(_) | Next::Idle => break,
                }
            }
        }
        while self.broker.deferred_turn(0, now) {}
    }
}

fn carry(from: &mut dyn Session, kept: &mut Vec<u8>, to: &mut dyn Session, now: Now) {
    from.turn(now);
    let output = from.output();
    kept.extend(output.pending());
    output.written(output.len());
    let used = to.receive(kept, now);
    kept.drain(..used);
}

impl Link {
    /// Carries calls to the queue's node, and what they come to back.
    pub(crate) fn turn(&mut self, node: &Home, now: Now) {
        self.ask(now);
        node.work(now);
        carry(&mut self.home, &mut self.back, &mut self.asking, now);
    }

    /// Carries calls to the queue's node. Returns whether there were any.
    pub(crate) fn ask(&mut self, now: Now) -> bool {
        let has_calls = self.asking.wants_turn();
        carry(&mut self.asking, &mut self.there, &mut self.home, now);
        has_calls
    }

    /// Cuts it: the commit stream leaves.
    pub(crate) fn cut(mut self, now: Now) {
        self.asking.disconnected(now);
        self.home.disconnected(now);
    }
}
