//! A client of AMQP 1.0 with the connection that it talks to.

use std::net::SocketAddr;
use std::sync::Arc;

use leveret_amqp10::performative::Attach;
use leveret_amqp10::terminus::{ExpiryPolicy, TerminusDurability};
use leveret_amqp10::{Performative, Role, SenderSettleMode, Source, Symbol, Symbols, Target, TargetArchetype};
use leveret_broker::{Connection, Peer};
use leveret_strict_client::amqp10::{Client, Event, Mechanism, Options, Response, SessionOptions};

use crate::stage::{Nobody, Stage, TURNS_MAX};

/// The session that every client has begun.
pub(crate) const CHANNEL: u16 = 0;

pub(crate) struct Client10 {
    pub(crate) client: Client,
    pub(crate) connection: Connection,
    /// The events that the client got.
    pub(crate) events: Vec<Event>,
    /// The address of the source that the broker made.
    pub(crate) address: Option<String>,
    /// The responses to management requests that it got.
    pub(crate) responses: Vec<Response>,
    /// Bytes that the connection didn't take yet.
    unread: Vec<u8>,
}

impl Client10 {
    pub(crate) fn connect(stage: &mut Stage, user: &str) -> Self {
        let mechanism = Mechanism::Plain { user: user.into(), password: "secret".into() };
        let mut this = Self::dial(stage, Options { mechanism, ..Options::default() });
        this.client.begin(CHANNEL, SessionOptions::default());
        this.run(stage);
        this
    }

    /// Logs in and opens the connection, even if it will be refused.
    pub(crate) fn dial(stage: &mut Stage, options: Options) -> Self {
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let peer = Peer::new(address(50_001), address(5672));
        let mut this = Self {
            client: Client::new(options),
            connection: stage.broker.accept(&stage.broker.protocols, peer, Arc::new(Nobody), 0, stage.now),
            events: Vec::new(),
            address: None,
            responses: Vec::new(),
            unread: Vec::new(),
        };
        this.run(stage);
        this
    }

    /// Runs both sides until neither has anything left to send.
    pub(crate) fn run(&mut self, stage: &mut Stage) {
        for _ in 0..TURNS_MAX {
            if !self.step(stage) {
                return;
            }
        }
        panic!("the connection never comes to rest");
    }

    /// Has the connection read what the client sends, and nothing else.
    pub(crate) fn read(&mut self, stage: &Stage) {
        self.unread.append(self.client.output());
        let used = self.connection.receive(&self.unread, stage.now);
        self.unread.drain(..used);
    }

    /// Runs one read and one turn of the connection, then the client's read. True if more is to be done.
    pub(crate) fn step(&mut self, stage: &mut Stage) -> bool {
        let input = std::mem::take(self.client.output());
        self.unread.extend_from_slice(&input);
        if self.connection.wants_read() {
            let used = self.connection.receive(&self.unread, stage.now);
            self.unread.drain(..used);
        }
        stage.disk_work();
        let was_ending = self.connection.is_ending();
        self.connection.turn(stage.now);
        let output = self.connection.output();
        let (count, answers) = (output.len(), output.pending().to_vec());
        output.written(count);
        let before = self.events.len();
        let used = self.client.receive(&answers, &mut self.events).expect("the broker keeps to the specification");
        assert_eq!(used, answers.len());
        for event in &self.events[before..] {
            if let Event::Delivered(delivery) = event
                && let Ok(response) = Response::parse(self.client.bytes(delivery.payload))
                && response.id != 0
            {
                self.responses.push(response);
            }
            if let Event::Attached { attach, .. } = event
                && let Ok((Performative::Attach(attach), _)) = Performative::decode(self.client.bytes(*attach))
                && let Some(address) = attach.source.and_then(|source| source.address)
            {
                self.address = Some(address.to_owned());
            }
        }
        let goes_on = self.connection.wants_turn() || (self.connection.wants_read() && !self.unread.is_empty());
        goes_on || was_ending || !(input.is_empty() && answers.is_empty())
    }

    /// Attaches a receiver to a source that the broker makes, with these capabilities.
    pub(crate) fn attach_dynamic(&mut self, channel: u16, name: &str, handle: u32, capabilities: &[Symbol<'_>]) {
        let source = Source {
            durable: TerminusDurability::None,
            expiry_policy: ExpiryPolicy::LinkDetach,
            dynamic: true,
            capabilities: Symbols::of(capabilities),
            ..Source::default()
        };
        let attach = Attach {
            name,
            handle,
            role: Role::Receiver,
            snd_settle_mode: SenderSettleMode::Settled,
            source: Some(source),
            target: Some(TargetArchetype::Target(Target::default())),
            ..Attach::default()
        };
        self.client.attach(channel, &attach);
    }

    /// The condition with which a link or session was ended, if one was.
    pub(crate) fn refusal(&self) -> Option<String> {
        self.events.iter().find_map(|event| match event {
            Event::Detached { error: Some(error), .. } | Event::Ended { error: Some(error), .. } => {
                Some(error.condition.clone())
            }
            _ => None,
        })
    }

    /// Number of messages delivered on a link.
    pub(crate) fn delivered(&self, handle: u32) -> usize {
        let ours = |event: &&Event| matches!(event, Event::Delivered(delivery) if delivery.handle == handle);
        self.events.iter().filter(ours).count()
    }
}
