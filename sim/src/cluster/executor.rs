//! Runs tasks of many nodes in one thread and in simulated time. The seed picks the next task.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use crate::random::Random;

/// The tasks of one life of a node. Life 0 is the world itself.
pub(super) type LifeId = u64;

type Task = Pin<Box<dyn Future<Output = ()>>>;

/// Ids of tasks that were woken.
type Woken = Arc<Mutex<Vec<u64>>>;

struct TaskWaker {
    id: u64,
    /// It is among the woken ones.
    is_woken: AtomicBool,
    woken: Woken,
}

struct Slot {
    life: LifeId,
    /// `None` while it runs.
    task: Option<Task>,
    waker: Arc<TaskWaker>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        if !self.is_woken.swap(true, Ordering::Relaxed) {
            self.woken.lock().unwrap_or_else(|error| error.into_inner()).push(self.id);
        }
    }
}

struct Inner {
    tasks: BTreeMap<u64, Slot>,
    woken: Woken,
    timers: BinaryHeap<Reverse<(u64, u64)>>,
    wakers: BTreeMap<u64, Waker>,
    next_id: u64,
    now: u64,
    life: LifeId,
    /// Lives that stand still until a time.
    paused: BTreeMap<LifeId, u64>,
    /// Woken tasks of lives that stand still.
    held: Vec<u64>,
    random: Random,
    polls: u64,
}

thread_local! {
    static EXECUTOR: RefCell<Option<Inner>> = const { RefCell::new(None) };
}

fn with<T>(call: impl FnOnce(&mut Inner) -> T) -> T {
    EXECUTOR.with_borrow_mut(|executor| call(executor.as_mut().expect("the executor of this thread was begun")))
}

/// Begins anew with this seed; whatever ran before is dropped.
pub(super) fn begin(seed: u64) {
    // Destructors of tasks may come back here.
    let old = EXECUTOR.with_borrow_mut(|executor| {
        executor.replace(Inner {
            tasks: BTreeMap::new(),
            woken: Woken::default(),
            timers: BinaryHeap::new(),
            wakers: BTreeMap::new(),
            next_id: 1,
            now: 1_000_000,
            life: 0,
            paused: BTreeMap::new(),
            held: Vec::new(),
            random: Random::new(seed),
            polls: 0,
        })
    });
    drop(old);
}

/// Drops all tasks.
pub(super) fn end() {
    let old = EXECUTOR.with_borrow_mut(Option::take);
    drop(old);
}

/// The simulated time in nanoseconds.
#[must_use]
pub fn now() -> u64 {
    with(|inner| inner.now)
}

/// Number of times that tasks were polled.
#[must_use]
pub fn polls() -> u64 {
    with(|inner| inner.polls)
}

/// A random number below `end`.
#[must_use]
pub(super) fn below(end: u64) -> u64 {
    with(|inner| inner.random.below(end))
}

/// The life of the task that runs.
#[must_use]
pub(super) fn life() -> LifeId {
    with(|inner| inner.life)
}

/// Spawns a task of this life.
pub(super) fn spawn_in(life: LifeId, task: impl Future<Output = ()> + 'static) {
    with(|inner| {
        let id = inner.next_id;
        inner.next_id += 1;
        let waker = Arc::new(TaskWaker { id, is_woken: AtomicBool::new(false), woken: inner.woken.clone() });
        waker.wake_by_ref();
        inner.tasks.insert(id, Slot { life, task: Some(Box::pin(task)), waker });
    });
}

/// Drops all tasks of a life.
pub(super) fn kill(life: LifeId) {
    let dropped: Vec<Option<Task>> = with(|inner| {
        let ids: Vec<u64> = inner.tasks.iter().filter(|(_, slot)| slot.life == life).map(|(id, _)| *id).collect();
        ids.into_iter().filter_map(|id| inner.tasks.remove(&id)).map(|slot| slot.task).collect()
    });
    drop(dropped);
}

/// Lets a life stand still until this time.
pub(super) fn pause(life: LifeId, until: u64) {
    with(|inner| inner.paused.insert(life, until));
}

/// Wakes the waker at this time. Returns the timer's key.
pub(super) fn wake_at(time: u64, waker: Waker) -> u64 {
    with(|inner| {
        let key = inner.next_id;
        inner.next_id += 1;
        inner.timers.push(Reverse((time, key)));
        inner.wakers.insert(key, waker);
        key
    })
}

/// Forgets a timer.
pub(super) fn cancel(key: u64) {
    // A task that is dropped with its executor has no timer any more.
    EXECUTOR.with_borrow_mut(|executor| executor.as_mut().map(|inner| inner.wakers.remove(&key)));
}

/// Runs until this time.
pub(super) fn run_until(end: u64) {
    while step(end) {}
    with(|inner| inner.now = inner.now.max(end));
}

/// Runs one task, or goes on to the next timer. False if there is nothing before `end`.
fn step(end: u64) -> bool {
    let picked = with(|inner| {
        let now = inner.now;
        let mut woken = inner.woken.lock().unwrap_or_else(|error| error.into_inner());
        if !inner.paused.is_empty() {
            inner.paused.retain(|_, until| *until > now);
            woken.append(&mut inner.held);
        }
        while !woken.is_empty() {
            let at = inner.random.below(woken.len() as u64) as usize;
            let id = woken.swap_remove(at);
            let Some(slot) = inner.tasks.get(&id) else { continue };
            if inner.paused.contains_key(&slot.life) {
                inner.held.push(id);
                continue;
            }
            slot.waker.is_woken.store(false, Ordering::Relaxed);
            return Some(id);
        }
        None
    });
    match picked {
        Some(id) => {
            poll(id);
            true
        }
        None => advance(end),
    }
}

fn poll(id: u64) {
    let taken = with(|inner| {
        let slot = inner.tasks.get_mut(&id)?;
        inner.life = slot.life;
        inner.polls += 1;
        Some((slot.task.take()?, Waker::from(slot.waker.clone())))
    });
    let Some((mut task, waker)) = taken else { return };
    let polled = task.as_mut().poll(&mut Context::from_waker(&waker));
    let over = with(|inner| {
        inner.life = 0;
        match inner.tasks.get_mut(&id) {
            Some(slot) if polled.is_pending() => {
                slot.task = Some(task);
                None
            }
            // It is over, or was killed while it ran.
            _ => {
                inner.tasks.remove(&id);
                Some(task)
            }
        }
    });
    drop(over);
}

/// Goes on to the next timer, or to the end of the next pause.
fn advance(end: u64) -> bool {
    let woken = with(|inner| {
        let paused = inner.paused.values().copied().min();
        let timer = inner.timers.peek().map(|Reverse((time, _))| *time);
        let next = paused.into_iter().chain(timer).min().filter(|next| *next <= end)?;
        inner.now = inner.now.max(next);
        let mut woken = Vec::new();
        while let Some(Reverse((time, key))) = inner.timers.peek().copied()
            && time <= inner.now
        {
            inner.timers.pop();
            woken.extend(inner.wakers.remove(&key));
        }
        Some(woken)
    });
    let Some(woken) = woken else { return false };
    woken.into_iter().for_each(Waker::wake);
    true
}

/// Ends after this time.
#[derive(Debug)]
pub(super) struct Sleep {
    deadline: u64,
    timer: Option<u64>,
}

impl Sleep {
    /// A sleep until this time.
    #[must_use]
    pub(super) fn until(deadline: u64) -> Sleep {
        Sleep { deadline, timer: None }
    }

    /// A sleep of so many nanoseconds.
    #[must_use]
    pub(super) fn after(nanos: u64) -> Sleep {
        Sleep::until(now().saturating_add(nanos))
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if now() >= self.deadline {
            return Poll::Ready(());
        }
        if let Some(timer) = self.timer.take() {
            cancel(timer);
        }
        self.timer = Some(wake_at(self.deadline, context.waker().clone()));
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(timer) = self.timer.take() {
            cancel(timer);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;

    #[test]
    fn a_seed_repeats_the_order_and_others_change_it() {
        let order = |seed| {
            begin(seed);
            let seen = Rc::new(RefCell::new(Vec::new()));
            for task in 0..8 {
                let seen = seen.clone();
                spawn_in(1, async move {
                    for _ in 0..3 {
                        seen.borrow_mut().push(task);
                        Sleep::after(1000).await;
                    }
                });
            }
            run_until(10_000_000);
            seen.take()
        };
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
        assert_eq!(order(3).len(), 24);
        end();
    }

    #[test]
    fn killed_tasks_are_dropped_and_paused_ones_wait() {
        begin(1);
        let ticks = [1, 2].map(|life| {
            let ticks = Rc::new(Cell::new(0));
            let count = ticks.clone();
            spawn_in(life, async move {
                loop {
                    Sleep::after(1_000).await;
                    count.set(count.get() + 1);
                }
            });
            ticks
        });
        run_until(now() + 10_500);
        assert_eq!([ticks[0].get(), ticks[1].get()], [10, 10]);
        pause(1, now() + 5_000);
        kill(2);
        assert_eq!(Rc::strong_count(&ticks[1]), 1, "its task is dropped");
        run_until(now() + 4_000);
        assert_eq!([ticks[0].get(), ticks[1].get()], [10, 10]);
        run_until(now() + 10_000);
        assert!(ticks[0].get() > 15);
        end();
    }
}
