use std::future::Future;
use std::hint::black_box;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use leveret_broker::{Nanos, spare_capacity};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use tokio::time::{Sleep, sleep_until};

use super::wheel::Wheel;
use crate::clock::Clock;

/// The number that no alarm has: at this entry the allocator gets an occasion to return memory.
const OCCASION: u64 = 0;
/// Times of the occasions after thousands of connections have gone. Mimalloc returns free pages a second after they
/// became free, but only if it is called then, and the node may be idle by that time. The second occasion is for memory
/// that was freed later.
const OCCASIONS_NS: [Nanos; 2] = [1_500_000_000, 4_000_000_000];
/// Larger than the memory that mimalloc keeps pages for: freeing it makes mimalloc check what it can return. Nothing is
/// written there.
const OCCASION_BYTES: usize = 4 << 20;

/// The deadlines of one core's connections: one wheel and one timer of the runtime for all of them.
#[derive(Debug)]
pub(crate) struct Timers {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Deadlines, by the numbers of alarms.
    wheel: Wheel<u64>,
    /// The wakers of alarms, by number.
    sleepers: FxHashMap<u64, Waker>,
    next: u64,
    driver: Option<Waker>,
    /// Many alarms were dropped since the driver last checked.
    flood_is_over: bool,
    /// An occasion is in the wheel that a connection asked for.
    has_occasion: bool,
}

/// The alarm that wakes one task at its deadlines, and is dropped with it.
///
/// A waker owns the memory of its task, even after that has ended. With wakers in the wheel, thousands of closed
/// connections would keep their memory until each deadline that they ever had. So the wheel only has the alarms'
/// numbers.
#[derive(Debug)]
pub(crate) struct Alarm {
    timers: Arc<Timers>,
    number: u64,
}

impl Timers {
    pub(crate) fn new() -> Self {
        let state = State {
            wheel: Wheel::new(),
            sleepers: FxHashMap::default(),
            next: OCCASION,
            driver: None,
            flood_is_over: false,
            has_occasion: false,
        };
        Self { state: Mutex::new(state) }
    }

    /// An alarm that is not armed yet.
    pub(crate) fn alarm(self: &Arc<Self>) -> Alarm {
        let mut state = self.state.lock();
        state.next += 1;
        Alarm { number: state.next, timers: self.clone() }
    }

    /// Gives the allocator an occasion to return memory soon: a connection freed much at once.
    pub(crate) fn free_soon(&self, now: Nanos) {
        let driver = {
            let mut state = self.state.lock();
            if std::mem::replace(&mut state.has_occasion, true) {
                return;
            }
            state.wheel.insert(now + OCCASIONS_NS[0], OCCASION);
            state.driver.clone()
        };
        driver.into_iter().for_each(Waker::wake);
    }

    /// Fires alarms that are due. Returns the time of the next slot, for the driver `waker`.
    fn fire(&self, now: Nanos, driver: &Waker) -> Option<Nanos> {
        let mut due = Vec::new();
        let (sleepers, next): (Vec<Waker>, _) = {
            let mut state = self.state.lock();
            if std::mem::take(&mut state.flood_is_over) {
                for after in OCCASIONS_NS {
                    state.wheel.insert(now + after, OCCASION);
                }
            }
            state.wheel.expire(now, &mut due);
            state.has_occasion &= !due.contains(&OCCASION);
            if !state.driver.as_ref().is_some_and(|d| d.will_wake(driver)) {
                state.driver = Some(driver.clone());
            }
            let sleepers = due.iter().filter_map(|number| state.sleepers.get(number).cloned()).collect();
            (sleepers, state.wheel.next_due())
        };
        sleepers.into_iter().for_each(Waker::wake);
        if due.contains(&OCCASION) {
            drop(black_box(Vec::<u8>::with_capacity(OCCASION_BYTES)));
        }
        next
    }
}

impl State {
    /// Frees memory after most alarms were dropped: their entries in the wheel lie among memory of the tasks that
    /// ended. Returns the driver's waker if it has to check.
    fn end_flood(&mut self) -> Option<Waker> {
        let Self { wheel, sleepers, .. } = self;
        wheel.retain(|number| *number == OCCASION || sleepers.contains_key(number));
        self.flood_is_over = true;
        self.driver.clone()
    }
}

impl Alarm {
    /// Wakes `waker` at `deadline` or up to a tenth of a second later. Earlier deadlines stay, but wake this waker too.
    pub(crate) fn arm(&self, deadline: Nanos, waker: &Waker) {
        let driver = {
            let mut state = self.timers.state.lock();
            state.sleepers.entry(self.number).or_insert_with(|| waker.clone()).clone_from(waker);
            if !state.wheel.insert(deadline, self.number) {
                return;
            }
            state.driver.clone()
        };
        if let Some(driver) = driver {
            driver.wake();
        }
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        let (sleeper, driver) = {
            let mut state = self.timers.state.lock();
            let sleeper = state.sleepers.remove(&self.number);
            (sleeper, if spare_capacity::give_back(&mut state.sleepers) { state.end_flood() } else { None })
        };
        // It may be the last reference to a task.
        drop(sleeper);
        if let Some(driver) = driver {
            driver.wake();
        }
    }
}

/// Runs the wheel of a core: sleeps until the next slot that has entries, or indefinitely if none has.
pub(crate) struct Driver {
    timers: Arc<Timers>,
    clock: Clock,
    sleep: Option<(Nanos, Pin<Box<Sleep>>)>,
}

impl Driver {
    pub(crate) fn new(timers: Arc<Timers>, clock: Clock) -> Self {
        Self { timers, clock, sleep: None }
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let driver = &mut *self;
        loop {
            let Some(next) = driver.timers.fire(driver.clock.monotonic(), cx.waker()) else {
                driver.sleep = None;
                return Poll::Pending;
            };
            if driver.sleep.as_ref().is_none_or(|(at, _)| *at != next) {
                driver.sleep = Some((next, Box::pin(sleep_until(driver.clock.instant(next).into()))));
            }
            match driver.sleep.as_mut().map(|(_, sleep)| sleep.as_mut().poll(cx)) {
                Some(Poll::Ready(())) => driver.sleep = None,
                _ => return Poll::Pending,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::Notify;

    use super::*;

    struct Notifies(Notify);

    impl std::task::Wake for Notifies {
        fn wake(self: Arc<Self>) {
            self.0.notify_one();
        }
    }

    #[tokio::test]
    async fn a_deadline_that_was_armed_while_the_driver_slept_fires() {
        let (clock, timers) = (Clock::start(), Arc::new(Timers::new()));
        let driver = tokio::spawn(Driver::new(timers.clone(), clock.clone()));
        let far = Arc::new(Notifies(Notify::new()));
        let (later, soon) = (timers.alarm(), timers.alarm());
        later.arm(3_600_000_000_000, &far.clone().into());
        tokio::task::yield_now().await;
        let near = Arc::new(Notifies(Notify::new()));
        soon.arm(200_000_000, &near.clone().into());
        near.0.notified().await;
        assert!(clock.monotonic() >= 200_000_000);
        driver.abort();
    }

    #[test]
    fn nothing_of_a_task_is_kept_when_its_alarm_is_gone() {
        let timers = Arc::new(Timers::new());
        let task = Arc::new(Notifies(Notify::new()));
        let alarm = timers.alarm();
        for deadline in [60_000_000_000, 10_000_000_000, 10_000_000_000] {
            alarm.arm(deadline, &task.clone().into());
        }
        assert_eq!(Arc::strong_count(&task), 2, "once, however often it was armed");
        drop(alarm);
        assert_eq!(Arc::strong_count(&task), 1);
        timers.fire(60_000_000_000, Waker::noop());
        assert_eq!(timers.state.lock().wheel.next_due(), None);
    }

    #[test]
    fn many_alarms_dropped_together_free_their_memory() {
        let timers = Arc::new(Timers::new());
        let alarms: Vec<_> = (0..10_000).map(|_| timers.alarm()).collect();
        alarms.iter().for_each(|alarm| alarm.arm(60_000_000_000, Waker::noop()));
        assert!(timers.state.lock().sleepers.capacity() >= 10_000);
        drop(alarms);
        assert!(timers.state.lock().sleepers.capacity() <= spare_capacity::ROOM_KEPT);
        assert!(
            timers.state.lock().wheel.len() <= spare_capacity::ROOM_KEPT,
            "deadlines of those that are gone are gone, too"
        );
        // Then the allocator gets its occasions.
        let driver = Waker::noop();
        assert_eq!(timers.fire(0, driver), Some(OCCASIONS_NS[0]));
        assert_eq!(timers.fire(OCCASIONS_NS[0], driver), Some(OCCASIONS_NS[1]));
        assert!(timers.fire(OCCASIONS_NS[1], driver).is_none_or(|next| next > OCCASIONS_NS[1] * 2));
    }
}
