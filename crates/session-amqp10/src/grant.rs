//! The link credit that is granted to a sending client (specification 2.6.7).
//!
//! RabbitMQ's rule: credit is granted when the remaining credit is at most half of the limit and fewer messages than
//! the limit are unconfirmed; no more than one and a half times the limit are ever on their way. The limit starts at
//! `max_link_credit`. With adaptive credit it follows the number of messages that the link needs on their way, see
//! [`CreditLoop`], up to a maximum of unconfirmed messages and bytes. It is halved when confirms don't keep pace with the
//! disk. While the oldest message is late, the starting grant applies.

use leveret_amqp10::Serial;

use super::credit_loop::{Confirmed, CreditLoop};
use leveret_broker::settings::LinkCredit;
use leveret_broker::time::Nanos;

/// Number of syncs that confirms may take and still keep pace: one may be under way when the message comes, and the
/// next one includes it.
const SYNCS_IN_PACE: u64 = 3;
/// Allowance for the way through the queues, in addition to the disk.
const SLACK: Nanos = 2_000_000;

/// Whether the confirms of a link keep pace with the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    Kept,
    Lost,
}

impl Pace {
    /// The pace of a message that has waited for `took`; a sync takes about `sync`.
    pub(crate) fn of(took: Nanos, sync: Nanos) -> Self {
        if took > SYNCS_IN_PACE * sync + SLACK { Self::Lost } else { Self::Kept }
    }
}

/// The credit of one link.
#[derive(Debug)]
pub(crate) struct Grant {
    rule: LinkCredit,
    limit: u32,
    credit: u32,
    delivery_count: Serial,
    /// Moving average of the bytes of a message, over about eight messages, times eight.
    mean_bytes_8: u64,
    /// More is granted, or a turnaround measured, once no more than this credit is left.
    looks_at: u32,
    turns: CreditLoop,
    /// The next grant is as small as the first one, so that the turnaround is measured.
    is_probing: bool,
}

impl Grant {
    /// The first grant of a link whose sender begins at `delivery_count`.
    pub(crate) fn new(rule: LinkCredit, delivery_count: Serial) -> Self {
        let (limit, credit, looks_at) = (rule.start, rule.start, rule.start / 2);
        let turns = CreditLoop::default();
        Self { rule, limit, credit, delivery_count, mean_bytes_8: 0, looks_at, turns, is_probing: false }
    }

    /// Number of messages that the client may still send.
    pub(crate) fn credit(&self) -> u32 {
        self.credit
    }

    /// The number of messages that are granted at once at most.
    #[cfg(test)]
    pub(crate) fn limit(&self) -> u32 {
        self.limit
    }

    /// The sender's delivery-count as we know it.
    pub(crate) fn delivery_count(&self) -> Serial {
        self.delivery_count
    }

    /// Counts a delivery that the client began. False if it had no credit for it.
    #[must_use]
    pub(crate) fn begin_delivery(&mut self) -> bool {
        if self.credit == 0 {
            return false;
        }
        self.credit -= 1;
        self.delivery_count.advance();
        true
    }

    /// Counts a whole message of this many bytes.
    pub(crate) fn received(&mut self, bytes: u64) {
        self.mean_bytes_8 =
            if self.mean_bytes_8 == 0 { bytes * 8 } else { self.mean_bytes_8 - self.mean_bytes_8 / 8 + bytes };
    }

    /// Whether so much credit is left that [`top_up`](Self::top_up) grants nothing at any pace, and no turnaround ends. The
    /// limit is never below the starting grant, which is the limit of a lost pace.
    #[inline]
    pub(crate) fn is_ample(&self) -> bool {
        self.credit > self.looks_at
    }

    /// Notes that a message came for which [`is_ample`](Self::is_ample) was false.
    pub(crate) fn came(&mut self, now: Nanos) {
        if self.rule.adaptive {
            self.turns.came(self.delivery_count, now);
            self.is_probing = self.turns.is_outdated(now);
        }
        self.look_again();
    }

    /// Grants more if the rule allows; `pace` is that of the oldest of the `unconfirmed`. If the link's queue paces its
    /// publishers, no more than `burst` messages get credit at once, although as many as usual may be on their way to the
    /// disk. True if the client has to be sent a flow.
    #[must_use]
    pub(crate) fn top_up(&mut self, unconfirmed: u32, pace: Pace, burst: u32, now: Nanos) -> bool {
        let limit = self.limit_at(pace);
        let credit_max = limit.min(burst);
        if self.is_held_back(limit, credit_max, unconfirmed) {
            return false;
        }
        // The client has its old credit still, and uses it first.
        let first = self.delivery_count.add(self.credit);
        let more = self.give(limit, credit_max, unconfirmed);
        if more && self.rule.adaptive {
            self.turns.granted(first, now);
            self.look_again();
        }
        more
    }

    /// Like [`top_up`](Self::top_up), on a link whose credit isn't adaptive and whose messages never wait for the disk.
    #[must_use]
    pub(crate) fn top_up_fixed(&mut self, unanswered: u32) -> bool {
        self.top_up(unanswered, Pace::Kept, u32::MAX, 0)
    }

    fn look_again(&mut self) {
        let left = self.turns.left(self.delivery_count).unwrap_or(u32::MAX);
        self.looks_at = self.credit.saturating_sub(left).max(self.limit / 2);
    }

    fn limit_at(&self, pace: Pace) -> u32 {
        match pace {
            Pace::Kept if !self.is_probing => self.limit,
            _ => self.rule.start,
        }
    }

    /// Whether nothing is granted now.
    fn is_held_back(&self, limit: u32, credit_max: u32, unconfirmed: u32) -> bool {
        if self.credit > credit_max / 2 {
            return true;
        }
        let is_full = unconfirmed >= limit || unconfirmed + self.credit >= self.on_their_way_max(limit);
        // If no message is on its way whose confirm could bring the next grant, one message is always allowed.
        is_full && (unconfirmed > 0 || self.credit > 0)
    }

    fn give(&mut self, limit: u32, credit_max: u32, unconfirmed: u32) -> bool {
        let credit = credit_max.min(self.on_their_way_max(limit).saturating_sub(unconfirmed)).max(1);
        let more = credit > self.credit;
        self.credit = self.credit.max(credit);
        more
    }

    /// Number of messages that may be granted or unconfirmed together.
    fn on_their_way_max(&self, limit: u32) -> u32 {
        let most = limit + limit / 2;
        if !self.rule.adaptive {
            return most;
        }
        let by_bytes = (self.rule.unconfirmed_bytes_max * 8).checked_div(self.mean_bytes_8).unwrap_or(u64::MAX);
        let by_bytes = u32::try_from(by_bytes.max(1)).unwrap_or(u32::MAX);
        most.min(self.rule.unconfirmed_messages_max).min(by_bytes)
    }

    /// Notes confirmed messages; a sync takes about `sync`.
    pub(crate) fn confirmed(&mut self, confirmed: Confirmed, sync: Nanos, now: Nanos) {
        if !self.rule.adaptive {
            return;
        }
        let needed = self.turns.confirmed(confirmed, now);
        if Pace::of(confirmed.took, sync) == Pace::Lost {
            self.limit = (self.limit / 2).max(self.rule.start);
        } else if let Some(needed) = needed {
            let (least, most) = (self.limit - self.limit / 8, self.limit.saturating_mul(2));
            let most = most.min(self.rule.unconfirmed_messages_max).max(self.rule.start);
            self.limit = needed.clamp(least.max(self.rule.start), most);
        }
        self.look_again();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RABBITMQ: LinkCredit =
        LinkCredit { start: 170, adaptive: false, unconfirmed_messages_max: 5000, unconfirmed_bytes_max: 1 << 20 };
    const ADAPTIVE: LinkCredit = LinkCredit { adaptive: true, ..RABBITMQ };

    const MS: Nanos = 1_000_000;

    /// Messages that came long ago, so that no round ends.
    fn confirmed(count: u32, took: Nanos) -> Confirmed {
        Confirmed { count, took, newest: 0 }
    }

    fn send(grant: &mut Grant, count: u32, bytes: u64) {
        for _ in 0..count {
            assert!(grant.begin_delivery());
            grant.received(bytes);
        }
    }

    #[test]
    fn rabbitmqs_rule() {
        let mut grant = Grant::new(RABBITMQ, Serial(u32::MAX));
        send(&mut grant, 84, 12);
        assert!(!grant.top_up(84, Pace::Kept, u32::MAX, 1), "more than half is left");
        send(&mut grant, 1, 12);
        assert!(grant.top_up(85, Pace::Kept, u32::MAX, 1));
        assert_eq!(grant.credit(), 170);
        send(&mut grant, 170, 12);
        assert!(!grant.top_up(255, Pace::Kept, u32::MAX, 1), "one and a half times the limit is on its way");
        assert!(!grant.begin_delivery());
        assert!(!grant.top_up(170, Pace::Kept, u32::MAX, 1));
        assert!(grant.top_up(169, Pace::Kept, u32::MAX, 1));
        assert_eq!(grant.credit(), 86, "never more than 255 on their way");
        assert_eq!(grant.delivery_count(), Serial(254));
        for round in 1..100 {
            grant.confirmed(confirmed(1000, MS), MS, round * MS);
        }
        assert_eq!(grant.limit, 170);
    }

    #[test]
    fn credit_is_halved_when_confirms_are_late() {
        let mut grant = Grant { limit: 4000, ..Grant::new(ADAPTIVE, Serial(0)) };
        let sync = 5 * MS;
        grant.confirmed(confirmed(170, 18 * MS), sync, MS);
        assert_eq!(grant.limit, 2000);
        for _ in 0..10 {
            grant.confirmed(confirmed(170, 18 * MS), sync, MS);
        }
        assert_eq!(grant.limit, 170, "never below the starting grant");
    }

    /// A stalled disk confirms nothing, so the credit has to shrink without a confirm.
    #[test]
    fn credit_shrinks_while_the_oldest_message_is_late() {
        let mut grant = Grant { limit: 4000, credit: 2000, ..Grant::new(ADAPTIVE, Serial(0)) };
        assert!(!grant.top_up(1000, Pace::Lost, u32::MAX, 1));
        send(&mut grant, 1990, 12);
        assert!(!grant.top_up(2990, Pace::Lost, u32::MAX, 1));
        send(&mut grant, 10, 12);
        assert!(!grant.top_up(170, Pace::Lost, u32::MAX, 1), "no more than the starting grant waits");
        assert!(grant.top_up(100, Pace::Lost, u32::MAX, 1));
        assert_eq!(grant.credit(), 155, "one and a half times the starting grant is on its way");
        send(&mut grant, 100, 12);
        assert!(grant.top_up(200, Pace::Kept, u32::MAX, 1));
        assert_eq!(grant.credit(), 4000);
    }

    #[test]
    fn nothing_is_granted_while_credit_is_ample() {
        for rule in [RABBITMQ, ADAPTIVE] {
            for (limit, credit) in [(170, 85), (170, 86), (170, 170), (4000, 86), (4000, 2000), (4000, 2001)] {
                for (unconfirmed, pace) in [(0, Pace::Kept), (0, Pace::Lost), (5000, Pace::Kept), (5000, Pace::Lost)] {
                    let mut grant = Grant { limit, credit, ..Grant::new(rule, Serial(0)) };
                    grant.came(1);
                    let is_ample = grant.is_ample();
                    assert!(
                        !(is_ample && grant.top_up(unconfirmed, pace, u32::MAX, 1)),
                        "{credit} of {limit}, {unconfirmed}"
                    );
                    assert!(!is_ample || grant.credit() == credit);
                }
            }
        }
        assert!(Grant::new(RABBITMQ, Serial(0)).is_ample());
    }

    #[test]
    fn bytes_have_a_ceiling() {
        let mut grant = Grant::new(ADAPTIVE, Serial(0));
        send(&mut grant, 100, 64 << 10);
        assert!(!grant.top_up(100, Pace::Kept, u32::MAX, 1));
        assert!(!grant.top_up(16, Pace::Kept, u32::MAX, 1));
        let mut grant = Grant { credit: 0, ..grant };
        assert!(grant.top_up(10, Pace::Kept, u32::MAX, 1));
        assert_eq!(grant.credit(), 6, "sixteen messages of 64 KiB are one MiB");
        let mut grant = Grant { credit: 0, mean_bytes_8: 8 * (16 << 20), ..grant };
        assert!(grant.top_up(0, Pace::Kept, u32::MAX, 1), "one message always may");
        assert_eq!(grant.credit(), 1);
    }
}
