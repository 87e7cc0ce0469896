//! Lists of channels that a connection comes back to.

use rustc_hash::FxHashMap;

use super::channel::Channel;

/// Channels with confirms that are to come. Each knows whether it is among them.
#[derive(Default)]
pub(crate) struct ConfirmingChannels {
    numbers: Vec<u16>,
}

impl ConfirmingChannels {
    /// Confirms are to come on this channel.
    #[inline]
    pub(crate) fn note(&mut self, number: u16, channel: &mut Channel) {
        if channel.begin_confirming() {
            self.numbers.push(number);
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// Sends what is due on each channel. `send` returns whether more is to come; the others are forgotten.
    pub(crate) fn retain(
        &mut self,
        channels: &mut FxHashMap<u16, Box<Channel>>,
        mut send: impl FnMut(u16, &mut Channel) -> bool,
    ) {
        self.numbers.retain(|number| channels.get_mut(number).is_some_and(|channel| send(*number, channel)));
    }

    /// Nothing is confirmed any more.
    pub(crate) fn clear(&mut self) {
        self.numbers.clear();
    }
}

/// Channels whose parked consumers are being woken, each once.
#[derive(Default)]
pub(crate) struct WakingChannels {
    numbers: Vec<u16>,
}

impl WakingChannels {
    /// Consumers of this channel are left to be woken.
    pub(crate) fn note(&mut self, number: u16) {
        if !self.numbers.contains(&number) {
            self.numbers.push(number);
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// Takes out all of them.
    pub(crate) fn take(&mut self) -> Vec<u16> {
        std::mem::take(&mut self.numbers)
    }
}
