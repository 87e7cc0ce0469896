//! The state machine of a connection.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Arguments;

use leveret_stream_protocol::client::{Publishing, ServerCommand, request};
use leveret_stream_protocol::{OffsetSpec, ResponseCode, key, next_frame};

use crate::violation::{Rule, Violation};

/// Length of a chunk's header in bytes.
const CHUNK_HEAD: usize = 48;

/// The login of a client.
#[derive(Debug, Clone)]
pub struct StreamOptions {
    /// The user.
    pub user: String,
    /// The password.
    pub password: String,
    /// The vhost.
    pub virtual_host: String,
    /// Proposed heartbeat in seconds; 0 for none.
    pub heartbeat: u32,
    /// The client's properties.
    pub properties: Vec<(String, String)>,
}

/// Bytes of an event, valid until the next call of [`Client::receive`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    start: u32,
    length: u32,
}

/// An event on the connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamEvent {
    /// The server's properties.
    Named {
        /// Product and version.
        product: String,
    },
    /// The connection is open.
    Connected,
    /// A command was answered.
    Answered {
        /// The key of the command.
        key: u16,
        /// The code.
        code: ResponseCode,
    },
    /// The last id of a named publisher in a stream; 0 if there is none.
    Sequence {
        /// The code.
        code: ResponseCode,
        /// The id.
        sequence: u64,
    },
    /// The offset that was stored under a name.
    StoredOffset {
        /// The code.
        code: ResponseCode,
        /// The offset.
        offset: u64,
    },
    /// Messages with consecutive ids were confirmed.
    Confirmed {
        /// The publisher.
        publisher: u8,
        /// The first id.
        first: u64,
        /// The last id.
        last: u64,
    },
    /// A message was refused.
    Refused {
        /// The publisher.
        publisher: u8,
        /// The id.
        id: u64,
        /// The code.
        code: u16,
    },
    /// A chunk was delivered.
    Chunk {
        /// The subscription.
        subscription: u8,
        /// Offset of its first message.
        first: u64,
        /// Number of messages.
        messages: u32,
        /// Its entries.
        entries: Span,
    },
    /// Credit was granted to a subscription that isn't there any more.
    CreditRefused {
        /// The subscription.
        subscription: u8,
    },
    /// A subscription of a group has become active, or has to step down.
    Activity {
        /// The id of the answer.
        correlation: u32,
        /// The subscription.
        subscription: u8,
        /// Whether it is active.
        active: bool,
    },
    /// A stream isn't there any more.
    StreamGone {
        /// The code.
        code: u16,
        /// The stream.
        stream: String,
    },
    /// The server closes the connection.
    Closed {
        /// The code.
        code: u16,
        /// The reason.
        reason: String,
    },
    /// The server has answered the close.
    CloseAnswered,
}

/// A subscription.
struct Subscription {
    credit: u32,
    /// The offset of the next chunk; `None` before the first one.
    next: Option<u64>,
    /// It is a member of a group.
    in_group: bool,
}

/// A client without a socket of its own.
pub struct Client {
    options: StreamOptions,
    output: Vec<u8>,
    arena: Vec<u8>,
    frame_max: u32,
    heartbeat: u32,
    correlation: u32,
    /// Commands that aren't answered: key and correlation id.
    asked: VecDeque<(u16, u32)>,
    /// Ids that were published and not answered, by publisher: runs of the first and the number.
    unconfirmed: BTreeMap<u8, VecDeque<(u64, u64)>>,
    subscriptions: BTreeMap<u8, Subscription>,
}

impl Client {
    /// A client that begins its login.
    #[must_use]
    pub fn new(options: StreamOptions) -> Self {
        let mut this = Self {
            output: Vec::new(),
            arena: Vec::new(),
            frame_max: 0,
            heartbeat: options.heartbeat,
            correlation: 0,
            asked: VecDeque::new(),
            unconfirmed: BTreeMap::new(),
            subscriptions: BTreeMap::new(),
            options,
        };
        let correlation = this.ask(key::PEER_PROPERTIES);
        let properties: Vec<_> = this.options.properties.iter().map(|(name, value)| (&**name, &**value)).collect();
        request::peer_properties(&mut this.output, correlation, properties);
        this
    }

    /// Bytes for the server.
    pub fn output(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    /// The bytes of an event.
    ///
    /// # Panics
    /// If `span` is from before the last `receive`.
    #[must_use]
    pub fn bytes(&self, span: Span) -> &[u8] {
        &self.arena[span.start as usize..][..span.length as usize]
    }

    /// Interval of heartbeats in seconds; 0 for none.
    #[must_use]
    pub fn heartbeat(&self) -> u32 {
        self.heartbeat
    }

    /// Sends a heartbeat.
    pub fn send_heartbeat(&mut self) {
        request::heartbeat(&mut self.output);
    }

    fn ask(&mut self, key: u16) -> u32 {
        self.correlation += 1;
        self.asked.push_back((key, self.correlation));
        self.correlation
    }

    /// Creates a stream.
    pub fn create<'a>(&mut self, stream: &str, arguments: impl IntoIterator<Item = (&'a str, &'a str)>) {
        let correlation = self.ask(key::CREATE);
        let arguments: Vec<_> = arguments.into_iter().collect();
        request::create(&mut self.output, correlation, stream, arguments);
    }

    /// Deletes a stream.
    pub fn delete(&mut self, stream: &str) {
        let correlation = self.ask(key::DELETE);
        request::delete(&mut self.output, correlation, stream);
    }

    /// Declares a publisher; without a name if `reference` is empty.
    pub fn declare_publisher(&mut self, publisher: u8, reference: &str, stream: &str) {
        let correlation = self.ask(key::DECLARE_PUBLISHER);
        self.unconfirmed.insert(publisher, VecDeque::new());
        request::declare_publisher(&mut self.output, correlation, publisher, reference, stream);
    }

    /// Publishes messages with consecutive ids from `first` on, in one frame. `message` writes one.
    pub fn publish(&mut self, publisher: u8, first: u64, count: u64, mut message: impl FnMut(u64, &mut Vec<u8>)) {
        let mut body = Vec::new();
        let mut publishing = Publishing::begin(&mut self.output, 1, publisher);
        for id in first..first + count {
            body.clear();
            message(id, &mut body);
            publishing.message(&mut self.output, id, &[], &body);
        }
        publishing.end(&mut self.output);
        self.unconfirmed.entry(publisher).or_default().push_back((first, count));
    }

    /// Subscribes to a stream.
    pub fn subscribe(&mut self, subscription: u8, stream: &str, start: OffsetSpec, credit: u16) {
        self.subscribe_with(subscription, stream, (start, credit), Vec::new());
    }

    /// Joins a group of a stream, of which one subscription at a time is served.
    pub fn join(&mut self, subscription: u8, stream: &str, group: &str) {
        let properties = vec![("single-active-consumer", "true"), ("name", group)];
        self.subscribe_with(subscription, stream, (OffsetSpec::First, 1), properties);
    }

    fn subscribe_with(
        &mut self,
        subscription: u8,
        stream: &str,
        (start, credit): (OffsetSpec, u16),
        properties: Vec<(&str, &str)>,
    ) {
        let correlation = self.ask(key::SUBSCRIBE);
        let in_group = !properties.is_empty();
        self.subscriptions.insert(subscription, Subscription { credit: credit.into(), next: None, in_group });
        request::subscribe(&mut self.output, correlation, subscription, stream, start, credit, properties);
    }

    /// Grants further chunks.
    pub fn credit(&mut self, subscription: u8, credit: u16) {
        if let Some(known) = self.subscriptions.get_mut(&subscription) {
            known.credit += u32::from(credit);
        }
        request::credit(&mut self.output, subscription, credit);
    }

    /// Asks for the last id that a named publisher has in a stream.
    pub fn query_publisher(&mut self, reference: &str, stream: &str) {
        let correlation = self.ask(key::QUERY_PUBLISHER_SEQUENCE);
        request::query_publisher_sequence(&mut self.output, correlation, reference, stream);
    }

    /// Stores an offset under a name, which isn't answered.
    pub fn store_offset(&mut self, reference: &str, stream: &str, offset: u64) {
        request::store_offset(&mut self.output, reference, stream, offset);
    }

    /// Asks for the offset that is stored under a name.
    pub fn query_offset(&mut self, reference: &str, stream: &str) {
        let correlation = self.ask(key::QUERY_OFFSET);
        request::query_offset(&mut self.output, correlation, reference, stream);
    }

    /// Ends a subscription.
    pub fn unsubscribe(&mut self, subscription: u8) {
        let correlation = self.ask(key::UNSUBSCRIBE);
        request::unsubscribe(&mut self.output, correlation, subscription);
    }

    /// Closes the connection.
    pub fn close(&mut self, reason: &str) {
        let correlation = self.ask(key::CLOSE);
        request::close(&mut self.output, correlation, 1, reason);
    }

    /// Handles received bytes; returns how many were used.
    ///
    /// # Errors
    /// The server broke a rule.
    pub fn receive(&mut self, input: &[u8], events: &mut Vec<StreamEvent>) -> Result<usize, Violation> {
        self.arena.clear();
        let mut used = 0;
        while let Some((frame, size)) = next_frame(&input[used..], 0).map_err(malformed)? {
            // A chunk may be longer than frames are.
            let is_chunk = frame.key == key::DELIVER && !frame.is_response;
            if !is_chunk && self.frame_max > 0 && size - 4 > self.frame_max as usize {
                return Err(Violation::new(Rule::WellFormed, format!("a frame of {} bytes", size - 4)));
            }
            let command = ServerCommand::decode(&frame).map_err(malformed)?;
            self.on_command(&command, events)?;
            used += size;
        }
        Ok(used)
    }

    fn on_command(&mut self, command: &ServerCommand<'_>, events: &mut Vec<StreamEvent>) -> Result<(), Violation> {
        match command {
            ServerCommand::Deliver { subscription, chunk, .. } => return self.on_chunk(*subscription, chunk, events),
            ServerCommand::Confirm { publisher, ids } => return self.on_confirm(*publisher, ids.iter(), events),
            ServerCommand::PublishError { publisher, errors } => {
                for (id, code) in errors.iter() {
                    match ResponseCode::from_number(code) {
                        Some(ResponseCode::PublisherDoesNotExist | ResponseCode::StreamNotAvailable) => {
                            self.passed_over(*publisher, id)?;
                        }
                        _ => self.answered(*publisher, id, format_args!("a refusal with code {code}"))?,
                    }
                    events.push(StreamEvent::Refused { publisher: *publisher, id, code });
                }
            }
            ServerCommand::MetadataUpdate { code, stream } => {
                events.push(StreamEvent::StreamGone { code: *code, stream: (*stream).to_owned() });
            }
            ServerCommand::Tune { frame_max, heartbeat } => {
                self.frame_max = *frame_max;
                self.heartbeat = self.heartbeat.min(*heartbeat);
                request::tune(&mut self.output, *frame_max, self.heartbeat);
                let correlation = self.ask(key::OPEN);
                request::open(&mut self.output, correlation, &self.options.virtual_host);
            }
            ServerCommand::CreditRefused { subscription, .. } => {
                events.push(StreamEvent::CreditRefused { subscription: *subscription });
            }
            ServerCommand::Heartbeat => {}
            ServerCommand::Close { correlation, code, reason } => {
                request::closed(&mut self.output, *correlation, ResponseCode::Ok.into());
                events.push(StreamEvent::Closed { code: *code, reason: (*reason).to_owned() });
            }
            ServerCommand::ConsumerUpdate { correlation, subscription, is_active } => {
                if self.subscriptions.get(subscription).is_some_and(|known| known.in_group) {
                    let (correlation, subscription, active) = (*correlation, *subscription, *is_active);
                    events.push(StreamEvent::Activity { correlation, subscription, active });
                    return Ok(());
                }
                return Err(Violation::new(Rule::ServerMethod, "an update of a consumer that is in no group"));
            }
            ServerCommand::Response { key, correlation, code } => {
                return self.on_answer(*key, *correlation, *code, events);
            }
            ServerCommand::PeerProperties { correlation, code, properties } => {
                let of = |name| properties.get(name).unwrap_or_default();
                events.push(StreamEvent::Named { product: format!("{} {}", of("product"), of("version")) });
                self.on_answer(key::PEER_PROPERTIES, *correlation, *code, events)?;
                let correlation = self.ask(key::SASL_HANDSHAKE);
                request::sasl_handshake(&mut self.output, correlation);
            }
            ServerCommand::SaslMechanisms { correlation, code, .. } => {
                self.on_answer(key::SASL_HANDSHAKE, *correlation, *code, events)?;
                let correlation = self.ask(key::SASL_AUTHENTICATE);
                let response = format!("\0{}\0{}", self.options.user, self.options.password);
                request::sasl_authenticate(&mut self.output, correlation, "PLAIN", response.as_bytes());
            }
            ServerCommand::SaslAuthenticated { correlation, code, .. } => {
                return self.on_answer(key::SASL_AUTHENTICATE, *correlation, *code, events);
            }
            ServerCommand::Sequence { correlation, code, sequence } => {
                let code = self.note_answer(key::QUERY_PUBLISHER_SEQUENCE, *correlation, *code)?;
                events.push(StreamEvent::Sequence { code, sequence: *sequence });
            }
            ServerCommand::StoredOffset { correlation, code, offset } => {
                let code = self.note_answer(key::QUERY_OFFSET, *correlation, *code)?;
                events.push(StreamEvent::StoredOffset { code, offset: *offset });
            }
            ServerCommand::Opened { correlation, code, .. } => {
                self.on_answer(key::OPEN, *correlation, *code, events)?;
                if *code == u16::from(ResponseCode::Ok) {
                    events.push(StreamEvent::Connected);
                }
            }
            other => return Err(Violation::new(Rule::Reply, format!("an answer that nobody asked for: {other:?}"))),
        }
        Ok(())
    }

    fn on_answer(
        &mut self,
        key: u16,
        correlation: u32,
        code: u16,
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), Violation> {
        let code = self.note_answer(key, correlation, code)?;
        match key {
            key::CLOSE => events.push(StreamEvent::CloseAnswered),
            _ => events.push(StreamEvent::Answered { key, code }),
        }
        Ok(())
    }

    /// Checks that an answer is the one to the oldest command; returns its code.
    fn note_answer(&mut self, key: u16, correlation: u32, code: u16) -> Result<ResponseCode, Violation> {
        let oldest = self.asked.pop_front();
        if oldest != Some((key, correlation)) {
            let received =
                format!("an answer to {key} with the correlation id {correlation}; the oldest was {oldest:?}");
            return Err(Violation::new(Rule::Reply, received));
        }
        let known = ResponseCode::from_number(code);
        known.ok_or_else(|| Violation::new(Rule::WellFormed, format!("the unknown code {code}")))
    }

    /// A message is answered, which has to be the oldest of its publisher.
    fn answered(&mut self, publisher: u8, id: u64, answer: Arguments<'_>) -> Result<(), Violation> {
        let runs = self.unconfirmed.get_mut(&publisher);
        let Some((runs, (first, count))) = runs.and_then(|runs| runs.pop_front().map(|run| (runs, run))) else {
            return Err(Violation::new(Rule::Confirm, format!("{answer} of {id}, which wasn't published")));
        };
        if first != id {
            return Err(Violation::new(Rule::Confirm, format!("{answer} of {id}; the oldest one is {first}")));
        }
        if count > 1 {
            runs.push_front((first + 1, count - 1));
        }
        Ok(())
    }

    /// A message came when its stream was gone already: earlier ones may be answered later, or never.
    fn passed_over(&mut self, publisher: u8, id: u64) -> Result<(), Violation> {
        let runs = self.unconfirmed.entry(publisher).or_default();
        let Some(at) = runs.iter().position(|(first, count)| (*first..*first + *count).contains(&id)) else {
            return Err(Violation::new(Rule::Confirm, format!("a refusal of {id}, which wasn't published")));
        };
        let (first, count) = runs[at];
        runs[at] = (id + 1, first + count - id - 1);
        runs.insert(at, (first, id - first));
        runs.retain(|(_, count)| *count > 0);
        Ok(())
    }

    fn on_confirm(
        &mut self,
        publisher: u8,
        ids: impl Iterator<Item = u64>,
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), Violation> {
        let mut open: Option<(u64, u64)> = None;
        for id in ids {
            self.answered(publisher, id, format_args!("a confirm"))?;
            open = match open {
                Some((first, last)) if last + 1 == id => Some((first, id)),
                Some((first, last)) => {
                    events.push(StreamEvent::Confirmed { publisher, first, last });
                    Some((id, id))
                }
                None => Some((id, id)),
            };
        }
        events.extend(open.map(|(first, last)| StreamEvent::Confirmed { publisher, first, last }));
        Ok(())
    }

    fn on_chunk(&mut self, id: u8, chunk: &[u8], events: &mut Vec<StreamEvent>) -> Result<(), Violation> {
        let wrong = |rule, text: String| Err(Violation::new(rule, text));
        let Some(subscription) = self.subscriptions.get_mut(&id) else {
            return wrong(Rule::LiveConsumer, format!("a chunk for subscription {id}, which doesn't exist"));
        };
        if subscription.credit == 0 {
            return wrong(Rule::LinkCredit, format!("a chunk for subscription {id} without credit"));
        }
        subscription.credit -= 1;
        let Some((head, entries)) = chunk.split_first_chunk::<CHUNK_HEAD>() else {
            return wrong(Rule::WellFormed, format!("a chunk of {} bytes", chunk.len()));
        };
        let word = |at: usize| u32::from_be_bytes(*head[at..].first_chunk().expect("it is within the header"));
        let first = u64::from_be_bytes(*head[24..].first_chunk().expect("it is within the header"));
        let (messages, checksum, length) = (word(4), word(32), word(36));
        if (head[0], head[1], length as usize) != (0x50, 0, entries.len()) {
            return wrong(Rule::WellFormed, format!("a chunk with the header {head:?} and {} bytes", entries.len()));
        }
        if crc32fast::hash(entries) != checksum {
            return wrong(Rule::WellFormed, format!("a chunk at {first} whose checksum is wrong"));
        }
        // Retention may have removed what was due.
        if subscription.next.is_some_and(|next| first < next) {
            return wrong(Rule::DeliveryTag, format!("a chunk at {first}, expected {:?}", subscription.next));
        }
        subscription.next = Some(first + u64::from(messages));
        let start = self.arena.len() as u32;
        self.arena.extend_from_slice(entries);
        let entries = Span { start, length: entries.len() as u32 };
        events.push(StreamEvent::Chunk { subscription: id, first, messages, entries });
        Ok(())
    }
}

fn malformed(error: impl std::fmt::Display) -> Violation {
    Violation::new(Rule::WellFormed, error.to_string())
}

/// The messages of a chunk without sub-batches.
#[derive(Debug, Clone)]
pub struct ChunkEntries<'a>(pub &'a [u8]);

impl<'a> Iterator for ChunkEntries<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let (length, rest) = self.0.split_first_chunk::<4>()?;
        let (message, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        self.0 = rest;
        Some(message)
    }
}
