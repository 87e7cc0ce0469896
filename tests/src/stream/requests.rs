//! The requests that tests make, in one call each.

use std::io;

use leveret_stream_protocol::client::{Publishing, SentSubBatch, ServerCommand, request};
use leveret_stream_protocol::{OffsetSpec, key};

use super::connection::StreamClient;
use super::subscription::Subscription;
use super::{OK, data};

impl StreamClient {
    /// Creates a stream with the default arguments.
    ///
    /// # Panics
    /// If it is refused.
    pub fn create(&mut self, stream: &str) {
        self.create_with(stream, &[]);
    }

    /// Creates a stream.
    ///
    /// # Panics
    /// If it is refused.
    pub fn create_with(&mut self, stream: &str, arguments: &[(&str, &str)]) {
        let code = self.code(|out, correlation| request::create(out, correlation, stream, arguments.iter().copied()));
        assert_eq!(code, OK, "create {stream}");
    }

    /// Deletes a stream; the code.
    pub fn delete(&mut self, stream: &str) -> u16 {
        self.code(|out, correlation| request::delete(out, correlation, stream))
    }

    /// Declares a publisher; an empty name is none. The code.
    pub fn declare(&mut self, publisher: u8, name: &str, stream: &str) -> u16 {
        self.code(|out, correlation| request::declare_publisher(out, correlation, publisher, name, stream))
    }

    /// Declares a publisher.
    ///
    /// # Panics
    /// If it is refused.
    pub fn publisher(&mut self, publisher: u8, name: &str, stream: &str) {
        assert_eq!(self.declare(publisher, name, stream), OK, "publisher {publisher} of {stream}");
    }

    /// Sends messages of data with these ids, in one frame.
    ///
    /// # Panics
    /// When the socket is broken.
    pub fn publish<B: AsRef<[u8]>>(&mut self, publisher: u8, messages: impl IntoIterator<Item = (u64, B)>) {
        self.try_publish(publisher, messages).expect("the messages are sent");
    }

    /// As [`StreamClient::publish`], to a server that may go at any time.
    ///
    /// # Errors
    /// The socket's.
    pub fn try_publish<B: AsRef<[u8]>>(
        &mut self,
        publisher: u8,
        messages: impl IntoIterator<Item = (u64, B)>,
    ) -> io::Result<()> {
        let mut out = Vec::new();
        let mut publishing = Publishing::begin(&mut out, 1, publisher);
        for (id, body) in messages {
            publishing.message(&mut out, id, &[], &data(body.as_ref()));
            self.sent(publisher, id);
        }
        publishing.end(&mut out);
        self.try_send(&out)
    }

    /// Sends messages of data with filter values, in one frame of version 2. An empty value is none.
    ///
    /// # Panics
    /// When the socket is broken.
    pub fn publish_filtered(&mut self, publisher: u8, messages: &[(u64, &str, &[u8])]) {
        let mut out = Vec::new();
        let mut publishing = Publishing::begin(&mut out, 2, publisher);
        for (id, filter, body) in messages {
            publishing.message(&mut out, *id, filter.as_bytes(), &data(body));
            self.sent(publisher, *id);
        }
        publishing.end(&mut out);
        self.send(&out);
    }

    /// Sends encoded messages, in one frame.
    ///
    /// # Panics
    /// When the socket is broken.
    pub fn publish_encoded(&mut self, publisher: u8, messages: &[(u64, &[u8])]) {
        let mut out = Vec::new();
        let mut publishing = Publishing::begin(&mut out, 1, publisher);
        for (id, message) in messages {
            publishing.message(&mut out, *id, &[], message);
            self.sent(publisher, *id);
        }
        publishing.end(&mut out);
        self.send(&out);
    }

    /// Sends one sub-batch.
    ///
    /// # Panics
    /// When the socket is broken.
    pub fn publish_sub_batch(&mut self, publisher: u8, id: u64, sub_batch: SentSubBatch<'_>) {
        let mut out = Vec::new();
        let mut publishing = Publishing::begin(&mut out, 1, publisher);
        publishing.sub_batch(&mut out, id, &sub_batch);
        publishing.end(&mut out);
        self.sent(publisher, id);
        self.send(&out);
    }

    /// Notes that an answer to a message will come.
    pub fn sent(&mut self, publisher: u8, id: u64) {
        *self.unanswered.entry(publisher).or_default().entry(id).or_default() += 1;
    }

    /// Waits until every message is confirmed.
    ///
    /// # Panics
    /// If one is refused.
    pub fn confirms(&mut self) {
        self.wait("confirms", Self::is_answered);
        self.nothing_refused();
    }

    /// Whether every message was answered.
    pub fn is_answered(&self) -> bool {
        self.unanswered.values().flat_map(|sent| sent.values()).all(|times| *times == 0)
    }

    /// Subscribes; the code.
    pub fn try_subscribe(
        &mut self,
        id: u8,
        stream: &str,
        start: OffsetSpec,
        credit: u16,
        properties: &[(&str, &str)],
    ) -> u16 {
        let is_filtered = properties.iter().any(|(name, _)| name.starts_with("filter."));
        let subscription = Subscription { credit: credit.into(), is_filtered, ..Subscription::default() };
        // The first chunks may come together with the answer.
        let before = self.subscriptions.insert(id, subscription);
        let code = self.code(|out, correlation| {
            request::subscribe(out, correlation, id, stream, start, credit, properties.iter().copied());
        });
        if code != OK {
            match before {
                Some(before) => drop(self.subscriptions.insert(id, before)),
                None => drop(self.subscriptions.remove(&id)),
            }
        }
        code
    }

    /// Subscribes without properties.
    ///
    /// # Panics
    /// If it is refused.
    pub fn subscribe(&mut self, id: u8, stream: &str, start: OffsetSpec, credit: u16) {
        assert_eq!(self.try_subscribe(id, stream, start, credit, &[]), OK, "subscription {id} of {stream}");
    }

    /// Ends a subscription; the code.
    pub fn unsubscribe(&mut self, id: u8) -> u16 {
        let code = self.code(|out, correlation| request::unsubscribe(out, correlation, id));
        self.subscriptions.remove(&id);
        code
    }

    /// Grants credit.
    ///
    /// # Panics
    /// When the socket is broken.
    pub fn grant(&mut self, id: u8, credit: u16) {
        self.try_grant(id, credit).expect("credit is sent");
    }

    /// As [`StreamClient::grant`], to a server that may go at any time.
    ///
    /// # Errors
    /// The socket's.
    pub fn try_grant(&mut self, id: u8, credit: u16) -> io::Result<()> {
        if let Some(subscription) = self.subscriptions.get_mut(&id) {
            subscription.credit += u32::from(credit);
        }
        let mut out = Vec::new();
        request::credit(&mut out, id, credit);
        self.try_send(&out)
    }

    /// Reads until a subscription has everything before `end`, with as much credit as that takes.
    ///
    /// # Panics
    /// If the server closes or falls silent before.
    pub fn read_to(&mut self, id: u8, end: u64) {
        while self.subscriptions[&id].next.unwrap_or(0) < end {
            if self.subscriptions[&id].credit == 0 {
                self.grant(id, 10);
            }
            let before = self.subscriptions[&id].received;
            self.wait("a chunk", |client| client.subscriptions[&id].received > before);
        }
    }

    /// The next change of activity: subscription and whether it becomes active.
    ///
    /// # Panics
    /// If none comes.
    pub fn next_update(&mut self) -> (u32, u8, bool) {
        self.wait("a change of activity", |client| !client.updates.is_empty());
        self.updates.pop_front().expect("it came")
    }

    /// Answers a change of activity.
    ///
    /// # Panics
    /// When the socket is broken.
    pub fn answer_update(&mut self, correlation: u32, start: OffsetSpec) {
        let mut out = Vec::new();
        request::consumer_updated(&mut out, correlation, OK, start);
        self.send(&out);
    }

    /// Stores an offset.
    ///
    /// # Panics
    /// When the socket is broken.
    pub fn store_offset(&mut self, name: &str, stream: &str, offset: u64) {
        let mut out = Vec::new();
        request::store_offset(&mut out, name, stream, offset);
        self.send(&out);
    }

    /// The stored offset of a name, or the code of the refusal.
    ///
    /// # Errors
    /// The code.
    pub fn stored_offset(&mut self, name: &str, stream: &str) -> Result<u64, u16> {
        self.call(
            |out, correlation| request::query_offset(out, correlation, name, stream),
            |answer| match answer {
                ServerCommand::StoredOffset { code: OK, offset, .. } => Ok(offset),
                ServerCommand::StoredOffset { code, .. } => Err(code),
                other => panic!("an offset expected: {other:?}"),
            },
        )
    }

    /// The last publishing id of a name.
    ///
    /// # Panics
    /// If it is refused.
    pub fn last_id(&mut self, name: &str, stream: &str) -> u64 {
        self.call(
            |out, correlation| request::query_publisher_sequence(out, correlation, name, stream),
            |answer| match answer {
                ServerCommand::Sequence { code: OK, sequence, .. } => sequence,
                other => panic!("a publishing id expected: {other:?}"),
            },
        )
    }

    /// Announces version 2 of deliveries.
    ///
    /// # Panics
    /// If it is refused.
    pub fn ask_for_newer_deliveries(&mut self) {
        let code = self.call(
            |out, correlation| request::exchange_command_versions(out, correlation, [(key::DELIVER, 1, 2)]),
            |answer| match answer {
                ServerCommand::CommandVersions { code, .. } => code,
                other => panic!("versions expected: {other:?}"),
            },
        );
        assert_eq!(code, OK, "versions of deliveries");
    }

    /// The partitions to which a super stream routes this key.
    pub fn routes(&mut self, routing_key: &str, super_stream: &str) -> Vec<String> {
        self.streams(|out, correlation| request::route(out, correlation, routing_key, super_stream))
    }

    /// The partitions of a super stream; nothing if there is none.
    pub fn partitions(&mut self, super_stream: &str) -> Vec<String> {
        self.streams(|out, correlation| request::partitions(out, correlation, super_stream))
    }

    fn streams(&mut self, ask: impl FnOnce(&mut Vec<u8>, u32)) -> Vec<String> {
        self.call(ask, |answer| match answer {
            ServerCommand::Streams { streams, .. } => streams.iter().map(str::to_owned).collect(),
            other => panic!("streams expected: {other:?}"),
        })
    }

    /// Host and port of the leader of a stream, or the code of its refusal.
    ///
    /// # Errors
    /// The code.
    pub fn leader(&mut self, stream: &str) -> Result<(String, u32), u16> {
        self.call(
            |out, correlation| request::metadata(out, correlation, [stream]),
            |answer| match answer {
                ServerCommand::Metadata { brokers, streams, .. } => {
                    let found = streams.iter().next().expect("the stream");
                    if found.code != OK {
                        return Err(found.code);
                    }
                    let leader = brokers.iter().find(|(reference, ..)| *reference == found.leader);
                    let (_, host, port) = leader.expect("the leader is among the brokers");
                    Ok((host.to_owned(), port))
                }
                other => panic!("metadata expected: {other:?}"),
            },
        )
    }

    /// A statistic of a stream.
    ///
    /// # Panics
    /// If there is none of that name.
    pub fn statistic(&mut self, stream: &str, name: &str) -> i64 {
        self.call(
            |out, correlation| request::stream_stats(out, correlation, stream),
            |answer| match answer {
                ServerCommand::StreamStats { stats, .. } => {
                    stats.iter().find(|(known, _)| *known == name).expect("the statistic").1
                }
                other => panic!("statistics expected: {other:?}"),
            },
        )
    }
}
