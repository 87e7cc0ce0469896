use std::sync::atomic::{AtomicU64, Ordering};

/// A count that only grows. Adding to it is a plain relaxed addition.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Counts one more.
    pub fn increment(&self) {
        self.add(1);
    }

    /// As [`increment`](Self::increment) by the only one who has it, without the lock of the bus that an atomic addition
    /// takes.
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
        /// What one core counts. Each core has its own, two cache lines away from that of its neighbour, so
        /// that no two cores write to the same line.
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub struct Counters {
            $($(#[$doc])* pub $name: Counter,)*
        }

        impl Counters {
            /// Counts what was counted elsewhere.
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

        /// The sum of the [`Counters`] of all cores at about one moment.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Totals {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Totals {
            /// Adds what one core counted.
            pub fn add(&mut self, counters: &Counters) {
                $(self.$name += counters.$name.value();)*
            }

            /// What was counted since `earlier`.
            pub fn since(&self, earlier: &Totals) -> Totals {
                Totals { $($name: self.$name.wrapping_sub(earlier.$name),)* }
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
    /// Messages that went to at least one queue.
    routed,
    /// Copies of messages that went to queues.
    enqueued,
    /// Mandatory messages returned because no queue matched.
    unroutable_returned,
    /// Messages dropped because no queue matched.
    unroutable_dropped,
    /// Messages sent to consumers that acknowledge.
    delivered_ack,
    /// Messages sent to consumers that don't.
    delivered_no_ack,
    /// Of these, answers over direct reply-to, which come out of no queue.
    delivered_replies,
    /// Messages fetched with basic.get, to be acknowledged.
    get_ack,
    /// Messages fetched with basic.get, not to be acknowledged.
    get_no_ack,
    /// basic.get that found nothing.
    get_empty,
    /// Messages acknowledged.
    acked,
    /// Messages delivered that had been delivered before.
    redelivered,
    /// Connections that passed the handshake.
    connections_opened,
    /// Connections closed, of those.
    connections_closed,
    /// Channels opened.
    channels_opened,
    /// Channels closed.
    channels_closed,
    /// Channels that published for the first time, links attached to publish (AMQP 1.0).
    publishers_opened,
    /// Those of them that have gone.
    publishers_closed,
    /// Consumers of queues that began, receiving links included.
    consumers_opened,
    /// Those of them that have gone.
    consumers_closed,
    /// queue.declare that succeeded.
    queues_declared,
    /// Queues that didn't exist before.
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
