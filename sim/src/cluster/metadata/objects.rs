//! The objects that clients declare, delete and look up, and the histories of these operations.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use leveret_broker::Broker;
use leveret_broker::registry::ChangeRequest;
use leveret_model::{
    Arguments, Bind, Command, CommandOutcome, DeclareExchange, DeclareQueue, DeleteExchange, DeleteQueue,
    DestinationName, Permit, PutUser, Refused, RefusedKind, Topology, Value,
};
use leveret_strict_client::linear::{OBJECT_STEPS_MAX, ObjectAction, ObjectFound, ObjectStep, is_linearizable};

use super::{MS, World};
use crate::cluster::executor::{self, Sleep, below};

/// Time for which a client waits for an answer, in nanoseconds.
const CLIENT_PATIENCE: u64 = 6_000_000_000;
/// The vhost of all objects.
const VHOST: &str = "/";
/// The source of bindings, which always exists.
const SOURCE: &str = "amq.direct";
/// The destination of bindings, which is never deleted.
const DESTINATION: &str = "amq.fanout";

/// The kind of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ObjectKind {
    User,
    Queue,
    Exchange,
    Binding,
}

/// An object, by kind and number.
pub(super) type ObjectKey = (ObjectKind, u64);

/// All operations on all objects.
#[derive(Default)]
pub(super) struct Histories {
    steps: BTreeMap<ObjectKey, Vec<ObjectStep>>,
    /// The last value that was given to an object.
    values: u64,
    /// Lookups that found their object at once, by what their node knew.
    pub at_once: u64,
}

/// An object that is picked at random.
pub(super) fn any_object() -> ObjectKey {
    match below(10) {
        0..=3 => (ObjectKind::User, below(5)),
        4..=6 => (ObjectKind::Queue, below(4)),
        7 | 8 => (ObjectKind::Exchange, below(3)),
        _ => (ObjectKind::Binding, below(3)),
    }
}

fn name(key: ObjectKey) -> Arc<str> {
    let kind = match key.0 {
        ObjectKind::User => "u",
        ObjectKind::Queue => "q",
        ObjectKind::Exchange => "x",
        ObjectKind::Binding => "b",
    };
    format!("{kind}-{}", key.1).into()
}

fn binding(key: ObjectKey) -> Bind {
    Bind {
        vhost: VHOST.into(),
        source: SOURCE.into(),
        destination: DestinationName::Exchange(DESTINATION.into()),
        routing_key: name(key).as_bytes().into(),
        arguments: Arguments::default(),
        connection: None,
    }
}

/// The command that gives an object a value. Only users can get another one; bindings all have the same.
fn creation(key: ObjectKey, value: u64) -> Command {
    let (vhost, name) = (Arc::from(VHOST), name(key));
    let value = i64::try_from(value).expect("it is small");
    match key.0 {
        ObjectKind::User => {
            let tags = vec![format!("v{value}").into()];
            Command::PutUser(PutUser { name, password_hash: None, hashing_algorithm: "none".into(), tags })
        }
        ObjectKind::Queue => {
            let arguments = Arguments::new(vec![("x-max-length".into(), Value::Int(value))]);
            Command::DeclareQueue(DeclareQueue::durable(vhost, name, arguments))
        }
        ObjectKind::Exchange => Command::DeclareExchange(DeclareExchange {
            vhost,
            name,
            kind: "topic".to_owned(),
            durable: true,
            auto_delete: false,
            internal: false,
            arguments: Arguments::new(vec![("value".into(), Value::Int(value))]),
        }),
        ObjectKind::Binding => Command::Bind(binding(key)),
    }
}

fn deletion(key: ObjectKey) -> Command {
    let (vhost, name) = (Arc::from(VHOST), name(key));
    match key.0 {
        ObjectKind::User => Command::DeleteUser { name },
        ObjectKind::Queue => Command::DeleteQueue(DeleteQueue { vhost, name, connection: None, id: None }),
        ObjectKind::Exchange => Command::DeleteExchange(DeleteExchange { vhost, name, if_unused: false }),
        ObjectKind::Binding => Command::Unbind(binding(key)),
    }
}

/// The value of an object in a topology.
fn value_in(topology: &Topology, key: ObjectKey) -> Option<u64> {
    let of = |arguments: &Arguments, name: &str| match arguments.get(name) {
        Some(Value::Int(value)) => u64::try_from(*value).ok(),
        _ => None,
    };
    let name = name(key);
    match key.0 {
        ObjectKind::User => topology.user(&name)?.tags[0][1..].parse().ok(),
        ObjectKind::Queue => of(&topology.queue(VHOST, &name)?.arguments, "x-max-length"),
        ObjectKind::Exchange => of(&topology.exchange(VHOST, &name)?.arguments, "value"),
        ObjectKind::Binding => {
            let is_it = |key: &[u8]| *key == *name.as_bytes();
            topology.bindings_of_source(VHOST, SOURCE).any(|one| is_it(&one.routing_key)).then_some(1)
        }
    }
}

fn found_in(topology: &Topology, key: ObjectKey) -> ObjectFound {
    value_in(topology, key).map_or(ObjectFound::Nothing, ObjectFound::Value)
}

impl Histories {
    /// Begins an operation. Returns its place in the object's history; `None` if there are too many.
    fn begin(&mut self, key: ObjectKey, action: ObjectAction) -> Option<usize> {
        let steps = self.steps.entry(key).or_default();
        // A few are left for members that are forgotten, and for the look at the end.
        (steps.len() + 16 < OBJECT_STEPS_MAX).then(|| {
            steps.push(ObjectStep { action, from: executor::now(), end: None });
            steps.len() - 1
        })
    }

    fn end(&mut self, key: ObjectKey, at: usize, found: ObjectFound) {
        if let Some(steps) = self.steps.get_mut(&key) {
            steps[at].end = Some((executor::now(), found));
        }
    }

    /// From now on queues may go: their member is forgotten.
    pub(super) fn lose_queues(&mut self) {
        let now = executor::now();
        let queues = self.steps.iter_mut().filter(|((kind, _), _)| *kind == ObjectKind::Queue);
        queues.for_each(|(_, steps)| steps.push(ObjectStep { action: ObjectAction::Delete, from: now, end: None }));
    }

    /// Checks a value that a lookup found without asking anybody: it was given to the object, at some time.
    ///
    /// # Errors
    /// It wasn't.
    fn check_value(&self, key: ObjectKey, value: u64) -> Result<(), String> {
        let gives = |step: &ObjectStep| matches!(step.action, ObjectAction::Put(given) | ObjectAction::Create(given) if given == value);
        let mut steps = self.steps.get(&key).into_iter().flatten();
        match steps.any(gives) {
            true => Ok(()),
            false => Err(format!("{key:?} has value {value}, which nobody has given to it")),
        }
    }

    /// Adds what is there in the end, and looks for an order of each object's operations. Returns the numbers of operations, and of those
    /// that weren't answered.
    ///
    /// # Errors
    /// A history without such an order.
    pub(super) fn judge(&mut self, topology: &Topology) -> Result<(u64, u64), String> {
        let (mut operations, mut unanswered) = (0, 0);
        let now = executor::now();
        for (key, steps) in &mut self.steps {
            let end = Some((now + 1, found_in(topology, *key)));
            steps.push(ObjectStep { action: ObjectAction::Read, from: now, end });
            operations += steps.len() as u64;
            unanswered += steps.iter().filter(|step| step.end.is_none()).count() as u64;
            if !is_linearizable(steps) {
                return Err(format!("the operations on {key:?} have no order: {steps:#?}"));
            }
        }
        Ok((operations, unanswered))
    }
}

impl World {
    /// An operation of a client on a node.
    pub(super) async fn operate(self: Rc<Self>, id: u64, key: ObjectKey) {
        let Some(broker) = self.node(id).broker.borrow().clone() else { return };
        let action = match below(5) {
            0 | 1 => {
                let mut histories = self.histories.borrow_mut();
                histories.values += 1;
                match key.0 {
                    ObjectKind::User => ObjectAction::Put(histories.values),
                    ObjectKind::Queue | ObjectKind::Exchange => ObjectAction::Create(histories.values),
                    ObjectKind::Binding => ObjectAction::Create(1),
                }
            }
            2 => ObjectAction::Delete,
            _ => {
                let value = value_in(&broker.registry.snapshot().topology.clone(), key);
                if let Some(value) = value.filter(|_| below(2) == 0) {
                    // A session asks nobody about what it knows.
                    let checked = self.histories.borrow().check_value(key, value);
                    self.histories.borrow_mut().at_once += 1;
                    self.shared.stopped.borrow_mut().extend(checked.err());
                    return;
                }
                ObjectAction::Read
            }
        };
        let Some(at) = self.histories.borrow_mut().begin(key, action) else { return };
        let found = match action {
            ObjectAction::Put(value) | ObjectAction::Create(value) => outcome(&broker, creation(key, value)).await,
            ObjectAction::Delete => outcome(&broker, deletion(key)).await,
            ObjectAction::Read => read(&broker, key).await,
        };
        if let Some(found) = found {
            self.histories.borrow_mut().end(key, at, found);
        }
    }
}

/// Waits for a slot that another part fills, in any thread.
async fn filled<T>(slot: &Mutex<Option<T>>) -> Option<T> {
    let until = executor::now() + CLIENT_PATIENCE;
    while executor::now() < until {
        if let Some(answer) = slot.lock().unwrap_or_else(|error| error.into_inner()).take() {
            return Some(answer);
        }
        Sleep::after(MS / 4 + below(MS / 2)).await;
    }
    None
}

/// Asks for a change, and waits for the answer.
pub(super) async fn asked(broker: &Arc<Broker>, request: ChangeRequest) -> Option<Result<CommandOutcome, Refused>> {
    let slot = Arc::new(Mutex::new(None));
    let place = slot.clone();
    broker.registry.change(request, executor::now()).then(move |changed| {
        let answer = changed.map(|changed| changed.outcome);
        *place.lock().unwrap_or_else(|error| error.into_inner()) = Some(answer);
    });
    filled(&slot).await
}

/// Asks for a change. Whether it was made: `None` if that isn't known.
pub(super) async fn change(broker: &Arc<Broker>, command: Command) -> Option<bool> {
    Some(asked(broker, ChangeRequest::new(Permit::system(), command)).await?.is_ok())
}

/// The state in which a change found its object.
async fn outcome(broker: &Arc<Broker>, command: Command) -> Option<ObjectFound> {
    let answer = asked(broker, ChangeRequest::new(Permit::system(), command)).await?;
    match answer.map_err(|refused| refused.kind) {
        Ok(CommandOutcome::Created | CommandOutcome::Absent) | Err(RefusedKind::NotFound) => Some(ObjectFound::Nothing),
        Ok(CommandOutcome::Updated | CommandOutcome::Exists | CommandOutcome::Deleted)
        | Err(RefusedKind::PreconditionFailed) => Some(ObjectFound::Something),
        // No leader answered in time: it may have taken effect.
        Err(_) => None,
    }
}

/// Looks an object up as a session does that has found nothing: once this node has caught up.
async fn read(broker: &Arc<Broker>, key: ObjectKey) -> Option<ObjectFound> {
    let slot = Arc::new(Mutex::new(None));
    let place = slot.clone();
    broker.registry.catch_up().then(move |has_caught_up| {
        *place.lock().unwrap_or_else(|error| error.into_inner()) = Some(has_caught_up);
    });
    // Without a leader a client is answered with what its node knows: that promises nothing.
    filled(&slot).await.filter(|has_caught_up| *has_caught_up)?;
    Some(found_in(&broker.registry.snapshot().topology.clone(), key))
}
