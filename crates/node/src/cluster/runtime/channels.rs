//! Tokio's channels under the names of the engine's traits.

use leveret_cluster::runtime as engine;
use leveret_cluster::runtime::TryRecvError;
use tokio::sync::{MutexGuard, mpsc, oneshot, watch};

/// Queues.
#[derive(Debug)]
pub(crate) struct Mpsc;

/// Sends into a queue.
#[derive(Debug)]
pub(crate) struct QueueSender<T>(mpsc::Sender<T>);

/// Receives from a queue.
#[derive(Debug)]
pub(crate) struct QueueReceiver<T>(mpsc::Receiver<T>);

/// Sends into a queue as long as others do.
#[derive(Debug)]
pub(crate) struct WeakQueueSender<T>(mpsc::WeakSender<T>);

impl<T> Clone for QueueSender<T> {
    fn clone(&self) -> Self {
        QueueSender(self.0.clone())
    }
}

impl<T> Clone for WeakQueueSender<T> {
    fn clone(&self) -> Self {
        WeakQueueSender(self.0.clone())
    }
}

impl engine::Mpsc for Mpsc {
    type Sender<T> = QueueSender<T>;
    type Receiver<T> = QueueReceiver<T>;
    type WeakSender<T> = WeakQueueSender<T>;

    fn channel<T>(buffer: usize) -> (QueueSender<T>, QueueReceiver<T>) {
        let (sender, receiver) = mpsc::channel(buffer.max(1));
        (QueueSender(sender), QueueReceiver(receiver))
    }
}

impl<T> engine::MpscSender<Mpsc, T> for QueueSender<T> {
    async fn send(&self, item: T) -> Result<(), engine::mpsc::SendError<T>> {
        self.0.send(item).await.map_err(|error| engine::mpsc::SendError(error.0))
    }

    fn downgrade(&self) -> WeakQueueSender<T> {
        WeakQueueSender(self.0.downgrade())
    }
}

impl<T> engine::MpscWeakSender<Mpsc, T> for WeakQueueSender<T> {
    fn upgrade(&self) -> Option<QueueSender<T>> {
        self.0.upgrade().map(QueueSender)
    }
}

impl<T> engine::MpscReceiver<T> for QueueReceiver<T> {
    async fn recv(&mut self) -> Option<T> {
        self.0.recv().await
    }

    fn try_recv(&mut self) -> Result<T, TryRecvError> {
        self.0.try_recv().map_err(|error| match error {
            mpsc::error::TryRecvError::Empty => TryRecvError::Empty,
            mpsc::error::TryRecvError::Disconnected => TryRecvError::Disconnected,
        })
    }
}

/// Channels of one item.
#[derive(Debug)]
pub(crate) struct Oneshot;

/// Sends one item.
#[derive(Debug)]
pub(crate) struct OnceSender<T>(oneshot::Sender<T>);

impl engine::Oneshot for Oneshot {
    type Sender<T> = OnceSender<T>;
    type Receiver<T> = oneshot::Receiver<T>;
    type ReceiverError = oneshot::error::RecvError;

    fn channel<T>() -> (OnceSender<T>, oneshot::Receiver<T>) {
        let (sender, receiver) = oneshot::channel();
        (OnceSender(sender), receiver)
    }
}

impl<T> engine::OneshotSender<T> for OnceSender<T> {
    fn send(self, item: T) -> Result<(), T> {
        self.0.send(item)
    }
}

/// Values that are watched.
#[derive(Debug)]
pub(crate) struct Watch;

/// Changes a watched value.
#[derive(Debug)]
pub(crate) struct WatchSender<T>(watch::Sender<T>);

/// Watches a value.
#[derive(Debug)]
pub(crate) struct WatchReceiver<T>(watch::Receiver<T>);

impl<T> Clone for WatchSender<T> {
    fn clone(&self) -> Self {
        WatchSender(self.0.clone())
    }
}

impl<T> Clone for WatchReceiver<T> {
    fn clone(&self) -> Self {
        WatchReceiver(self.0.clone())
    }
}

impl engine::Watch for Watch {
    type Sender<T> = WatchSender<T>;
    type Receiver<T> = WatchReceiver<T>;
    type Ref<'a, T: 'a> = watch::Ref<'a, T>;

    fn channel<T>(value: T) -> (WatchSender<T>, WatchReceiver<T>) {
        let (sender, receiver) = watch::channel(value);
        (WatchSender(sender), WatchReceiver(receiver))
    }
}

impl<T> engine::WatchSender<Watch, T> for WatchSender<T> {
    fn send(&self, value: T) -> Result<(), engine::watch::SendError<T>> {
        self.0.send(value).map_err(|error| engine::watch::SendError(error.0))
    }

    fn send_if_modified<F: FnOnce(&mut T) -> bool>(&self, modify: F) -> bool {
        self.0.send_if_modified(modify)
    }

    fn borrow_watched(&self) -> watch::Ref<'_, T> {
        self.0.borrow()
    }

    fn subscribe(&self) -> WatchReceiver<T> {
        WatchReceiver(self.0.subscribe())
    }
}

impl<T> engine::WatchReceiver<Watch, T> for WatchReceiver<T> {
    async fn changed(&mut self) -> Result<(), engine::watch::RecvError> {
        self.0.changed().await.map_err(|_| engine::watch::RecvError(()))
    }

    fn borrow_watched(&self) -> watch::Ref<'_, T> {
        self.0.borrow()
    }

    fn borrow_and_update(&mut self) -> watch::Ref<'_, T> {
        self.0.borrow_and_update()
    }
}

/// A lock that tasks wait for.
#[derive(Debug)]
pub(crate) struct Mutex<T>(tokio::sync::Mutex<T>);

impl<T: 'static> engine::Mutex<T> for Mutex<T> {
    type Guard<'a> = MutexGuard<'a, T>;

    fn new(value: T) -> Self {
        Mutex(tokio::sync::Mutex::new(value))
    }

    async fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().await
    }
}
