//! The order of a connection's work, which all protocols share: what a read and a turn consist of.

use leveret_broker::events;
use leveret_broker::inquiry::Inquiry;
use leveret_broker::outbox::Event;
use leveret_broker::output::Output;
use leveret_broker::protocol::Session;
use leveret_broker::reply::Reply;
use leveret_broker::settings::TURN_BYTES_MAX;
use leveret_broker::time::{Nanos, Now};
use leveret_broker::turn_budget::{CONSUMER, EVENT};
use leveret_broker::views::ConnectionView;
use leveret_queue::Signal;

use crate::client_connection::{BACKEND_KEY, CREDENTIAL_EXPIRED, ClientConnection};

/// The reason in the log why a connection was cut that wasn't open in time.
pub const HANDSHAKE_TIMEOUT: &str = "handshake_timeout: the connection was not opened in time";

/// The result of handling the first frame of some input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame {
    /// It was handled; its length in bytes, with frames after it that were handled, too.
    Used(usize),
    /// It isn't complete, or has to wait; nothing was used.
    Waits,
    /// It is broken, and the rest of the input is ignored.
    Broken,
}

/// The steps of a protocol in the work of its connection, in the order that [`Driven`] gives them.
pub trait Steps: Send {
    /// The protocol-independent part of the connection.
    fn client(&self) -> &ClientConnection;
    /// The protocol-independent part of the connection.
    fn client_mut(&mut self) -> &mut ClientConnection;

    /// Whether its user has entered a vhost, and neither side is closing it.
    fn is_open(&self) -> bool;
    /// Whether input is blocked until an event.
    fn is_held(&self) -> bool;
    /// Whether work that was begun is left: turns go on with it, and neither read nor deliver.
    fn is_ending(&self) -> bool;
    /// Whether the connection is ending with everything that it owns.
    fn is_leaving(&self) -> bool;
    /// Whether input is ignored from now on.
    fn is_over(&self) -> bool;
    /// Whether nothing more is sent.
    fn is_closed(&self) -> bool;
    /// Bytes of memory of its open transactions.
    fn transaction_bytes(&self) -> u64 {
        0
    }
    /// Whether the connection has published: if not, it reads on when the log is full.
    fn has_published(&self) -> bool;
    /// Whether a client that is blocked hasn't been notified yet, which its next frame causes.
    fn has_to_be_told(&self) -> bool {
        false
    }
    /// Whether the client has to read before more of its input is handled.
    fn has_full_output(&self) -> bool {
        self.client().output.is_full()
    }
    /// Whether the next turn has work, besides events and what was begun.
    fn has_work(&self) -> bool;

    /// Begins a read.
    fn begin_read(&mut self) {}
    /// Handles the first frame of `input`.
    fn frame(&mut self, input: &[u8], now: Now) -> Frame;
    /// Hands on what the frames of a read have collected.
    fn flush(&mut self, now: Now);

    /// Begins a turn.
    fn begin_turn(&mut self, _now: Now) {}
    /// Continues work that was begun. False if nothing is delivered in this turn.
    fn go_on(&mut self, now: Now) -> bool;
    /// Handles a signal of a queue.
    fn signal(&mut self, signal: Signal, now: Now);
    /// Publishing was blocked or unblocked on the whole node.
    fn alarm_changed(&mut self);
    /// Handles answers to a request of direct reply-to.
    fn reply(&mut self, reply: Reply, now: Now);
    /// The connection as listings show it.
    fn view(&self, inquiry: &Inquiry, now: Now) -> ConnectionView;
    /// Reports that the connection is open.
    fn report_opened(&self, now: Now) {
        let notices = &self.client().broker.notices;
        if notices.wants_events() {
            events::connection_opened(notices, &self.view(&Inquiry::new(|_| ()), now), now);
        }
    }
    /// A stream of the connection's vhost was restarted. Only clients of the stream protocol know where its leader is.
    fn stream_restarted(&mut self, _stream: &str) {}
    /// The node is in maintenance: closes the connection, unless its client maintains the node.
    fn close_for_maintenance(&mut self, now: Now);
    /// Closes the connection, which hasn't logged in, for this reason: its resources must be free at once.
    fn shed(&mut self, reason: &str, now: Now);
    /// Closes the connection for this reason of the node.
    fn close(&mut self, reason: &str, now: Now);
    /// Confirms and answers everything up to what is durable. All publishes up to there are in their queues.
    fn durable(&mut self, now: Now);
    /// Delivers messages to consumers, if the protocol's state allows it.
    fn deliver(&mut self, now: Now);
    /// Ends a turn.
    fn end_turn(&mut self) {}

    /// Takes back deliveries of the channel or session with this number that are unsettled for too long.
    fn look(&mut self, number: u16, now: Now);

    /// Whether silence of either side counts in the protocol's present state.
    fn keeps_alive(&self) -> bool;
    /// Whether the client is expected to send.
    fn expects_input(&self) -> bool {
        true
    }
    /// The credential of the client's login has ended: closes the connection.
    fn credential_expired(&mut self, now: Now) {
        self.close(CREDENTIAL_EXPIRED, now);
    }
    /// The deadline of the handshake, of the answer to a close or of a refusal has passed.
    fn deadline_passed(&mut self, now: Now);
    /// The client was silent for too long.
    fn fell_silent(&mut self, now: Now);
    /// Sends a frame that only shows that we are alive.
    fn send_heartbeat(&mut self);

    /// Shows the wait of the client's publishes in listings, if it changed.
    fn show_wait(&mut self, now: Now) {
        self.client_mut().show_pacing(now);
    }
    /// Registers for wake-ups.
    fn register(&mut self);
    /// The socket is closed: ends the connection with everything that it owns.
    fn cut_off(&mut self, now: Now);

    /// Whether this connection's publishes have to wait for the disk: the third level of flow control.
    fn publishes_wait(&self) -> bool {
        self.has_published() && self.client().is_log_full()
    }
    /// Whether the turn takes more input.
    fn takes_input(&self) -> bool {
        let client = self.client();
        let is_paused =
            client.is_paused() || client.pace.holds_input() || client.awaits_publishes() || client.is_asking();
        let is_free = !self.is_held() && !is_paused && !self.is_ending() && !self.is_over();
        is_free && !self.has_full_output()
    }
    /// Whether the socket is read: see [`Session::wants_read`].
    fn wants_read(&self) -> bool {
        self.takes_input() && (!self.client().waits_for_log() || self.has_to_be_told())
    }
}

/// A session that works through a protocol's steps.
pub struct Driven<S>(pub S);

impl<S: Steps> Driven<S> {
    /// Applies publishes that became durable, and sends the confirms and answers that are due. False if the turn ends before all are
    /// applied.
    fn answer_durable(&mut self, now: Now) -> bool {
        let client = self.0.client_mut();
        if client.is_gone() {
            return true;
        }
        let is_applied = client.apply_durable();
        if is_applied {
            client.end_await_publishes(now);
            self.0.durable(now);
        }
        is_applied
    }

    fn event(&mut self, event: Event, now: Now) {
        let steps = &mut self.0;
        match event {
            Event::Queue(Signal::Answered(BACKEND_KEY)) => steps.client_mut().backend_answered(now),
            Event::Queue(signal) => steps.signal(signal, now),
            Event::Durable(stream) => steps.client_mut().notified(stream, false),
            Event::Written(stream) => steps.client_mut().notified(stream, true),
            // The connection checks in this turn whether its body is there.
            Event::Body => {}
            Event::Alarm => steps.alarm_changed(),
            Event::Reply(reply) => steps.reply(reply, now),
            Event::Describe(inquiry) => {
                if steps.is_open() {
                    inquiry.answer(steps.view(&inquiry, now));
                }
            }
            Event::StreamRestarted { vhost, stream } => {
                if steps.is_open() && *steps.client().vhost == *vhost {
                    steps.stream_restarted(&stream);
                }
            }
            // A connection that isn't open yet is refused when it opens.
            Event::Maintenance => {
                if steps.is_open() && steps.client().broker.is_in_maintenance() {
                    steps.client_mut().stop_asking();
                    steps.close_for_maintenance(now);
                }
            }
            Event::Shed(reason) => {
                if !steps.client().is_logged_in() {
                    steps.shed(&reason, now);
                }
            }
            Event::Close(reason) => {
                steps.client_mut().stop_asking();
                steps.close(&reason, now);
            }
        }
    }

    /// Whether deliveries may be taken back. A commit that waits for room in the log doesn't keep them.
    fn takes_back(&self) -> bool {
        self.0.is_open() && !self.0.is_leaving()
    }

    /// Handles deadlines that have passed.
    fn keep_time(&mut self, now: Now) {
        while self.takes_back()
            && !self.0.client().budget.is_spent()
            && let Some(number) = self.0.client_mut().looks.pop_due(now.monotonic)
        {
            self.0.client_mut().budget.spend(CONSUMER);
            self.0.look(number, now);
        }
        let steps = &mut self.0;
        let client = steps.client_mut();
        if !client.output.is_empty() {
            client.silence.sent(now);
        }
        if client.silence.deadline().is_some_and(|deadline| now.monotonic >= deadline) {
            return steps.deadline_passed(now);
        }
        if client.answer_due().is_some_and(|due| now.monotonic >= due) {
            client.end_asking(now);
        }
        if client.credential_due().is_some() && client.credential_ends(now) {
            client.stop_asking();
            return steps.credential_expired(now);
        }
        if self.input_deadline().is_some_and(|deadline| now.monotonic >= deadline) {
            return self.0.fell_silent(now);
        }
        if self.output_deadline().is_some_and(|deadline| now.monotonic >= deadline)
            && self.0.client().output.len() < TURN_BYTES_MAX
        {
            self.0.send_heartbeat();
            self.0.client_mut().silence.sent(now);
        }
    }

    /// Time at which the client has been silent for too long.
    fn input_deadline(&self) -> Option<Nanos> {
        let (steps, client) = (&self.0, self.0.client());
        client.silence.input_due().filter(|_| steps.keeps_alive() && steps.expects_input() && !client.is_asking())
    }

    /// Time at which we have been silent for too long.
    fn output_deadline(&self) -> Option<Nanos> {
        let (steps, silence) = (&self.0, &self.0.client().silence);
        let agreed = silence.output_due().filter(|_| steps.keeps_alive());
        agreed.into_iter().chain(silence.probe_due().filter(|_| steps.is_open())).min()
    }

    /// Registers for wake-ups, and lets others know what this work appended.
    fn end_work(&mut self, now: Now) {
        let waits_for_log = self.0.publishes_wait();
        self.0.client_mut().note_log(waits_for_log);
        let is_read = self.0.wants_read();
        self.0.client_mut().silence.note_read(is_read, now);
        self.0.register();
        self.0.client().outbox.set_transactions(self.0.transaction_bytes());
        self.0.client().broker.streams.announce();
    }
}

impl<S: Steps> Session for Driven<S> {
    fn receive(&mut self, input: &[u8], now: Now) -> usize {
        let client = self.0.client_mut();
        client.silence.heard(now);
        client.budget.renew();
        self.0.begin_read();
        let mut used = 0;
        while self.0.takes_input() {
            let client = self.0.client_mut();
            if client.budget.is_spent() {
                client.pause();
                break;
            }
            match self.0.frame(&input[used..], now) {
                Frame::Used(bytes) => used += bytes,
                Frame::Waits => break,
                Frame::Broken => {
                    used = input.len();
                    break;
                }
            }
        }
        self.0.flush(now);
        self.0.show_wait(now);
        self.end_work(now);
        if self.0.is_over() { input.len() } else { used }
    }

    fn turn(&mut self, now: Now) {
        self.0.begin_turn(now);
        self.0.client_mut().begin_turn(now);
        let delivers = self.0.go_on(now);
        let has_earlier_events = self.0.client_mut().take_events();
        while !self.0.client().budget.is_spent()
            && let Some(event) = self.0.client_mut().next_event()
        {
            self.0.client_mut().budget.spend(EVENT);
            // The answer to a deletion comes before the cancels of the queue's consumers, as from RabbitMQ.
            if matches!(event, Event::Queue(Signal::Cancelled(_))) && !self.answer_durable(now) {
                self.0.client_mut().put_event_back(event);
                break;
            }
            self.event(event, now);
        }
        let client = self.0.client_mut();
        if has_earlier_events {
            // Later ones in the outbox weren't taken, and have woken this connection already: it isn't woken again for them.
            client.take_events();
        }
        if client.is_gone() {
            // Work that ended in this turn may have published; those runs still have to be applied.
            client.hand_over();
            client.broker.streams.announce();
            return;
        }
        // If some are left to apply, the rest follows in the next turn: the position that it waits for has been reached.
        self.answer_durable(now);
        if delivers {
            self.0.deliver(now);
        }
        self.0.end_turn();
        self.keep_time(now);
        self.0.show_wait(now);
        self.0.client_mut().counters.flush();
        self.end_work(now);
    }

    fn wants_turn(&self) -> bool {
        let steps = &self.0;
        let goes_on = steps.is_ending() && !steps.client().waits_for_room();
        steps.client().has_events() || goes_on || steps.has_work()
    }

    fn wants_read(&self) -> bool {
        self.0.wants_read()
    }

    fn next_deadline(&self) -> Option<Nanos> {
        let look = if self.takes_back() { self.0.client().looks.next() } else { None };
        let client = self.0.client();
        let backend = [client.answer_due(), client.credential_due()];
        let deadlines = [client.silence.deadline(), self.input_deadline(), self.output_deadline(), look];
        deadlines.into_iter().chain(backend).flatten().min()
    }

    fn next_pace(&self) -> Option<Nanos> {
        self.0.client().pace.next_turn()
    }

    fn is_finished(&self) -> bool {
        self.0.is_closed() && !self.0.is_ending()
    }

    fn is_ending(&self) -> bool {
        self.0.is_ending()
    }

    fn is_logged_in(&self) -> bool {
        self.0.client().is_logged_in()
    }

    fn output(&mut self) -> &mut Output {
        &mut self.0.client_mut().output
    }

    fn transferred(&mut self, read: u64, written: u64, now: Now) {
        self.0.client_mut().counters.transferred(read, written, now.monotonic);
    }

    fn disconnected(&mut self, now: Now) {
        if !self.0.client_mut().end() {
            return;
        }
        let notices = self.0.client().broker.notices.clone();
        let view = notices.wants_events().then(|| self.0.view(&Inquiry::new(|_| ()), now));
        self.0.cut_off(now);
        self.0.client_mut().forget();
        if let Some(view) = view {
            events::connection_closed(&notices, &view);
        }
    }
}
