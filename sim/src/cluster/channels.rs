//! Channels and locks between tasks of one thread.

use std::cell::{Cell, Ref, RefCell, RefMut};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};

use leveret_cluster::runtime::{mpsc, mutex, oneshot, watch};

fn wake_all(wakers: &RefCell<Vec<Waker>>) {
    let woken = std::mem::take(&mut *wakers.borrow_mut());
    woken.into_iter().for_each(Waker::wake);
}

/// Bounded channels.
#[derive(Debug)]
pub(super) struct Mpsc;

struct Queue<T> {
    items: RefCell<VecDeque<T>>,
    capacity: usize,
    senders: Cell<usize>,
    is_closed: Cell<bool>,
    receiver: RefCell<Vec<Waker>>,
    waiting: RefCell<Vec<Waker>>,
}

/// Sends into a bounded channel.
pub(super) struct Sender<T>(Rc<Queue<T>>);

/// A sender that doesn't keep the channel open.
pub(super) struct WeakSender<T>(Weak<Queue<T>>);

/// Receives from a bounded channel.
pub(super) struct Receiver<T>(Rc<Queue<T>>);

impl mpsc::Mpsc for Mpsc {
    type Sender<T> = Sender<T>;
    type Receiver<T> = Receiver<T>;
    type WeakSender<T> = WeakSender<T>;

    fn channel<T>(buffer: usize) -> (Sender<T>, Receiver<T>) {
        let queue = Rc::new(Queue {
            items: RefCell::default(),
            capacity: buffer.max(1),
            senders: Cell::new(1),
            is_closed: Cell::new(false),
            receiver: RefCell::default(),
            waiting: RefCell::default(),
        });
        (Sender(queue.clone()), Receiver(queue))
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.0.senders.set(self.0.senders.get() + 1);
        Sender(self.0.clone())
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.0.senders.set(self.0.senders.get() - 1);
        if self.0.senders.get() == 0 {
            wake_all(&self.0.receiver);
        }
    }
}

impl<T> mpsc::MpscSender<Mpsc, T> for Sender<T> {
    async fn send(&self, item: T) -> Result<(), mpsc::SendError<T>> {
        let queue = &self.0;
        poll_fn(|context| {
            if queue.is_closed.get() || queue.items.borrow().len() < queue.capacity {
                return Poll::Ready(());
            }
            queue.waiting.borrow_mut().push(context.waker().clone());
            Poll::Pending
        })
        .await;
        if queue.is_closed.get() {
            return Err(mpsc::SendError(item));
        }
        queue.items.borrow_mut().push_back(item);
        wake_all(&queue.receiver);
        Ok(())
    }

    fn downgrade(&self) -> WeakSender<T> {
        WeakSender(Rc::downgrade(&self.0))
    }
}

impl<T> Clone for WeakSender<T> {
    fn clone(&self) -> Self {
        WeakSender(self.0.clone())
    }
}

impl<T> mpsc::MpscWeakSender<Mpsc, T> for WeakSender<T> {
    fn upgrade(&self) -> Option<Sender<T>> {
        let queue = self.0.upgrade().filter(|queue| queue.senders.get() > 0)?;
        queue.senders.set(queue.senders.get() + 1);
        Some(Sender(queue))
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.0.is_closed.set(true);
        wake_all(&self.0.waiting);
        let items = self.0.items.take();
        drop(items);
    }
}

impl<T> mpsc::MpscReceiver<T> for Receiver<T> {
    async fn recv(&mut self) -> Option<T> {
        poll_fn(|context| match self.try_recv() {
            Ok(item) => Poll::Ready(Some(item)),
            Err(mpsc::TryRecvError::Disconnected) => Poll::Ready(None),
            Err(mpsc::TryRecvError::Empty) => {
                self.0.receiver.borrow_mut().push(context.waker().clone());
                Poll::Pending
            }
        })
        .await
    }

    fn try_recv(&mut self) -> Result<T, mpsc::TryRecvError> {
        let item = self.0.items.borrow_mut().pop_front();
        match item {
            Some(item) => {
                wake_all(&self.0.waiting);
                Ok(item)
            }
            None if self.0.senders.get() == 0 => Err(mpsc::TryRecvError::Disconnected),
            None => Err(mpsc::TryRecvError::Empty),
        }
    }
}

/// Channels of one item.
#[derive(Debug)]
pub(super) struct Oneshot;

struct Once<T> {
    item: RefCell<Option<T>>,
    is_sender_gone: Cell<bool>,
    is_receiver_gone: Cell<bool>,
    waker: RefCell<Vec<Waker>>,
}

/// Sends one item.
pub(super) struct OnceSender<T>(Rc<Once<T>>);

/// Receives one item.
pub(super) struct OnceReceiver<T>(Rc<Once<T>>);

/// The sender is gone and has sent nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SenderGone;

impl std::fmt::Display for SenderGone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the sender is gone")
    }
}

impl std::error::Error for SenderGone {}

impl oneshot::Oneshot for Oneshot {
    type Sender<T> = OnceSender<T>;
    type Receiver<T> = OnceReceiver<T>;
    type ReceiverError = SenderGone;

    fn channel<T>() -> (OnceSender<T>, OnceReceiver<T>) {
        let once = Rc::new(Once {
            item: RefCell::default(),
            is_sender_gone: Cell::new(false),
            is_receiver_gone: Cell::new(false),
            waker: RefCell::default(),
        });
        (OnceSender(once.clone()), OnceReceiver(once))
    }
}

impl<T> oneshot::OneshotSender<T> for OnceSender<T> {
    fn send(self, item: T) -> Result<(), T> {
        if self.0.is_receiver_gone.get() {
            return Err(item);
        }
        *self.0.item.borrow_mut() = Some(item);
        Ok(())
    }
}

impl<T> Drop for OnceSender<T> {
    fn drop(&mut self) {
        self.0.is_sender_gone.set(true);
        wake_all(&self.0.waker);
    }
}

impl<T> Drop for OnceReceiver<T> {
    fn drop(&mut self) {
        self.0.is_receiver_gone.set(true);
    }
}

impl<T> Future for OnceReceiver<T> {
    type Output = Result<T, SenderGone>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(item) = self.0.item.borrow_mut().take() {
            return Poll::Ready(Ok(item));
        }
        if self.0.is_sender_gone.get() {
            return Poll::Ready(Err(SenderGone));
        }
        *self.0.waker.borrow_mut() = vec![context.waker().clone()];
        Poll::Pending
    }
}

/// Values that are watched.
#[derive(Debug)]
pub(super) struct Watch;

struct Watched<T> {
    value: RefCell<T>,
    version: Cell<u64>,
    senders: Cell<usize>,
    receivers: Cell<usize>,
    wakers: RefCell<Vec<Waker>>,
}

/// Changes a watched value.
pub(super) struct WatchSender<T>(Rc<Watched<T>>);

/// Watches a value.
pub(super) struct WatchReceiver<T> {
    watched: Rc<Watched<T>>,
    seen: u64,
}

impl<T> WatchReceiver<T> {
    fn new(watched: &Rc<Watched<T>>, seen: u64) -> WatchReceiver<T> {
        watched.receivers.set(watched.receivers.get() + 1);
        WatchReceiver { watched: watched.clone(), seen }
    }
}

impl<T> Clone for WatchReceiver<T> {
    fn clone(&self) -> Self {
        WatchReceiver::new(&self.watched, self.seen)
    }
}

impl<T> Drop for WatchReceiver<T> {
    fn drop(&mut self) {
        self.watched.receivers.set(self.watched.receivers.get() - 1);
    }
}

impl<T> Clone for WatchSender<T> {
    fn clone(&self) -> Self {
        self.0.senders.set(self.0.senders.get() + 1);
        WatchSender(self.0.clone())
    }
}

impl<T> Drop for WatchSender<T> {
    fn drop(&mut self) {
        self.0.senders.set(self.0.senders.get() - 1);
        if self.0.senders.get() == 0 {
            wake_all(&self.0.wakers);
        }
    }
}

impl watch::Watch for Watch {
    type Sender<T> = WatchSender<T>;
    type Receiver<T> = WatchReceiver<T>;
    type Ref<'a, T: 'a> = Ref<'a, T>;

    fn channel<T>(value: T) -> (WatchSender<T>, WatchReceiver<T>) {
        let watched = Rc::new(Watched {
            value: RefCell::new(value),
            version: Cell::new(0),
            senders: Cell::new(1),
            receivers: Cell::new(0),
            wakers: RefCell::default(),
        });
        let receiver = WatchReceiver::new(&watched, 0);
        (WatchSender(watched), receiver)
    }
}

impl<T> watch::WatchSender<Watch, T> for WatchSender<T> {
    fn send(&self, value: T) -> Result<(), watch::SendError<T>> {
        if self.0.receivers.get() == 0 {
            return Err(watch::SendError(value));
        }
        self.send_if_modified(|known| {
            *known = value;
            true
        });
        Ok(())
    }

    fn send_if_modified<F: FnOnce(&mut T) -> bool>(&self, modify: F) -> bool {
        let is_modified = modify(&mut self.0.value.borrow_mut());
        if is_modified {
            self.0.version.set(self.0.version.get() + 1);
            wake_all(&self.0.wakers);
        }
        is_modified
    }

    fn borrow_watched(&self) -> Ref<'_, T> {
        self.0.value.borrow()
    }

    fn subscribe(&self) -> WatchReceiver<T> {
        WatchReceiver::new(&self.0, self.0.version.get())
    }
}

impl<T> watch::WatchReceiver<Watch, T> for WatchReceiver<T> {
    async fn changed(&mut self) -> Result<(), watch::RecvError> {
        let watched = self.watched.clone();
        let seen = self.seen;
        let is_changed = poll_fn(|context| {
            if watched.version.get() != seen {
                return Poll::Ready(true);
            }
            if watched.senders.get() == 0 {
                return Poll::Ready(false);
            }
            watched.wakers.borrow_mut().push(context.waker().clone());
            Poll::Pending
        })
        .await;
        self.seen = watched.version.get();
        if is_changed { Ok(()) } else { Err(watch::RecvError(())) }
    }

    fn borrow_watched(&self) -> Ref<'_, T> {
        self.watched.value.borrow()
    }

    fn borrow_and_update(&mut self) -> Ref<'_, T> {
        self.seen = self.watched.version.get();
        self.watched.value.borrow()
    }
}

/// A lock that tasks wait for.
#[derive(Debug, Default)]
pub(super) struct Mutex<T> {
    value: RefCell<T>,
    waiting: RefCell<Vec<Waker>>,
}

/// The lock is held.
pub(super) struct Guard<'a, T> {
    value: Option<RefMut<'a, T>>,
    waiting: &'a RefCell<Vec<Waker>>,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.as_ref().expect("it is held")
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_mut().expect("it is held")
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        self.value = None;
        wake_all(self.waiting);
    }
}

impl<T: 'static> mutex::Mutex<T> for Mutex<T> {
    type Guard<'a> = Guard<'a, T>;

    fn new(value: T) -> Self {
        Mutex { value: RefCell::new(value), waiting: RefCell::default() }
    }

    async fn lock(&self) -> Guard<'_, T> {
        poll_fn(|context| match self.value.try_borrow_mut() {
            Ok(value) => Poll::Ready(Guard { value: Some(value), waiting: &self.waiting }),
            Err(_) => {
                self.waiting.borrow_mut().push(context.waker().clone());
                Poll::Pending
            }
        })
        .await
    }
}
