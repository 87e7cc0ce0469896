//! A strict client on a blocking socket.

use std::io::ErrorKind;
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use leveret_strict_client::Violation;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::BenchError;
use crate::opening::Opening;
use crate::round::TargetBroker;
use crate::stream::Stream;

/// A strict client of one protocol.
pub(crate) trait Client {
    type Event: Clone + Send;

    fn output(&mut self) -> &mut Vec<u8>;
    fn receive(&mut self, input: &[u8], events: &mut Vec<Self::Event>) -> Result<usize, Violation>;

    /// Sends a heartbeat.
    fn send_heartbeat(&mut self);

    /// Interval of heartbeats; `None` for none.
    fn heartbeat_every(&self) -> Option<Duration>;

    /// The refusal by the broker that this event means, if any: no refusal is expected here.
    fn refusal(event: &Self::Event) -> Option<String>;

    /// Product and version of the broker, if the event has them.
    fn broker_name(event: &Self::Event) -> Option<String>;
}

pub(crate) struct Connection<C: Client> {
    pub(crate) client: C,
    broker_name: String,
    address: String,
    stream: Stream,
    input: Vec<u8>,
    /// Bytes at the front of `input` that were read and not processed.
    filled: usize,
    events: Vec<C::Event>,
    stopped: Arc<AtomicBool>,
    silence_max: Duration,
}

/// Closes a connection from another thread.
pub(crate) struct Stopper {
    stream: TcpStream,
    stopped: Arc<AtomicBool>,
}

impl Stopper {
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        // Fails only if the socket is closed already.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

impl<C: Client> Connection<C> {
    pub(crate) fn stopper(&self) -> Result<Stopper, BenchError> {
        let stream = self.stream.socket().try_clone().map_err(|error| self.socket_error("share the socket", error))?;
        Ok(Stopper { stream, stopped: self.stopped.clone() })
    }

    /// Connects. It is an error if the broker is silent for `silence_max` while something is due.
    pub(crate) fn connect(target: &TargetBroker, opening: &Opening<'_>, client: C) -> Result<Self, BenchError> {
        Self::connect_to(target, target.uri.address(), opening, client)
    }

    /// The same at another address of the broker.
    pub(crate) fn connect_to(
        target: &TargetBroker,
        address: String,
        opening: &Opening<'_>,
        client: C,
    ) -> Result<Self, BenchError> {
        let TargetBroker { uri, tls, silence_max, .. } = target;
        let failed = |doing: &'static str| {
            let broker = address.clone();
            move |source| BenchError::Socket { broker, doing, source }
        };
        let stream = opening.connect(&address, *silence_max).map_err(failed("connect"))?;
        stream.set_nodelay(true).map_err(failed("configure the socket"))?;
        stream.set_read_timeout(Some(*silence_max)).map_err(failed("configure the socket"))?;
        stream.set_write_timeout(Some(*silence_max)).map_err(failed("configure the socket"))?;
        let stream = match tls {
            None => Stream::Plain(stream),
            Some(tls) => Stream::tls(stream, tls.session(&uri.host)?).map_err(failed("make the TLS handshake"))?,
        };
        Ok(Self {
            client,
            broker_name: String::new(),
            address,
            stream,
            input: vec![0; opening.buffer],
            filled: 0,
            events: Vec::new(),
            stopped: Arc::default(),
            silence_max: *silence_max,
        })
    }

    fn socket_error(&self, doing: &'static str, source: std::io::Error) -> BenchError {
        BenchError::Socket { broker: self.address.clone(), doing, source }
    }

    /// Writes the client's output, in one call if the kernel takes it.
    pub(crate) fn flush(&mut self) -> Result<(), BenchError> {
        if self.client.output().is_empty() {
            return Ok(());
        }
        match self.stream.write_all(self.client.output()) {
            Ok(()) => {
                self.client.output().clear();
                Ok(())
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Err(self.silent("reading of what it was sent"))
            }
            Err(error) => Err(self.broken_pipe(error)),
        }
    }

    /// The error for a failed write. A broker sends its reason before it closes, which is worth more than the write's
    /// error.
    fn broken_pipe(&mut self, error: std::io::Error) -> BenchError {
        self.client.output().clear();
        match self.read() {
            Err(refused @ (BenchError::Refused(_) | BenchError::Violation(_))) => refused,
            Err(BenchError::Stopped) => BenchError::Stopped,
            _ => self.socket_error("write", error),
        }
    }

    /// Whether there is something to read within this time.
    pub(crate) fn is_readable_within(&self, patience: Duration) -> Result<bool, BenchError> {
        if self.stream.has_read_ahead() {
            return Ok(true);
        }
        let patience = Timespec::try_from(patience).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
        let mut sockets = [PollFd::new(self.stream.socket(), PollFlags::IN)];
        match poll(&mut sockets, Some(&patience)) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(self.socket_error("wait for", error.into())),
        }
    }

    /// How long a broker may be silent when something is due.
    pub(crate) fn silence_max(&self) -> Duration {
        self.silence_max
    }

    /// The error for a broker that owed `what` for too long.
    pub(crate) fn silent(&self, what: &str) -> BenchError {
        BenchError::Silent { broker: self.address.clone(), due: what.to_owned(), seconds: self.silence_max.as_secs() }
    }

    /// Waits for bytes and returns their events; never an empty list.
    ///
    /// Any refusal by the broker is an error: a closed connection or channel, a return, a negative confirm, a
    /// cancelled consumer, a detached link, another outcome than accepted.
    pub(crate) fn read(&mut self) -> Result<(&C, &[C::Event]), BenchError> {
        self.events.clear();
        let mut since = None;
        while self.events.is_empty() {
            self.read_once()?;
            // Some frames have no events, such as heartbeats.
            if self.events.is_empty() && since.get_or_insert_with(Instant::now).elapsed() > self.silence_max {
                return Err(self.silent("more than signs of life"));
            }
        }
        self.refused()?;
        Ok((&self.client, &self.events))
    }

    /// Processes bytes that have arrived, without waiting: for a connection from which nothing is due.
    pub(crate) fn take_what_came(&mut self) -> Result<(), BenchError> {
        self.events.clear();
        while self.is_readable_within(Duration::ZERO)? {
            self.read_once()?;
        }
        self.refused()
    }

    fn refused(&self) -> Result<(), BenchError> {
        let refusal = self.events.iter().find_map(C::refusal);
        refusal.map_or(Ok(()), |refusal| Err(BenchError::Refused(refusal)))
    }

    /// Waits for bytes and processes them.
    fn read_once(&mut self) -> Result<(), BenchError> {
        loop {
            if self.filled == self.input.len() {
                self.input.resize(self.input.len() * 2, 0);
            }
            match self.stream.read(&mut self.input[self.filled..]) {
                Ok(0) => {
                    return Err(BenchError::Refused("closed the socket without a word".into()));
                }
                Ok(count) => self.filled += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    return Err(self.silent("any word"));
                }
                Err(error) => return Err(self.socket_error("read", error)),
            }
            let used = self.client.receive(&self.input[..self.filled], &mut self.events)?;
            self.input.copy_within(used..self.filled, 0);
            self.filled -= used;
            // Handshake steps and replies to a close aren't events, but the broker waits for them.
            return self.flush();
        }
    }

    /// Waits for an event that is due before or after a load; `what` is its name in the protocol. Times out as if the
    /// broker were silent, even if it sends other events meanwhile.
    pub(crate) fn wait(
        &mut self,
        what: &str,
        mut wanted: impl FnMut(&C, &C::Event) -> bool,
    ) -> Result<C::Event, BenchError> {
        let mut found = None;
        self.wait_until(what, |client, events| {
            found = events.iter().find(|event| wanted(client, event)).cloned();
            found.is_some()
        })?;
        found.ok_or_else(|| self.silent(what))
    }

    /// Waits for this many events, each with the timeout of [`Connection::wait`].
    pub(crate) fn wait_for_all(
        &mut self,
        what: &str,
        count: u32,
        mut wanted: impl FnMut(&C, &C::Event) -> bool,
    ) -> Result<(), BenchError> {
        let mut left = count as usize;
        while left > 0 {
            self.wait_until(what, |client, events| {
                let come = events.iter().filter(|event| wanted(client, event)).count();
                left = left.saturating_sub(come);
                come > 0
            })?;
        }
        Ok(())
    }

    /// Waits until the expected events have been received.
    pub(crate) fn wait_until(
        &mut self,
        what: &str,
        mut is_due: impl FnMut(&C, &[C::Event]) -> bool,
    ) -> Result<(), BenchError> {
        let until = Instant::now() + self.silence_max;
        loop {
            self.flush()?;
            let left = until.saturating_duration_since(Instant::now());
            if !self.is_readable_within(left)? {
                return Err(self.silent(what));
            }
            self.events.clear();
            self.read_once()?;
            self.refused()?;
            if let Some(name) = self.events.iter().find_map(C::broker_name) {
                self.broker_name = name;
            }
            if !self.events.is_empty() && is_due(&self.client, &self.events) {
                return Ok(());
            }
        }
    }

    /// The broker's product and version, with Leveret's own name if that is elsewhere.
    pub(crate) fn broker_name(&self) -> &str {
        &self.broker_name
    }
}

/// The name from a broker's properties, with Leveret's own name if that is in another property than the product.
pub(crate) fn name_of(text: impl Fn(&str) -> String) -> String {
    let name = format!("{} {}", text("product"), text("version"));
    let own = ["platform", "information"].map(&text).into_iter().find(|value| value.contains("Leveret"));
    match own {
        Some(own) if !name.contains("Leveret") => format!("{own} (as {})", name.trim()),
        _ => name.trim().to_owned(),
    }
}
