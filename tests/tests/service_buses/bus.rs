//! A connection as RabbitMQ's client for .NET opens it, with one channel in confirm mode.

use std::net::SocketAddr;

use leveret_tests::wire::{BODY, Confirmed, HEADER, Login, Tuning, Wire, Writer, frame, method, method_frame};

/// The channel of all methods.
const CHANNEL: u16 = 1;

/// A value of a table, in the type in which the client sends it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Argument<'a> {
    Text(&'a str),
    Int(i32),
    Long(i64),
    Flag(bool),
}

pub(crate) type Arguments<'a> = &'a [(&'a str, Argument<'a>)];

/// How long a queue or exchange lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    Durable,
    /// Neither durable nor exclusive, and deleted with its last user.
    Temporary,
}

impl Life {
    /// The bits of a queue's declaration. In an exchange's they are the same, but for the position of auto-delete.
    fn of_queue(self) -> u8 {
        if self == Self::Durable { 0b10 } else { 0b1000 }
    }

    fn of_exchange(self) -> u8 {
        if self == Self::Durable { 0b10 } else { 0b100 }
    }
}

/// A message as delivered.
#[derive(Debug)]
pub(crate) struct Delivery {
    pub(crate) tag: u64,
    pub(crate) redelivered: bool,
    pub(crate) exchange: String,
    pub(crate) key: String,
    properties: Vec<u8>,
    pub(crate) body: String,
}

impl Delivery {
    /// Whether its properties or headers contain these bytes.
    pub(crate) fn has(&self, bytes: &[u8]) -> bool {
        self.properties.windows(bytes.len()).any(|window| window == bytes)
    }

    /// A header that is a 64-bit number.
    pub(crate) fn number(&self, name: &str) -> Option<i64> {
        let mut entry = Writer::new();
        entry.put_short_string(name).put(b"l");
        let entry = entry.bytes();
        let at = self.properties.windows(entry.len()).position(|window| window == entry)? + entry.len();
        Some(i64::from_be_bytes(self.properties[at..at + 8].try_into().expect("eight bytes")))
    }
}

/// A connection.
pub(crate) struct Bus {
    wire: Wire,
    published: u64,
    confirmed: Confirmed,
}

impl Bus {
    pub(crate) fn connect(broker: SocketAddr, name: &str) -> Self {
        let capabilities = &[
            "publisher_confirms",
            "exchange_exchange_bindings",
            "basic.nack",
            "consumer_cancel_notify",
            "connection.blocked",
            "authentication_failure_close",
        ];
        let properties = &[("product", "RabbitMQ"), ("platform", ".NET"), ("connection_name", name)];
        let mut wire = Wire::connect(broker);
        wire.send(b"AMQP\x00\x00\x09\x01");
        wire.next_method(method::CONNECTION_START).expect("connection.start");
        let login = Login { capabilities, properties, ..Login::default() };
        wire.log_in(Tuning { frame_max: 0, heartbeat: 60 }, &login).expect("connection.open-ok");
        wire.open_channel(CHANNEL);
        wire.confirm_select(CHANNEL);
        Self { wire, published: 0, confirmed: Confirmed::default() }
    }

    fn call(&mut self, id: method::Id, arguments: &Writer) {
        self.wire.call(CHANNEL, id, arguments, (id.0, id.1 + 1));
    }

    pub(crate) fn exchange(&mut self, name: &str, kind: &str, life: Life, arguments: Arguments<'_>) {
        let mut declare = Writer::new();
        declare.put_short(0).put_short_string(name).put_short_string(kind).put_octet(life.of_exchange());
        self.call(method::EXCHANGE_DECLARE, declare.put_long_string(&table(arguments)));
    }

    pub(crate) fn queue(&mut self, name: &str, life: Life, arguments: Arguments<'_>) {
        let mut declare = Writer::new();
        declare.put_short(0).put_short_string(name).put_octet(life.of_queue());
        self.call(method::QUEUE_DECLARE, declare.put_long_string(&table(arguments)));
    }

    /// A durable queue behind a durable fanout exchange of the same name: the address of an endpoint.
    pub(crate) fn endpoint(&mut self, name: &str, arguments: Arguments<'_>) {
        self.queue(name, Life::Durable, arguments);
        self.exchange(name, "fanout", Life::Durable, &[]);
        self.bind_queue(name, name, "");
    }

    pub(crate) fn bind_queue(&mut self, queue: &str, exchange: &str, key: &str) {
        self.bind(method::QUEUE_BIND, queue, exchange, key);
    }

    pub(crate) fn bind_exchange(&mut self, destination: &str, source: &str, key: &str) {
        self.bind(method::EXCHANGE_BIND, destination, source, key);
    }

    fn bind(&mut self, id: method::Id, destination: &str, source: &str, key: &str) {
        let mut bind = Writer::new();
        bind.put_short(0).put_short_string(destination).put_short_string(source).put_short_string(key);
        self.call(id, bind.put_octet(0).put_empty_table());
    }

    pub(crate) fn delete_exchange(&mut self, name: &str) {
        let mut delete = Writer::new();
        self.call(method::EXCHANGE_DELETE, delete.put_short(0).put_short_string(name).put_octet(0));
    }

    pub(crate) fn delete_queue(&mut self, name: &str) {
        let mut delete = Writer::new();
        self.call(method::QUEUE_DELETE, delete.put_short(0).put_short_string(name).put_octet(0));
    }

    pub(crate) fn messages(&mut self, queue: &str) -> u32 {
        self.wire.message_count(CHANNEL, queue)
    }

    /// Publishes a persistent, mandatory message and waits for its confirm; it may not come back.
    pub(crate) fn send(&mut self, exchange: &str, key: &str, headers: Arguments<'_>, body: &str) {
        self.publish(exchange, key, true, headers, body);
        self.await_confirm();
    }

    /// The same for a message that nobody needs to be there for.
    pub(crate) fn publish_event(&mut self, exchange: &str, key: &str, headers: Arguments<'_>, body: &str) {
        self.publish(exchange, key, false, headers, body);
        self.await_confirm();
    }

    /// Publishes a mandatory message that comes back. Both buses find its publish by a header of the returned message.
    pub(crate) fn send_nowhere(&mut self, exchange: &str, headers: Arguments<'_>) {
        self.publish(exchange, "", true, headers, "nowhere");
        let returned = self.wire.next_method(method::BASIC_RETURN).expect("basic.return");
        assert_eq!(returned.arguments().short(), 312);
        let (properties, body) = self.wire.content_with_properties().expect("the content");
        let sent = table(headers);
        assert!(properties.windows(sent.len()).any(|window| window == sent), "its headers differ");
        assert_eq!(body, b"nowhere");
        self.await_confirm();
    }

    fn publish(&mut self, exchange: &str, key: &str, mandatory: bool, headers: Arguments<'_>, body: &str) {
        let mut publish = Writer::new();
        publish.put_short(0).put_short_string(exchange).put_short_string(key).put_octet(u8::from(mandatory));
        let mut bytes = method_frame(CHANNEL, method::BASIC_PUBLISH, &publish);
        let mut header = Writer::new();
        // Content type, headers, delivery mode and message id.
        header.put_short(60).put_short(0).put_long_long(body.len() as u64).put_short(0xb080);
        header
            .put_short_string("application/json")
            .put_long_string(&table(headers))
            .put_octet(2)
            .put_short_string(body);
        bytes.extend(frame(HEADER, CHANNEL, header.bytes()));
        bytes.extend(frame(BODY, CHANNEL, body.as_bytes()));
        self.wire.send(&bytes);
        self.published += 1;
    }

    fn await_confirm(&mut self) {
        while self.confirmed.count() < self.published {
            self.confirmed.wait(&mut self.wire);
        }
    }

    /// Consumes with a prefetch of each consumer's own.
    pub(crate) fn consume(&mut self, queue: &str, prefetch: u16) {
        self.wire.prefetch(CHANNEL, prefetch);
        self.wire.consume(CHANNEL, queue, false);
    }

    pub(crate) fn delivery(&mut self) -> Delivery {
        let deliver = self.wire.next_method(method::BASIC_DELIVER).expect("basic.deliver");
        let mut arguments = deliver.arguments();
        let _consumer = arguments.short_string();
        let (tag, redelivered) = (arguments.long_long(), arguments.octet() & 1 == 1);
        let (exchange, key) = (arguments.short_string(), arguments.short_string());
        let (properties, body) = self.wire.content_with_properties().expect("the content");
        let body = String::from_utf8(body).expect("text");
        Delivery { tag, redelivered, exchange, key, properties, body }
    }

    pub(crate) fn ack(&mut self, delivery: &Delivery) {
        self.wire.ack(CHANNEL, delivery.tag, false);
    }

    /// `basic.reject` with requeue.
    pub(crate) fn reject(&mut self, delivery: &Delivery) {
        let mut reject = Writer::new();
        reject.put_long_long(delivery.tag).put_octet(1);
        self.wire.send(&method_frame(CHANNEL, method::BASIC_REJECT, &reject));
    }

    pub(crate) fn close(self) {
        self.wire.close();
    }
}

/// The entries of a table, without its length.
fn table(entries: Arguments<'_>) -> Vec<u8> {
    let mut table = Writer::new();
    for (name, value) in entries {
        table.put_short_string(name);
        match value {
            Argument::Text(text) => table.put(b"S").put_long_string(text.as_bytes()),
            Argument::Int(number) => table.put(b"I").put(&number.to_be_bytes()),
            Argument::Long(number) => table.put(b"l").put(&number.to_be_bytes()),
            Argument::Flag(flag) => table.put(b"t").put_octet(u8::from(*flag)),
        };
    }
    table.bytes().to_vec()
}
