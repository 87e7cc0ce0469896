//! Deliveries that a client leaves unsettled for too long.
//!
//! Only the connection knows the deliveries of its consumers, and so it looks at them: when the oldest one may be at half of its
//! timeout, and when it is at its end. A delivery only costs a comparison. No timer exists per message, consumer or channel: a
//! connection has the times of its next looks, and wakes for the first.

use std::collections::BTreeSet;

use leveret_broker::time::Nanos;

/// Shortest time between two looks at the same channel or session: clients may ask for any timeout.
const LOOKS_APART: Nanos = 5_000_000;
/// Time after which a look is tried again that wasn't possible.
const PUT_OFF: Nanos = 100_000_000;
/// No look is that late, about 290 years: some set the longest timeout in order to have none.
const NEVER: Nanos = Nanos::MAX / 2;

/// The next looks of a connection: each at a time, at the deliveries of a channel or session with this number.
#[derive(Debug, Default)]
pub struct Looks(BTreeSet<(Nanos, u16)>);

impl Looks {
    /// The time of the next look.
    pub fn next(&self) -> Option<Nanos> {
        self.0.first().map(|(at, _)| *at)
    }

    /// The next look, if it is due. It is forgotten.
    pub fn pop_due(&mut self, now: Nanos) -> Option<u16> {
        let (at, number) = *self.0.first()?;
        (at <= now).then(|| {
            self.0.pop_first();
            number
        })
    }
}

/// The next look at the deliveries of one channel or session.
#[derive(Debug)]
pub struct NextLook {
    at: Nanos,
    /// No look is before this time.
    earliest: Nanos,
    /// No delivery has a shorter timeout.
    shortest: Nanos,
    /// Where a look that takes several turns goes on.
    from: u64,
    /// The time of the next look as far as this one has come.
    found: Nanos,
}

impl Default for NextLook {
    fn default() -> Self {
        Self { at: Nanos::MAX, earliest: 0, shortest: Nanos::MAX, from: 0, found: Nanos::MAX }
    }
}

impl NextLook {
    /// Deliveries with this timeout are sent now, on the channel or session with this number.
    #[inline]
    pub fn sent(&mut self, timeout: Nanos, now: Nanos, number: u16, looks: &mut Looks) {
        if now.saturating_add(timeout / 2) < self.at || timeout < self.shortest {
            self.shortest = self.shortest.min(timeout);
            self.not_after(now.saturating_add(timeout / 2), number, looks);
        }
    }

    fn not_after(&mut self, at: Nanos, number: u16, looks: &mut Looks) {
        let at = at.max(self.earliest);
        if at < self.at && at < NEVER {
            looks.0.remove(&(self.at, number));
            looks.0.insert((at, number));
            self.at = at;
        }
    }

    /// Deliveries came back that were sent at any time.
    pub fn look_soon(&mut self, number: u16, looks: &mut Looks) {
        self.shortest = 0;
        self.not_after(0, number, looks);
    }

    /// The channel or session with this number ends: nothing is left to look at.
    pub fn forget(&mut self, number: u16, looks: &mut Looks) {
        looks.0.remove(&(self.at, number));
        self.at = Nanos::MAX;
    }

    /// A look begins that was popped, or goes on. Returns where.
    pub fn begin(&mut self) -> u64 {
        self.at = Nanos::MAX;
        self.from
    }

    /// A look that was popped has to wait.
    pub fn put_off(&mut self, now: Nanos, number: u16, looks: &mut Looks) {
        self.at = Nanos::MAX;
        self.not_after(now + PUT_OFF, number, looks);
    }

    /// A delivery needs a look at this time.
    pub fn want(&mut self, at: Nanos) {
        self.found = self.found.min(at);
    }

    /// Whether a delivery that was sent then, and all later ones, are too young for a look, which is noted.
    pub fn are_young(&mut self, sent: Nanos, now: Nanos) -> bool {
        let earliest = sent.saturating_add(self.shortest / 2);
        let are_young = earliest > now;
        if are_young {
            self.want(earliest);
        }
        are_young
    }

    /// A look ends; or, since the turn's work is used up, it goes on `from` there in the next turn.
    pub fn end(&mut self, from: Option<u64>, now: Nanos, number: u16, looks: &mut Looks) {
        self.from = from.unwrap_or(0);
        if from.is_some() {
            return self.not_after(now, number, looks);
        }
        self.earliest = now + LOOKS_APART;
        match std::mem::replace(&mut self.found, Nanos::MAX) {
            Nanos::MAX => self.shortest = Nanos::MAX,
            found => self.not_after(found, number, looks),
        }
    }
}

/// The age of a delivery, compared with its timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Age {
    /// Less than half of the timeout, which it reaches at this time.
    Young(Nanos),
    /// At least half of the timeout, which ends at this time.
    Half(Nanos),
    /// The timeout is over.
    Over,
}

impl Age {
    /// The age of a delivery that was sent at this time.
    pub fn of(sent: Nanos, timeout: Nanos, now: Nanos) -> Self {
        let (half, end) = (sent.saturating_add(timeout / 2), sent.saturating_add(timeout));
        match now {
            _ if now >= end => Self::Over,
            _ if now >= half => Self::Half(end),
            _ => Self::Young(half),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_wakes_for_half_of_the_shortest_timeout() {
        let (mut looks, mut next) = (Looks::default(), NextLook::default());
        next.sent(Nanos::MAX, 7, 1, &mut looks);
        assert_eq!(looks.next(), None, "never");
        next.sent(1_000_000_000, 7, 1, &mut looks);
        assert_eq!(looks.next(), Some(500_000_007));
        next.sent(1_000_000_000, 9, 1, &mut looks);
        assert_eq!(looks.next(), Some(500_000_007), "later deliveries change nothing");
        next.sent(100_000_000, 9, 1, &mut looks);
        assert_eq!(looks.next(), Some(50_000_009));
        assert_eq!(looks.pop_due(50_000_008), None);
        assert_eq!(looks.pop_due(50_000_009), Some(1));
        assert_eq!(looks.next(), None, "a channel has one look at a time");
        assert_eq!(next.begin(), 0);
        next.want(0);
        next.end(None, 50_000_009, 1, &mut looks);
        assert_eq!(looks.next(), Some(50_000_009 + LOOKS_APART));
    }

    #[test]
    fn a_look_goes_on_in_the_next_turn() {
        let (mut looks, mut next) = (Looks::default(), NextLook::default());
        next.sent(100, 0, 1, &mut looks);
        assert_eq!(looks.pop_due(50), Some(1));
        assert_eq!(next.begin(), 0);
        next.want(90_000_000);
        next.end(Some(7), 50, 1, &mut looks);
        assert_eq!(looks.pop_due(50), Some(1), "at once");
        assert_eq!(next.begin(), 7);
        assert!(next.are_young(80_000_000, 60));
        next.end(None, 60, 1, &mut looks);
        assert_eq!(looks.next(), Some(80_000_050), "the earliest of both parts");
        assert_eq!(looks.pop_due(90_000_000), Some(1));
        next.begin();
        next.end(None, 90_000_000, 1, &mut looks);
        assert_eq!(looks.next(), None, "nothing is left to look at");
    }

    #[test]
    fn looks_are_apart_however_short_the_timeout_is() {
        let (mut looks, mut next) = (Looks::default(), NextLook::default());
        next.sent(0, 7, 1, &mut looks);
        for now in [7, 7 + LOOKS_APART, 7 + 2 * LOOKS_APART] {
            assert_eq!(looks.pop_due(now), Some(1));
            next.begin();
            next.end(None, now, 1, &mut looks);
            next.sent(0, now, 1, &mut looks);
            next.look_soon(1, &mut looks);
            assert_eq!(looks.next(), Some(now + LOOKS_APART));
        }
    }

    #[test]
    fn a_look_that_is_put_off_goes_on_where_it_was() {
        let (mut looks, mut next) = (Looks::default(), NextLook::default());
        next.sent(100, 0, 1, &mut looks);
        assert_eq!(looks.pop_due(50), Some(1));
        next.begin();
        next.end(Some(7), 50, 1, &mut looks);
        assert_eq!(looks.pop_due(50), Some(1));
        next.put_off(50, 1, &mut looks);
        assert_eq!(looks.pop_due(49 + PUT_OFF), None);
        assert_eq!(looks.pop_due(50 + PUT_OFF), Some(1));
        assert_eq!(next.begin(), 7);
    }

    #[test]
    fn a_channel_that_ends_leaves_no_look() {
        let mut looks = Looks::default();
        for now in 0..10 {
            let mut next = NextLook::default();
            next.sent(1_000_000_000, now, 1, &mut looks);
            next.forget(1, &mut looks);
        }
        assert_eq!(looks.next(), None);
    }

    #[test]
    fn a_delivery_is_over_at_its_timeout_and_not_before() {
        assert_eq!(Age::of(10, 100, 59), Age::Young(60));
        assert_eq!(Age::of(10, 100, 60), Age::Half(110));
        assert_eq!(Age::of(10, 100, 109), Age::Half(110));
        assert_eq!(Age::of(10, 100, 110), Age::Over);
        assert_eq!(Age::of(10, 0, 10), Age::Over);
    }
}
