//! Fake brokers with one queue, which support just the scenarios and can be made to fail: this is the one of AMQP
//! 0-9-1.

pub(crate) mod amqp10;
mod messages;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use leveret_amqp091::method::{basic, channel, confirm, connection, queue};
use leveret_amqp091::{
    FieldTable, FrameKind, Method, ShortStr, decode_frame, encode_content_body, encode_deliver, encode_header,
    encode_method,
};

use messages::Messages;

const FRAME_MAX: u32 = 131_072;

/// A fault, and the message that it affects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    Lose(usize),
    Duplicate(usize),
    Swap(usize),
    Corrupt(usize),
    Return(usize),
    ConfirmTwice,
    CloseChannel(usize),
}

#[derive(Default)]
struct Queue {
    messages: Messages,
    consumer: Option<TcpStream>,
    prefetch: u64,
    delivered: u64,
    acked: u64,
}

impl Queue {
    fn deliver(&mut self) {
        let Some(consumer) = &mut self.consumer else {
            return;
        };
        let mut out = Vec::new();
        while (self.prefetch == 0 || self.delivered - self.acked < self.prefetch)
            && let Some(body) = self.messages.take()
        {
            self.delivered += 1;
            encode_deliver(&mut out, 1, b"bench", self.delivered, false, b"", b"q");
            encode_header(&mut out, 1, 60, body.len() as u64, &[0, 0]);
            encode_content_body(&mut out, 1, &body, FRAME_MAX);
        }
        // The generator may have disconnected after it noticed a fault.
        let _ = consumer.write_all(&out);
    }
}

/// A listening broker; it serves two connections and ends.
pub(crate) struct FakeBroker {
    pub(crate) address: SocketAddr,
    server: JoinHandle<()>,
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
                    thread::spawn(move || serve(stream, &queue, fault))
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

fn serve(mut stream: TcpStream, queue: &Mutex<Queue>, fault: Fault) {
    let mut input = vec![0; 1 << 20];
    let mut filled = 0;
    let mut confirms = false;
    let mut published = 0u64;
    let mut body = Vec::new();
    let mut due = 0;
    let mut greeted = false;
    while let Ok(count @ 1..) = stream.read(&mut input[filled..]) {
        filled += count;
        let mut out = Vec::new();
        let mut used = 0;
        let mut starts = false;
        if !greeted && filled >= 8 {
            used = 8;
            greeted = true;
            let properties = FieldTable::new().with("product", "Fake").with("version", "1").encoded();
            let start = connection::Start {
                version_minor: 9,
                server_properties: properties.as_table(),
                mechanisms: b"PLAIN",
                locales: b"en_US",
                ..Default::default()
            };
            encode_method(&mut out, 0, &Method::ConnectionStart(start));
        }
        let before = published;
        while let Some((frame, size)) = decode_frame(&input[used..filled], FRAME_MAX).unwrap() {
            used += size;
            match frame.kind {
                FrameKind::Method => {
                    let method = Method::decode(frame.payload).unwrap();
                    starts |= matches!(method, Method::BasicConsume(_));
                    confirms |= matches!(method, Method::ConfirmSelect(_));
                    let answer = answer(&method, queue);
                    if let Some(answer) = answer {
                        encode_method(&mut out, frame.channel, &answer);
                    }
                    if let Method::BasicAck(_) = method {
                        queue.lock().unwrap().deliver();
                    }
                }
                FrameKind::Header => {
                    due = u64::from_be_bytes(frame.payload[4..12].try_into().unwrap());
                    body.clear();
                }
                FrameKind::Body => {
                    body.extend_from_slice(frame.payload);
                    if body.len() as u64 == due {
                        queue.lock().unwrap().messages.accept(body.clone(), fault);
                        published += 1;
                        plant(fault, published as usize - 1, &mut out);
                    }
                }
                FrameKind::Heartbeat => {}
            }
        }
        input.copy_within(used..filled, 0);
        filled -= used;
        if published > before {
            queue.lock().unwrap().deliver();
            if confirms && !matches!(fault, Fault::CloseChannel(_)) {
                let ack = Method::BasicAck(basic::Ack { delivery_tag: published, multiple: true });
                encode_method(&mut out, 1, &ack);
                if fault == Fault::ConfirmTwice {
                    encode_method(&mut out, 1, &ack);
                }
            }
        }
        if stream.write_all(&out).is_err() {
            break;
        }
        if starts {
            // Written after the reply and after messages published before.
            let mut queue = queue.lock().unwrap();
            queue.consumer = Some(stream.try_clone().unwrap());
            queue.deliver();
        }
    }
}

fn plant(fault: Fault, index: usize, out: &mut Vec<u8>) {
    match fault {
        Fault::Return(at) if at == index => {
            let returned = basic::Return { reply_code: 312, ..Default::default() };
            encode_method(out, 1, &Method::BasicReturn(returned));
            encode_header(out, 1, 60, 0, &[0, 0]);
        }
        Fault::CloseChannel(at) if at == index => {
            let close = channel::Close {
                reply_code: 406,
                reply_text: ShortStr::literal("PRECONDITION_FAILED - planted"),
                ..Default::default()
            };
            encode_method(out, 1, &Method::ChannelClose(close));
        }
        _ => {}
    }
}

fn answer<'a>(method: &Method<'a>, queue: &Mutex<Queue>) -> Option<Method<'a>> {
    Some(match method {
        Method::ConnectionStartOk(_) => {
            Method::ConnectionTune(connection::Tune { channel_max: 2047, frame_max: FRAME_MAX, heartbeat: 60 })
        }
        Method::ConnectionOpen(_) => Method::ConnectionOpenOk(connection::OpenOk::default()),
        Method::ConnectionClose(_) => Method::ConnectionCloseOk(connection::CloseOk {}),
        Method::ChannelOpen(_) => Method::ChannelOpenOk(channel::OpenOk::default()),
        Method::ConfirmSelect(_) => Method::ConfirmSelectOk(confirm::SelectOk {}),
        Method::QueueDeclare(declare) => {
            Method::QueueDeclareOk(queue::DeclareOk { queue: declare.queue, ..Default::default() })
        }
        Method::QueuePurge(_) => Method::QueuePurgeOk(queue::PurgeOk { message_count: 0 }),
        Method::QueueDelete(_) => {
            let message_count = queue.lock().unwrap().messages.len() as u32;
            Method::QueueDeleteOk(queue::DeleteOk { message_count })
        }
        Method::BasicQos(qos) => {
            queue.lock().unwrap().prefetch = qos.prefetch_count.into();
            Method::BasicQosOk(basic::QosOk {})
        }
        Method::BasicConsume(consume) => {
            Method::BasicConsumeOk(basic::ConsumeOk { consumer_tag: consume.consumer_tag })
        }
        Method::BasicCancel(cancel) => Method::BasicCancelOk(basic::CancelOk { consumer_tag: cancel.consumer_tag }),
        Method::BasicAck(ack) => {
            queue.lock().unwrap().acked = ack.delivery_tag;
            return None;
        }
        _ => return None,
    })
}
