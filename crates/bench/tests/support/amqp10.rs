//! The fake broker of AMQP 1.0: it grants credit, responds to management requests and observes the consumer's credit.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use leveret_amqp10::message::{BodyRef, MessageId, Properties, Sections, write_data, write_value};
use leveret_amqp10::performative::{Attach, Begin, Close, Detach, Disposition, End, Flow, Open, Transfer};
use leveret_amqp10::sasl::{self, SaslCode};
use leveret_amqp10::value::EncodedMap;
use leveret_amqp10::{
    DeliveryState, Error, FrameKind, HEADER_AMQP, HEADER_SASL, Performative, Role, SaslFrame, SenderSettleMode, Symbol,
    Symbols, Value, condition, decode_frame, encode_performative, encode_transfer,
};

use super::Fault;
use super::messages::Messages;

const WINDOW: u32 = 10_000;
const CREDIT: u32 = 1000;

/// A listening broker; it serves two connections and ends.
pub(crate) struct FakeBroker {
    pub(crate) address: SocketAddr,
    server: JoinHandle<()>,
}

#[derive(Default)]
struct Queue {
    messages: Messages,
    consumer: Option<Consumer>,
}

/// The consumer's link. Its session also carries management responses, which share its delivery-ids.
struct Consumer {
    stream: TcpStream,
    settled: bool,
    delivery_count: u32,
    limit: u32,
    next_id: u32,
}

impl Queue {
    fn deliver(&mut self) {
        let Some(consumer) = &mut self.consumer else { return };
        let mut out = Vec::new();
        while consumer.delivery_count < consumer.limit
            && let Some(body) = self.messages.take()
        {
            let tag = consumer.next_id.to_be_bytes();
            let transfer = Transfer {
                handle: 0,
                delivery_id: Some(consumer.next_id),
                delivery_tag: Some(&tag),
                message_format: Some(0),
                settled: Some(consumer.settled),
                ..Transfer::default()
            };
            let mut payload = Vec::new();
            write_data(&mut payload, &body);
            encode_transfer(&mut out, 0, &transfer, &payload);
            consumer.next_id += 1;
            consumer.delivery_count += 1;
        }
        // The generator may have disconnected after it noticed a fault.
        let _ = consumer.stream.write_all(&out);
    }
}

impl FakeBroker {
    pub(crate) fn start(fault: Fault) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = thread::spawn(move || {
            let queue = Arc::new(Mutex::new(Queue::default()));
            let sides: Vec<_> = (0..2)
                .map(|_| {
                    let (stream, _) = listener.accept().unwrap();
                    stream.set_nodelay(true).unwrap();
                    let queue = queue.clone();
                    thread::spawn(move || {
                        Side { stream, queue, fault, next_id: 0, taken: 0, published: 0, settled: false }.serve()
                    })
                })
                .collect();
            sides.into_iter().for_each(|side| side.join().unwrap());
        });
        Self { address, server }
    }

    /// Waits until both connections are gone.
    pub(crate) fn join(self) {
        self.server.join().unwrap();
    }
}

/// One connection.
struct Side {
    stream: TcpStream,
    queue: Arc<Mutex<Queue>>,
    fault: Fault,
    /// Number of deliveries to this connection before it had a consumer.
    next_id: u32,
    /// Number of transfers received.
    taken: u32,
    /// Number of messages received on the publisher's link.
    published: u32,
    /// Whether they were sent settled.
    settled: bool,
}

impl Side {
    fn serve(mut self) {
        let mut input = vec![0; 1 << 20];
        let mut filled = 0;
        let mut headers = 0;
        while let Ok(count @ 1..) = self.stream.read(&mut input[filled..]) {
            filled += count;
            let mut used = 0;
            let mut out = Vec::new();
            let before = self.published;
            loop {
                let rest = &input[used..filled];
                if rest.starts_with(b"AMQP") && rest.len() >= 8 && headers < 2 {
                    out.extend_from_slice(if headers == 0 { &HEADER_SASL } else { &HEADER_AMQP });
                    if headers == 0 {
                        let mechanisms = [Symbol::new("PLAIN")];
                        let sasl_server_mechanisms = Symbols::of(&mechanisms);
                        SaslFrame::Mechanisms(sasl::Mechanisms { sasl_server_mechanisms }).encode(&mut out);
                    }
                    headers += 1;
                    used += 8;
                    continue;
                }
                let Some((frame, size)) = decode_frame(rest, u32::MAX).unwrap() else { break };
                if frame.kind == FrameKind::Sasl {
                    let outcome = sasl::Outcome { code: SaslCode::Ok, additional_data: None };
                    SaslFrame::Outcome(outcome).encode(&mut out);
                } else {
                    let (performative, payload) = Performative::decode(frame.body).unwrap();
                    self.answer(&performative, payload, &mut out);
                }
                used += size;
            }
            input.copy_within(used..filled, 0);
            filled -= used;
            if self.published > before && !self.settled {
                self.confirm(before, &mut out);
            }
            // The consumer's side writes under the queue's lock, so that deliveries and replies aren't interleaved.
            let queue = self.queue.clone();
            let mut queue = queue.lock().unwrap();
            if self.stream.write_all(&out).is_err() {
                break;
            }
            queue.deliver();
        }
    }

    fn answer(&mut self, performative: &Performative<'_>, payload: &[u8], out: &mut Vec<u8>) {
        match performative {
            Performative::Open(_) => {
                let properties = EncodedMap::new().with("product", "Fake").with("version", "1");
                let open = Open { container_id: "fake", properties: Some(properties.as_map()), ..Open::default() };
                encode_performative(out, 0, &open.into());
            }
            Performative::Begin(_) => {
                let begin = Begin {
                    remote_channel: Some(0),
                    incoming_window: WINDOW,
                    outgoing_window: WINDOW,
                    ..Begin::default()
                };
                encode_performative(out, 0, &begin.into());
            }
            Performative::Attach(attach) => self.attach(attach, out),
            Performative::Flow(flow) if flow.handle == Some(0) => {
                let mut queue = self.queue.lock().unwrap();
                if let Some(consumer) = &mut queue.consumer {
                    consumer.limit = flow.delivery_count.unwrap_or(0) + flow.link_credit.unwrap_or(0);
                }
            }
            Performative::Transfer(transfer) => {
                self.taken += 1;
                let sections = Sections::parse(payload).unwrap();
                match (transfer.handle, sections.body) {
                    (0, BodyRef::Data(data)) => {
                        let body = data.first().to_vec();
                        self.queue.lock().unwrap().messages.accept(body, self.fault);
                        self.published += 1;
                        self.settled = transfer.settled == Some(true);
                        if self.published.is_multiple_of(CREDIT / 2) {
                            self.grant(0, self.published, out);
                        }
                    }
                    _ => self.manage(sections.properties.unwrap_or_default(), out),
                }
            }
            Performative::Detach(detach) => {
                if detach.handle == 0
                    && let Some(consumer) = self.queue.lock().unwrap().consumer.take()
                {
                    self.next_id = consumer.next_id;
                }
                encode_performative(out, 0, &Detach { error: None, ..*detach }.into());
            }
            Performative::Close(_) => encode_performative(out, 0, &Close::default().into()),
            _ => {}
        }
    }

    fn attach(&mut self, attach: &Attach<'_>, out: &mut Vec<u8>) {
        let role = attach.role.opposite();
        let initial_delivery_count = (role == Role::Sender).then_some(0);
        encode_performative(out, 0, &Attach { role, initial_delivery_count, ..*attach }.into());
        if role == Role::Receiver {
            self.grant(attach.handle, 0, out);
        } else if attach.handle == 0 {
            self.queue.lock().unwrap().consumer = Some(Consumer {
                stream: self.stream.try_clone().unwrap(),
                settled: attach.snd_settle_mode == SenderSettleMode::Settled,
                delivery_count: 0,
                limit: 0,
                next_id: self.next_id,
            });
        }
    }

    fn grant(&self, handle: u32, delivery_count: u32, out: &mut Vec<u8>) {
        let flow = Flow {
            next_incoming_id: Some(self.taken),
            incoming_window: WINDOW,
            next_outgoing_id: self.next_id,
            outgoing_window: WINDOW,
            handle: Some(handle),
            delivery_count: Some(delivery_count),
            link_credit: Some(CREDIT),
            ..Flow::default()
        };
        encode_performative(out, 0, &flow.into());
    }

    /// Responds to a request with success.
    fn manage(&mut self, request: Properties<'_>, out: &mut Vec<u8>) {
        let Some(MessageId::Ulong(id)) = request.message_id else { panic!("a request has a number") };
        let message_count = self.queue.lock().unwrap().messages.len() as u64;
        let body = EncodedMap::new().with("message_count", message_count);
        let mut payload = Vec::new();
        let properties = Properties {
            subject: Some(if request.subject == Some("PUT") { "201" } else { "200" }),
            correlation_id: Some(MessageId::Ulong(id)),
            ..Properties::default()
        };
        properties.encode(&mut payload);
        write_value(&mut payload, &Value::Map(body.as_map()));
        let tag = self.next_id.to_be_bytes();
        let transfer = Transfer {
            handle: 2,
            delivery_id: Some(self.next_id),
            delivery_tag: Some(&tag),
            message_format: Some(0),
            settled: Some(true),
            ..Transfer::default()
        };
        encode_transfer(out, 0, &transfer, &payload);
        self.next_id += 1;
    }

    /// Accepts the messages of one read, unless a fault says otherwise.
    fn confirm(&mut self, before: u32, out: &mut Vec<u8>) {
        let end = |out: &mut Vec<u8>| {
            let error = Some(Error::new(condition::PRECONDITION_FAILED, "planted"));
            encode_performative(out, 0, &End { error }.into());
        };
        let dispose = |out: &mut Vec<u8>, first: u32, last: u32, state| {
            let role = Role::Receiver;
            let disposition =
                Disposition { role, first, last: Some(last), settled: true, state: Some(state), batchable: false };
            encode_performative(out, 0, &disposition.into());
        };
        let last = self.published - 1;
        let planted = |at: usize| (before..=last).contains(&(at as u32));
        match self.fault {
            Fault::CloseChannel(at) if planted(at) => end(out),
            Fault::Return(at) if planted(at) => dispose(out, at as u32, at as u32, DeliveryState::Released),
            _ => {
                dispose(out, before, last, DeliveryState::Accepted);
                if self.fault == Fault::ConfirmTwice {
                    dispose(out, before, last, DeliveryState::Accepted);
                }
            }
        }
    }
}
