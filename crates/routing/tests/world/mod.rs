//! A model with one vhost, and the router that follows it.

use leveret_model::{
    Arguments, Bind, Command, DeclareExchange, DeclareQueue, DestinationName, Model, Permit, QueueId, Value,
};
use leveret_routing::{Headers, RoutedBy, Router, Routes};

pub(crate) struct World {
    pub(crate) model: Model,
    pub(crate) router: Router,
}

impl World {
    pub(crate) fn new() -> Self {
        let model = Model::new();
        let router = Router::new(model.topology());
        Self { model, router }
    }

    fn submit(&mut self, command: Command) {
        let changes = self.model.submit(Permit::system(), command).expect("it is accepted").changes;
        self.router.apply_all(&changes);
    }

    pub(crate) fn exchange(&mut self, name: &str, kind: &str, arguments: Vec<(&'static str, Value)>) {
        self.submit(Command::DeclareExchange(DeclareExchange {
            vhost: "/".into(),
            name: name.into(),
            kind: kind.into(),
            durable: true,
            auto_delete: false,
            internal: false,
            arguments: arguments.into_iter().collect(),
        }));
    }

    pub(crate) fn queue(&mut self, name: &str) {
        self.submit(Command::DeclareQueue(DeclareQueue::durable("/".into(), name.into(), Arguments::default())));
    }

    pub(crate) fn bind(&mut self, source: &str, destination: DestinationName, key: &str) {
        self.submit(Command::Bind(Bind {
            vhost: "/".into(),
            source: source.into(),
            destination,
            routing_key: key.as_bytes().into(),
            arguments: Arguments::default(),
            connection: None,
        }));
    }
}

/// The queues of a message, and what else than its key decided.
pub(crate) fn routed(router: &Router, exchange: &str, key: &str, headers: &dyn Headers) -> (Vec<QueueId>, RoutedBy) {
    let mut routes = Routes::new();
    let by = router.route("/", exchange, key.as_bytes(), headers, &mut routes).expect("it is there");
    (routes.to_vec(), by)
}
