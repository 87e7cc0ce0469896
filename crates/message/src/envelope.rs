//! The broker's information about a message besides its content.

/// Origin and lifetime of a message: immutable until dead-lettering writes a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Envelope<'a> {
    /// Whether it survives a restart in a durable queue.
    pub durable: bool,
    /// The publisher's priority, 0 to 255. Without one, a classic queue uses 0 and a quorum queue 4.
    pub priority: Option<u8>,
    /// Name of the exchange that it was published to; empty for the default exchange.
    pub exchange: &'a [u8],
    /// The first routing key; further ones are in the [overlay](crate::overlay). At most 255 bytes, not necessarily
    /// UTF-8.
    pub routing_key: &'a [u8],
    /// Wall time in milliseconds since the Unix epoch at which it was published, or moved here as a dead letter: a
    /// queue's `x-message-ttl` counts from this time. Below 2^48.
    pub received_ms: u64,
    /// Absolute wall time in milliseconds since the Unix epoch, from the publisher's time to live alone; 0 means
    /// never. Below 2^48.
    pub expiry_ms: u64,
}

impl Envelope<'_> {
    /// The publisher's time to live in milliseconds.
    pub fn ttl_ms(&self) -> Option<u64> {
        (self.expiry_ms != 0).then(|| self.expiry_ms.saturating_sub(self.received_ms))
    }

    /// The envelope of a message that is received again at `received_ms`: its time to live begins anew.
    pub fn received_again(self, received_ms: u64) -> Self {
        let expiry_ms = self.ttl_ms().map_or(0, |ttl_ms| Self::expiry(received_ms, ttl_ms));
        Self { received_ms, expiry_ms, ..self }
    }

    /// The expiry of a message received at `received_ms` with this time to live, in milliseconds since the Unix
    /// epoch; never 0.
    pub fn expiry(received_ms: u64, ttl_ms: u64) -> u64 {
        received_ms.saturating_add(ttl_ms).clamp(1, TIME_MS_MAX)
    }
}

/// Latest time that the stored form can hold: in the year 10889.
pub const TIME_MS_MAX: u64 = (1 << 48) - 1;

/// Numbers of encodings in the stored form.
pub(crate) const ENCODING_AMQP091: u8 = 1;
pub(crate) const ENCODING_AMQP10: u8 = 2;
pub(crate) const ENCODING_MQTT: u8 = 3;

/// The encodings by their numbers, looked up for each message. Other numbers are refused before.
pub(crate) static ENCODINGS: [Encoding; 256] = {
    let mut all = [Encoding::Amqp091; 256];
    all[ENCODING_AMQP10 as usize] = Encoding::Amqp10;
    all[ENCODING_MQTT as usize] = Encoding::Mqtt;
    let mut number = ForeignId::MIN;
    loop {
        all[number as usize] = Encoding::Foreign(ForeignId::new(number));
        match number.checked_add(1) {
            Some(next) => number = next,
            None => break all,
        }
    }
};

/// The publisher's protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Encoding {
    /// Properties are the content header's property flags and list as received (specification 4.2.6.1).
    #[default]
    Amqp091,
    /// Properties are the message-annotations section or empty, the body is the bare message with its
    /// footer, byte for byte (specification 3.2).
    Amqp10,
    /// Properties are a [head of MQTT](crate::mqtt), the body is the payload.
    Mqtt,
    /// Properties are whatever [its protocol](crate::hub::ForeignEncoding) makes of them, the body is the payload.
    Foreign(ForeignId),
}

/// The number of an encoding that a protocol outside this crate brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForeignId(u8);

impl ForeignId {
    /// The lowest number; those below are this crate's.
    pub const MIN: u8 = 128;
    pub(crate) const COUNT: usize = 256 - Self::MIN as usize;

    /// The encoding with this number.
    ///
    /// # Panics
    /// It is below [`MIN`](Self::MIN).
    pub const fn new(number: u8) -> Self {
        assert!(number >= Self::MIN, "numbers below 128 are of encodings of the message crate");
        Self(number)
    }

    /// Its number.
    pub fn number(self) -> u8 {
        self.0
    }

    pub(crate) fn index(self) -> usize {
        usize::from(self.0 - Self::MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_to_live_of_zero_is_not_none() {
        let expiry_ms = Envelope::expiry(5, 0);
        assert_eq!(Envelope { received_ms: 5, expiry_ms, ..Envelope::default() }.ttl_ms(), Some(0));
        assert_eq!(Envelope { received_ms: 5, ..Envelope::default() }.ttl_ms(), None);
        assert_eq!(Envelope::expiry(0, 0), 1);
    }

    #[test]
    fn a_time_to_live_begins_anew_when_received_again() {
        let envelope = Envelope { received_ms: 5, expiry_ms: Envelope::expiry(5, 10), ..Envelope::default() };
        assert_eq!(envelope.received_again(1_000).expiry_ms, 1_010);
        let without = Envelope { received_ms: 5, ..Envelope::default() };
        assert_eq!((without.received_again(1_000).received_ms, without.received_again(1_000).expiry_ms), (1_000, 0));
    }
}
