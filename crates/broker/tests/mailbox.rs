//! The hand-off between cores under every interleaving that `shuttle` finds: no wake-up is lost.

use std::sync::Arc;

use leveret_broker::mailbox::{Inner, Lock, Mailbox};
use shuttle::sync::atomic::{AtomicUsize, Ordering};
use shuttle::sync::{Condvar, Mutex};
use shuttle::thread;

struct Shuttled<T>(Mutex<T>);

impl<T> Lock<T> for Shuttled<T> {
    fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    fn with<R>(&self, call: impl FnOnce(&mut T) -> R) -> R {
        call(&mut self.0.lock().unwrap())
    }
}

/// A wake flag like that of a task: set by any number of wakes, cleared when the task runs.
#[derive(Default)]
struct Flag {
    set: Mutex<bool>,
    changed: Condvar,
}

impl Flag {
    fn wake(&self) {
        *self.set.lock().unwrap() = true;
        self.changed.notify_one();
    }

    fn wait(&self) {
        let mut set = self.set.lock().unwrap();
        while !*set {
            set = self.changed.wait(set).unwrap();
        }
        *set = false;
    }
}

/// Three pushers and one owner that sleeps until it is woken. A lost wake-up leaves it asleep with items in its mailbox, which
/// shuttle reports as a deadlock.
fn hand_off() {
    let mailbox: Arc<Mailbox<u32, Shuttled<Inner<u32>>>> = Arc::new(Mailbox::default());
    let flag = Arc::new(Flag::default());
    let wakes = Arc::new(AtomicUsize::new(0));
    let pushers: Vec<_> = (0..3)
        .map(|from| {
            let (mailbox, flag, wakes) = (mailbox.clone(), flag.clone(), wakes.clone());
            thread::spawn(move || {
                for item in 0..2 {
                    if mailbox.push(from * 10 + item) {
                        wakes.fetch_add(1, Ordering::SeqCst);
                        flag.wake();
                    }
                }
            })
        })
        .collect();
    let mut seen = Vec::new();
    while seen.len() < 6 {
        flag.wait();
        mailbox.drain(&mut seen);
    }
    for pusher in pushers {
        pusher.join().unwrap();
    }
    for from in 0..3 {
        let own: Vec<_> = seen.iter().filter(|item| **item / 10 == from).collect();
        assert!(own.is_sorted(), "one sender's items keep their order");
    }
    assert!(wakes.load(Ordering::SeqCst) <= 6);
}

#[test]
fn no_wake_up_is_lost() {
    shuttle::check_random(hand_off, 3000);
}

#[cfg(feature = "planted-bugs")]
#[test]
fn a_planted_lost_wake_up_is_caught() {
    use leveret_broker::mailbox::planted::plant_lost_wakeup;
    plant_lost_wakeup(true);
    let caught = std::panic::catch_unwind(|| shuttle::check_random(hand_off, 3000));
    plant_lost_wakeup(false);
    let message = *caught.expect_err("the bug was not seen").downcast::<String>().expect("a text");
    assert!(message.contains("deadlock"), "caught as something else: {message}");
    println!("caught: lost wake-up between cores, by crates/broker/tests/mailbox.rs: {message}");
}
