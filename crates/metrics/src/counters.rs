use std::sync::atomic::{AtomicU64, Ordering};

/// A counter that only grows. Adding to it is a plain relaxed addition.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Counts one more.
    pub fn increment(&self) {
        self.add(1);
    }

    /// As [`increment`](Self::increment) by the exclusive owner, without the bus lock of an atomic addition.
    pub fn increment_alone(&mut self) {
        *self.0.get_mut() += 1;
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

            /// Adds what was counted since the last call to other counters; `passed_on` has the counts of that call. It
            /// is one pass, since each turn of a connection ends with it.
            pub fn pass_on(&self, passed_on: &mut Totals, to: &Counters, and_to: Option<&Counters>) {
                $(let count = self.$name.value();
                if count != passed_on.$name {
                    let news = count.wrapping_sub(passed_on.$name);
                    to.$name.add(news);
                    if let Some(counters) = and_to {
                        counters.$name.add(news);
                    }
                    passed_on.$name = count;
                })*
            }

            /// The counts so far.
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
    /// Messages sent to consumers that acknowledge.
    delivered_ack,
    /// Messages sent to consumers that don't.
    delivered_no_ack,
    /// Deliveries to consumers that don't acknowledge which were answers over direct reply-to, and so came out of no
    /// queue.
    delivered_replies,
    /// Messages fetched with basic.get, to be acknowledged.
    get_ack,
    /// Messages fetched with basic.get, not to be acknowledged.
    get_no_ack,
    /// basic.get that found nothing.
    get_empty,
    /// Messages acknowledged.
    acked,
    /// Messages delivered again.
    redelivered,
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

    /// Messages delivered in any way.
    pub fn delivered(&self) -> u64 {
        self.delivered_ack + self.delivered_no_ack + self.get_ack + self.get_no_ack
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn neighbours_share_no_cache_line() {
        assert_eq!(align_of::<Counters>(), 128);
    }
}
