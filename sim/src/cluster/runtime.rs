//! The runtime that the engine of placements runs on in the simulation.

use std::future::Future;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use leveret_cluster::runtime::{AsyncRuntime, Instant, Oneshot as _, OneshotSender as _};
use rand::SeedableRng;
use rand::rngs::SmallRng;

use super::channels::{Mpsc, Mutex, OnceReceiver, Oneshot, Watch};
use super::executor::{self, Sleep};

/// The runtime.
#[derive(Debug)]
pub(super) struct SimRuntime;

/// A moment of the simulated time, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Moment(u64);

impl Instant for Moment {
    fn now() -> Moment {
        Moment(executor::now())
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl Add<Duration> for Moment {
    type Output = Moment;

    fn add(self, duration: Duration) -> Moment {
        Moment(self.0.saturating_add(nanos(duration)))
    }
}

impl AddAssign<Duration> for Moment {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub<Duration> for Moment {
    type Output = Moment;

    fn sub(self, duration: Duration) -> Moment {
        Moment(self.0.saturating_sub(nanos(duration)))
    }
}

impl SubAssign<Duration> for Moment {
    fn sub_assign(&mut self, duration: Duration) {
        *self = *self - duration;
    }
}

impl Sub for Moment {
    type Output = Duration;

    fn sub(self, earlier: Moment) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// A task whose result is waited for.
pub(super) struct Handle<T>(OnceReceiver<T>);

/// A task was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Killed;

impl std::fmt::Display for Killed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the task was killed")
    }
}

impl<T> Future for Handle<T> {
    type Output = Result<T, Killed>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context).map(|result| result.map_err(|_| Killed))
    }
}

/// A future that has only so long.
pub(super) struct Timeout<F> {
    future: Pin<Box<F>>,
    sleep: Sleep,
}

/// The time was over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Elapsed;

impl std::fmt::Display for Elapsed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the time is over")
    }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(output) = self.future.as_mut().poll(context) {
            return Poll::Ready(Ok(output));
        }
        Pin::new(&mut self.sleep).poll(context).map(|()| Err(Elapsed))
    }
}

impl SimRuntime {
    /// Runs a future as a task of the world, for at most so many milliseconds. `None` if it doesn't end by then.
    pub(super) async fn spawn_result<T: 'static>(
        milliseconds: u64,
        future: impl Future<Output = T> + 'static,
    ) -> Option<T> {
        let task = SimRuntime::spawn(future);
        SimRuntime::timeout(Duration::from_millis(milliseconds), task).await.ok()?.ok()
    }
}

impl AsyncRuntime for SimRuntime {
    type JoinError = Killed;
    type JoinHandle<T: 'static> = Handle<T>;
    type Sleep = Sleep;
    type Instant = Moment;
    type TimeoutError = Elapsed;
    type Timeout<R, T: Future<Output = R>> = Timeout<T>;
    type ThreadLocalRng = SmallRng;
    type Mpsc = Mpsc;
    type Watch = Watch;
    type Oneshot = Oneshot;
    type Mutex<T: 'static> = Mutex<T>;

    fn spawn<T>(future: T) -> Handle<T::Output>
    where
        T: Future + 'static,
        T::Output: 'static,
    {
        let (sender, receiver) = Oneshot::channel();
        executor::spawn_in(executor::life(), async move {
            // The other end may be gone.
            let _ = sender.send(future.await);
        });
        Handle(receiver)
    }

    fn sleep(duration: Duration) -> Sleep {
        Sleep::after(nanos(duration))
    }

    fn sleep_until(deadline: Moment) -> Sleep {
        Sleep::until(deadline.0)
    }

    fn timeout<R, F: Future<Output = R>>(duration: Duration, future: F) -> Timeout<F> {
        Timeout { future: Box::pin(future), sleep: Sleep::after(nanos(duration)) }
    }

    fn timeout_at<R, F: Future<Output = R>>(deadline: Moment, future: F) -> Timeout<F> {
        Timeout { future: Box::pin(future), sleep: Sleep::until(deadline.0) }
    }

    fn is_panic(_: &Killed) -> bool {
        false
    }

    fn thread_rng() -> SmallRng {
        SmallRng::seed_from_u64(executor::below(u64::MAX))
    }

    fn new(_: usize) -> Self {
        SimRuntime
    }

    fn block_on<F, T>(&mut self, _: F) -> T
    where
        F: Future<Output = T>,
    {
        unimplemented_in_simulation()
    }
}

/// The engine calls it in its own tests only.
fn unimplemented_in_simulation() -> ! {
    panic!("tasks are spawned in the simulation, nothing blocks on one")
}
