use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// A counter that only grows. Adding to it is a plain relaxed addition.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Counts one more.
    pub fn increment(&self) {
        self.add(1);
    }

    /// Counts `n` more.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// The count so far.
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A counter of news: of what wasn't added to shared counters yet. Adding to it takes no bus lock.
#[derive(Debug, Default)]
pub struct LocalCounter(Cell<u64>);

impl LocalCounter {
    /// Counts one more.
    pub fn increment(&self) {
        self.add(1);
    }

    /// Counts `n` more.
    pub fn add(&self, n: u64) {
        self.0.set(self.0.get() + n);
    }

    /// The count so far.
    pub fn value(&self) -> u64 {
        self.0.get()
    }
}

/// Passes on the counters with these names, eight at a time: most have no news.
macro_rules! pass_on {
    ($news:ident, $totals:ident, $to:ident, $and_to:ident;) => {};
    ($news:ident, $totals:ident, $to:ident, $and_to:ident;
     $a:ident, $b:ident, $c:ident, $d:ident, $e:ident, $f:ident, $g:ident, $h:ident, $($rest:ident,)*) => {
        if (($news.$a.value() | $news.$b.value()) | ($news.$c.value() | $news.$d.value()))
            | (($news.$e.value() | $news.$f.value()) | ($news.$g.value() | $news.$h.value())) != 0
        {
            pass_on!(each $news, $totals, $to, $and_to; $a, $b, $c, $d, $e, $f, $g, $h,);
        }
        pass_on!($news, $totals, $to, $and_to; $($rest,)*);
    };
    ($news:ident, $totals:ident, $to:ident, $and_to:ident; $($few:ident,)+) => {
        pass_on!(each $news, $totals, $to, $and_to; $($few,)+);
    };
    (each $news:ident, $totals:ident, $to:ident, $and_to:ident; $($name:ident,)*) => {
        $(let count = $news.$name.0.take();
        if count > 0 {
            $totals.$name += count;
            $to.$name.add(count);
            if let Some(counters) = $and_to {
                counters.$name.add(count);
            }
        })*
    };
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The counters of one core. Counters of different cores are two cache lines apart, so that no two cores write
        /// to the same line (false sharing).
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub struct Counters {
            $($(#[$doc])* pub $name: Counter,)*
        }

        impl Counters {
            /// Adds counts that were kept elsewhere.
            pub fn add(&self, totals: &Totals) {
                $(if totals.$name > 0 {
                    self.$name.add(totals.$name);
                })*
            }

            /// The counts so far.
            pub fn totals(&self) -> Totals {
                Totals { $($name: self.$name.value(),)* }
            }
        }

        /// News of one owner, such as a connection.
        #[derive(Debug, Default)]
        pub struct LocalCounters {
            $($(#[$doc])* pub $name: LocalCounter,)*
        }

        impl LocalCounters {
            /// Adds the news to `totals` and to shared counters, and forgets them. Each turn of a connection ends with it.
            pub fn pass_on(&self, totals: &mut Totals, to: &Counters, and_to: Option<&Counters>) {
                pass_on!(self, totals, to, and_to; $($name,)*);
            }

            /// The news so far.
            pub fn totals(&self) -> Totals {
                Totals { $($name: self.$name.value(),)* }
            }
        }

        /// The sum of the [`Counters`] of all cores, read at about the same moment.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Totals {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Totals {
            /// Adds the counters of one core.
            pub fn add(&mut self, counters: &Counters) {
                $(self.$name += counters.$name.value();)*
            }

            /// The sum of both.
            pub fn plus(&self, other: &Totals) -> Totals {
                Totals { $($name: self.$name + other.$name,)* }
            }
        }
    };
}

counters! {
    /// Messages received from publishers.
    published,
    /// Messages received from publishers that asked for confirms.
    published_with_confirm,
    /// Messages confirmed to their publishers.
    confirmed,
    /// Messages routed to at least one queue.
    routed,
    /// Copies of messages routed to queues.
    enqueued,
    /// Mandatory messages returned because no queue matched.
    unroutable_returned,
    /// Messages dropped because no queue matched.
    unroutable_dropped,
    /// Messages of classic queues sent to consumers that acknowledge.
    delivered_ack,
    /// Messages of classic queues sent to consumers that don't.
    delivered_no_ack,
    /// Answers over direct reply-to, which come out of no queue, sent to consumers that don't acknowledge.
    delivered_replies,
    /// Messages fetched from classic queues with basic.get, to be acknowledged.
    get_ack,
    /// Messages fetched from classic queues with basic.get, not to be acknowledged.
    get_no_ack,
    /// basic.get that found nothing in classic queues.
    get_empty,
    /// Messages of classic queues acknowledged.
    acked,
    /// Messages of classic queues delivered again.
    redelivered,
    /// [`Totals::delivered_ack`] of quorum queues.
    quorum_delivered_ack,
    /// [`Totals::delivered_no_ack`] of quorum queues.
    quorum_delivered_no_ack,
    /// [`Totals::get_ack`] of quorum queues.
    quorum_get_ack,
    /// [`Totals::get_no_ack`] of quorum queues.
    quorum_get_no_ack,
    /// [`Totals::get_empty`] of quorum queues.
    quorum_get_empty,
    /// [`Totals::acked`] of quorum queues.
    quorum_acked,
    /// [`Totals::redelivered`] of quorum queues.
    quorum_redelivered,
    /// [`Totals::delivered_ack`] of streams.
    stream_delivered_ack,
    /// [`Totals::delivered_no_ack`] of streams.
    stream_delivered_no_ack,
    /// [`Totals::acked`] of streams.
    stream_acked,
    /// Connections that passed the handshake.
    connections_opened,
    /// Closed connections among them.
    connections_closed,
    /// Channels opened.
    channels_opened,
    /// Channels closed.
    channels_closed,
    /// Publishers: channels that published for the first time, and links attached to publish (AMQP 1.0).
    publishers_opened,
    /// Publishers that have gone.
    publishers_closed,
    /// Consumers of queues, receiving links included.
    consumers_opened,
    /// Consumers that have gone.
    consumers_closed,
    /// Successful queue.declare.
    queues_declared,
    /// Queues created by them.
    queues_created,
    /// Queues deleted.
    queues_deleted,
    /// Logins tried.
    auth_attempts,
    /// Logins that succeeded.
    auth_succeeded,
    /// Logins that failed.
    auth_failed,
    /// Bytes read from sockets.
    bytes_in,
    /// Bytes written to sockets.
    bytes_out,
    /// Reads from sockets.
    reads,
    /// Writes to sockets.
    writes,
}

impl Totals {
    /// The sum over these cores.
    pub fn of<'a>(cores: impl IntoIterator<Item = &'a Counters>) -> Self {
        let mut totals = Totals::default();
        for counters in cores {
            totals.add(counters);
        }
        totals
    }

    /// Messages delivered in any way out of quorum queues.
    pub fn quorum_delivered(&self) -> u64 {
        self.quorum_delivered_ack + self.quorum_delivered_no_ack + self.quorum_get_ack + self.quorum_get_no_ack
    }

    /// Messages delivered in any way out of classic queues.
    pub fn classic_delivered(&self) -> u64 {
        self.delivered_ack + self.delivered_no_ack + self.get_ack + self.get_no_ack
    }

    /// Messages delivered out of streams.
    pub fn stream_delivered(&self) -> u64 {
        self.stream_delivered_ack + self.stream_delivered_no_ack
    }

    /// Messages delivered in any way.
    pub fn delivered(&self) -> u64 {
        self.classic_delivered() + self.quorum_delivered() + self.stream_delivered() + self.delivered_replies
    }

    /// Messages of all queues sent to consumers that acknowledge.
    pub fn all_delivered_ack(&self) -> u64 {
        self.delivered_ack + self.quorum_delivered_ack + self.stream_delivered_ack
    }

    /// Messages of all queues, and answers over direct reply-to, sent to consumers that don't acknowledge.
    pub fn all_delivered_no_ack(&self) -> u64 {
        self.queues_delivered_no_ack() + self.delivered_replies
    }

    /// Messages of all queues sent to consumers that don't acknowledge.
    pub fn queues_delivered_no_ack(&self) -> u64 {
        self.delivered_no_ack + self.quorum_delivered_no_ack + self.stream_delivered_no_ack
    }

    /// Messages fetched from all queues with basic.get, to be acknowledged.
    pub fn all_get_ack(&self) -> u64 {
        self.get_ack + self.quorum_get_ack
    }

    /// Messages fetched from all queues with basic.get, not to be acknowledged.
    pub fn all_get_no_ack(&self) -> u64 {
        self.get_no_ack + self.quorum_get_no_ack
    }

    /// basic.get that found nothing in any queue.
    pub fn all_get_empty(&self) -> u64 {
        self.get_empty + self.quorum_get_empty
    }

    /// Messages of all queues acknowledged.
    pub fn all_acked(&self) -> u64 {
        self.acked + self.quorum_acked + self.stream_acked
    }

    /// Messages of all queues delivered again.
    pub fn all_redelivered(&self) -> u64 {
        self.redelivered + self.quorum_redelivered
    }
}

/// The type of the queue that something is counted of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountedQueue {
    /// A classic queue.
    Classic,
    /// A quorum queue.
    Quorum,
    /// A stream.
    Stream,
}

/// Counters by the type of the queue. Each type has its own: as the difference of two counters that other cores add to, a count
/// could go down. A stream gives out nothing to basic.get and delivers nothing again.
impl LocalCounters {
    /// Messages sent to consumers.
    #[inline]
    pub fn delivered_of(&self, queue: CountedQueue, no_ack: bool) -> &LocalCounter {
        match (queue, no_ack) {
            (CountedQueue::Classic, false) => &self.delivered_ack,
            (CountedQueue::Classic, true) => &self.delivered_no_ack,
            (CountedQueue::Quorum, false) => &self.quorum_delivered_ack,
            (CountedQueue::Quorum, true) => &self.quorum_delivered_no_ack,
            (CountedQueue::Stream, false) => &self.stream_delivered_ack,
            (CountedQueue::Stream, true) => &self.stream_delivered_no_ack,
        }
    }

    /// Messages fetched with basic.get.
    pub fn get_of(&self, quorum: bool, no_ack: bool) -> &LocalCounter {
        match (quorum, no_ack) {
            (false, false) => &self.get_ack,
            (false, true) => &self.get_no_ack,
            (true, false) => &self.quorum_get_ack,
            (true, true) => &self.quorum_get_no_ack,
        }
    }

    /// basic.get that found nothing.
    pub fn get_empty_of(&self, quorum: bool) -> &LocalCounter {
        if quorum { &self.quorum_get_empty } else { &self.get_empty }
    }

    /// Messages acknowledged.
    #[inline]
    pub fn acked_of(&self, queue: CountedQueue) -> &LocalCounter {
        match queue {
            CountedQueue::Classic => &self.acked,
            CountedQueue::Quorum => &self.quorum_acked,
            CountedQueue::Stream => &self.stream_acked,
        }
    }

    /// Messages delivered again.
    pub fn redelivered_of(&self, quorum: bool) -> &LocalCounter {
        if quorum { &self.quorum_redelivered } else { &self.redelivered }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn news_are_passed_on_once_wherever_they_stand() {
        let (news, core, vhost) = (LocalCounters::default(), Counters::default(), Counters::default());
        let mut totals = Totals::default();
        // The first of the list, one in its middle, and the last.
        news.published.add(2);
        news.connections_closed.increment();
        news.writes.add(3);
        news.pass_on(&mut totals, &core, Some(&vhost));
        news.pass_on(&mut totals, &core, None);
        let expected = Totals { published: 2, connections_closed: 1, writes: 3, ..Totals::default() };
        assert_eq!([totals, core.totals(), vhost.totals()], [expected; 3]);
        assert_eq!(news.totals(), Totals::default());
    }

    #[test]
    fn totals_are_the_sum_of_the_cores() {
        let cores = [Counters::default(), Counters::default()];
        cores[0].published.add(5);
        cores[1].published.increment();
        cores[1].acked.add(2);
        let totals = Totals::of(&cores);
        assert_eq!((totals.published, totals.acked, totals.confirmed), (6, 2, 0));
    }

    #[test]
    fn each_type_of_queue_has_its_own_counts_and_all_are_summed() {
        let news = LocalCounters::default();
        for (queue, count) in [(CountedQueue::Classic, 1), (CountedQueue::Quorum, 10), (CountedQueue::Stream, 100)] {
            news.delivered_of(queue, false).add(count);
            news.delivered_of(queue, true).add(2 * count);
            news.acked_of(queue).add(3 * count);
        }
        let totals = news.totals();
        assert_eq!((totals.classic_delivered(), totals.quorum_delivered(), totals.stream_delivered()), (3, 30, 300));
        assert_eq!((totals.acked, totals.quorum_acked, totals.stream_acked), (3, 30, 300));
        assert_eq!((totals.all_delivered_ack(), totals.all_delivered_no_ack(), totals.all_acked()), (111, 222, 333));
        assert_eq!(totals.delivered(), 333);
    }

    #[test]
    fn neighbours_share_no_cache_line() {
        assert_eq!(align_of::<Counters>(), 128);
    }
}
