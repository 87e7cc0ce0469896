//! The sessions of a connection, by the client's channel, and the list of sessions that a turn has to check.

use smallvec::SmallVec;

use super::session::Session;

/// All sessions of a connection.
#[derive(Default)]
pub(super) struct Sessions {
    slots: Vec<Option<Box<Session>>>,
    /// Channels of sessions that a turn has to check, each once; some of them may no longer need it. Without this list,
    /// each turn would scan every session.
    with_work: Vec<u16>,
}

impl Sessions {
    /// Takes a session out while its frames are handled; `put` puts it back.
    pub(super) fn take(&mut self, channel: u16) -> Option<Box<Session>> {
        self.slots.get_mut(usize::from(channel))?.take()
    }

    /// Puts a session in its place.
    #[inline]
    pub(super) fn put(&mut self, session: Box<Session>) {
        match self.slots.get_mut(usize::from(session.channel())) {
            Some(slot @ None) if session.is_listed() || !session.has_work() => *slot = Some(session),
            _ => self.put_and_list(session),
        }
    }

    #[inline(never)]
    fn put_and_list(&mut self, mut session: Box<Session>) {
        if !session.is_listed() && session.has_work() {
            session.set_listed(true);
            self.with_work.push(session.channel());
        }
        let at = usize::from(session.channel());
        if at >= self.slots.len() {
            self.slots.resize_with(at + 1, || None);
        }
        self.slots[at] = Some(session);
    }

    /// The slot of a session; none beyond the last one.
    pub(super) fn slot(&mut self, channel: usize) -> Option<&mut Option<Box<Session>>> {
        self.slots.get_mut(channel)
    }

    /// All sessions except the ones that are taken out.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Session> {
        self.slots.iter().flatten().map(|session| &**session)
    }

    /// The channels of all sessions.
    pub(super) fn channels(&self) -> Vec<u16> {
        self.iter().map(|session| session.channel()).collect()
    }

    /// The channels of the sessions that may have work.
    pub(super) fn channels_with_work(&self) -> SmallVec<[u16; 8]> {
        SmallVec::from_slice(&self.with_work)
    }

    /// The sessions that may have work, except the ones that are taken out.
    pub(super) fn with_work(&self) -> impl Iterator<Item = &Session> {
        self.with_work.iter().filter_map(|channel| self.slots.get(usize::from(*channel))?.as_deref())
    }

    /// Empties the list of sessions that may have work, and returns it. A session is listed again when it is put back
    /// and has work then.
    pub(super) fn unlist(&mut self) -> Vec<u16> {
        let channels = std::mem::take(&mut self.with_work);
        for channel in &channels {
            if let Some(Some(session)) = self.slots.get_mut(usize::from(*channel)) {
                session.set_listed(false);
            }
        }
        channels
    }
}
