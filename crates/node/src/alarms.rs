//! Measures memory and free disk, and raises and clears the broker's alarms.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use leveret_broker::{AlarmSource, Broker, Wake};
use parking_lot::Mutex;
use tracing::{info, warn};

use crate::disk::Signal;
use crate::memory;

/// Time between two measurements: alarms are raised and cleared well within a second.
const INTERVAL: Duration = Duration::from_millis(200);
/// Time between two measurements if a test sets the alarms.
const INTERVAL_OF_TESTS: Duration = Duration::from_millis(10);
/// Time between two looks at the memory that the system allows.
const FOLLOW_INTERVAL: Duration = Duration::from_secs(2);
/// How long unfinished input may be why the memory alarm is raised, before connections that hold it are closed.
const UNFINISHED_PATIENCE: Duration = Duration::from_secs(10);
/// The same if some were closed in the last minute. The allocator returns what they held within this time.
const UNFINISHED_PATIENCE_AGAIN: Duration = Duration::from_secs(3);
const MINUTE: Duration = Duration::from_secs(60);

/// Limits beyond which the alarms are raised.
#[derive(Debug, Clone, Default)]
pub struct AlarmLimits {
    /// More resident memory than this raises the alarm for memory; `None` for never.
    pub memory_bytes: Option<u64>,
    /// Less free disk than this raises the alarm for disk.
    pub disk_free_bytes: u64,
    /// Total memory, of which limits may be a part; 0 if it wasn't needed.
    pub total_memory_bytes: u64,
    /// The part of the total that is the limit of memory; `None` for a limit in bytes.
    pub memory_factor: Option<f64>,
    /// The part of the total that is the limit of free disk; `None` for a limit in bytes.
    pub disk_free_factor: Option<f64>,
    /// Whether the total is what the system allows. A container's limit may change while the node runs.
    pub follows_system: bool,
    /// A file whose words, `memory` or `disk`, name alarms that are raised regardless of measurements
    /// (`debug.alarms_file`).
    pub raised_by: Option<PathBuf>,
}

impl AlarmLimits {
    /// Adopts another total, with the limits that are a part of it. Returns whether anything changed.
    fn follow(&mut self, total_bytes: u64) -> bool {
        if !self.follows_system || total_bytes == self.total_memory_bytes {
            return false;
        }
        self.total_memory_bytes = total_bytes;
        let part = |factor: f64| (factor * total_bytes as f64) as u64;
        self.memory_bytes = self.memory_factor.map(part).or(self.memory_bytes);
        self.disk_free_bytes = self.disk_free_factor.map_or(self.disk_free_bytes, part);
        true
    }
}

/// One measurement; `None` for values that the system doesn't provide.
#[derive(Debug, Clone, Copy)]
struct Measured {
    memory: Option<u64>,
    disk_free: Option<u64>,
    /// Bytes that have to be free before the log continues, if it could not create a file.
    disk_needed: Option<u64>,
}

/// Free space below which the alarm for disk is raised at the moment.
pub(crate) fn limit_in_force(broker: &Broker, configured: u64) -> u64 {
    disk_needed(broker).unwrap_or(0).max(configured)
}

fn disk_needed(broker: &Broker) -> Option<u64> {
    broker.commit.is_disk_full().then(|| broker.commit.inspect(leveret_log::Log::space_needed))
}

impl Measured {
    fn now(broker: &Broker, data_directory: &Path) -> Self {
        let disk_free = disk_free_bytes(data_directory);
        Self { memory: memory::resident_bytes(), disk_free, disk_needed: disk_needed(broker) }
    }
}

/// Bytes that may still be written on the volume of `directory`.
pub(crate) fn disk_free_bytes(directory: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(directory).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

/// Unfinished input that keeps the memory alarm raised.
#[derive(Debug, Default)]
struct Unfinished {
    /// The time since when it does.
    since: Option<Instant>,
    /// When connections were last closed because of it.
    closed: Option<Instant>,
}

/// The limits in force, which may change while the node runs.
#[derive(Debug, Default)]
pub(crate) struct SharedLimits {
    limits: Mutex<AlarmLimits>,
    /// Alarms that are raised regardless of measurements.
    forced: Mutex<Vec<AlarmSource>>,
    unfinished: Mutex<Unfinished>,
    /// Wakes the thread that measures.
    changed: Arc<Signal>,
}

impl SharedLimits {
    pub(crate) fn new(limits: AlarmLimits) -> Arc<Self> {
        Arc::new(Self { limits: Mutex::new(limits), ..Self::default() })
    }

    pub(crate) fn current(&self) -> AlarmLimits {
        self.limits.lock().clone()
    }

    /// Forces an alarm regardless of measurements, or ends that.
    pub(crate) fn force(&self, source: AlarmSource, is_forced: bool) {
        let mut forced = self.forced.lock();
        forced.retain(|known| *known != source);
        forced.extend(is_forced.then_some(source));
    }

    /// Adopts the memory that the system allows by now.
    fn follow(&self, total_bytes: u64) {
        let mut limits = self.limits.lock();
        if limits.follow(total_bytes) {
            info!(
                "The system allows this node {total_bytes} bytes of memory now. Memory high watermark set to {} bytes",
                limits.memory_bytes.unwrap_or(0)
            );
        }
    }

    /// Changes the limits and measures at once.
    pub(crate) fn change(&self, change: impl FnOnce(&mut AlarmLimits)) {
        change(&mut self.limits.lock());
        self.changed.wake();
    }
}

/// A thread that measures until this is dropped. The cores never query the file system.
#[derive(Debug)]
pub(crate) struct AlarmMonitor {
    signal: Arc<Signal>,
    ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl AlarmMonitor {
    /// Measures once, so that no publish comes before the first alarm, and then continues in a thread.
    pub(crate) fn start(broker: &Arc<Broker>, data_directory: &Path, shared: &Arc<SharedLimits>) -> io::Result<Self> {
        let (signal, ending) = (shared.changed.clone(), Arc::new(AtomicBool::new(false)));
        let (shared, limits) = (shared.clone(), shared.current());
        let (waiting, stop, broker, directory) =
            (signal.clone(), ending.clone(), broker.clone(), data_directory.to_owned());
        let interval = if limits.raised_by.is_some() { INTERVAL_OF_TESTS } else { INTERVAL };
        check(&broker, &directory, &shared);
        let thread = thread::Builder::new().name("leveret-alarms".to_owned()).spawn(move || {
            let mut followed = Instant::now();
            while !stop.load(Ordering::Acquire) {
                waiting.wait(Some(Instant::now() + interval));
                if followed.elapsed() >= FOLLOW_INTERVAL {
                    shared.follow(memory::allowed_memory_bytes());
                    followed = Instant::now();
                }
                check(&broker, &directory, &shared);
                broker.registry.tidy_routes();
                broker.registry.free_retired();
            }
        })?;
        Ok(Self { signal, ending, thread: Some(thread) })
    }
}

impl Drop for AlarmMonitor {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Release);
        self.signal.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Measures, and raises or clears alarms accordingly.
pub(crate) fn check(broker: &Broker, data_directory: &Path, shared: &SharedLimits) {
    let limits = &shared.current();
    // The lock is held to the end, so that a forced alarm isn't overwritten by an earlier measurement.
    let forced = shared.forced.lock();
    let measured = Measured::now(broker, data_directory);
    let told = limits.raised_by.as_deref().map(|file| std::fs::read_to_string(file).unwrap_or_default());
    for source in AlarmSource::ALL {
        let named = told.as_deref().is_some_and(|text| text.split_whitespace().any(|word| word == source.name()));
        let raised = named || forced.contains(&source) || is_scarce(source, measured, limits);
        if broker.set_alarm(source, raised) {
            tell(source, raised, measured, limits);
        }
    }
    drop(forced);
    relieve(broker, measured, limits, &mut shared.unfinished.lock(), Instant::now());
}

/// Closes connections that hold unfinished input, if for some time the memory alarm has been raised because of it alone. Its publishers
/// are blocked, so nothing else would end that.
fn relieve(broker: &Broker, measured: Measured, limits: &AlarmLimits, unfinished: &mut Unfinished, now: Instant) {
    let Some(excess) = excess_of_unfinished(measured, limits, || broker.unfinished_bytes()) else {
        unfinished.since = None;
        return;
    };
    let is_again = unfinished.closed.is_some_and(|closed| now < closed + MINUTE);
    let patience = if is_again { UNFINISHED_PATIENCE_AGAIN } else { UNFINISHED_PATIENCE };
    if now < *unfinished.since.get_or_insert(now) + patience {
        return;
    }
    *unfinished = Unfinished { since: Some(now), closed: Some(now) };
    // With some room, so that the others can finish theirs.
    let closed = broker.close_unfinished(excess + limits.memory_bytes.unwrap_or(0) / 8);
    warn!(
        "closed {closed} connections: their unfinished messages keep the memory alarm raised ({excess} bytes above the limit)"
    );
}

/// Bytes above the limit of memory, if there were none without unfinished input. A message that comes in grows by doubling: what it
/// outgrew is up to as much again, which the allocator of an idle core keeps.
fn excess_of_unfinished(measured: Measured, limits: &AlarmLimits, unfinished: impl FnOnce() -> u64) -> Option<u64> {
    let (used, limit) = measured.memory.zip(limits.memory_bytes)?;
    let excess = used.checked_sub(limit).filter(|excess| *excess > 0)?;
    (unfinished().saturating_mul(2) >= excess).then_some(excess)
}

fn is_scarce(source: AlarmSource, measured: Measured, limits: &AlarmLimits) -> bool {
    match source {
        AlarmSource::Memory => measured.memory.zip(limits.memory_bytes).is_some_and(|(used, limit)| used > limit),
        AlarmSource::Disk => {
            measured.disk_needed.is_some() || measured.disk_free.is_some_and(|free| free < limits.disk_free_bytes)
        }
    }
}

/// Logs the alarm in RabbitMQ's words, which operators' tools look for.
fn tell(source: AlarmSource, raised: bool, measured: Measured, limits: &AlarmLimits) {
    let word = if raised { "set" } else { "clear" };
    match source {
        AlarmSource::Memory => {
            let (used, limit) = (measured.memory.unwrap_or(0), limits.memory_bytes.unwrap_or(0));
            info!("vm_memory_high_watermark {word}. Memory used:{used} allowed:{limit}");
        }
        AlarmSource::Disk => {
            let (free, limit) =
                (measured.disk_free.unwrap_or(0), limits.disk_free_bytes.max(measured.disk_needed.unwrap_or(0)));
            let word = if raised { "insufficient" } else { "sufficient" };
            info!("free disk space is {word}. Free bytes: {free}. Limit: {limit}");
        }
    }
    let name = source.name();
    if raised {
        warn!(
            "{name} resource limit alarm set on this node.\n\n\
             **********************************************************\n\
             *** Publishers will be blocked until this alarm clears ***\n\
             **********************************************************\n"
        );
    } else {
        warn!("{name} resource limit alarm cleared on this node");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_and_disk_beyond_limits_are_scarce_unknown_ones_not() {
        let limits = AlarmLimits { memory_bytes: Some(100), disk_free_bytes: 50, ..AlarmLimits::default() };
        let scarce = |memory, disk_free| {
            let measured = Measured { memory, disk_free, disk_needed: None };
            AlarmSource::ALL.map(|source| is_scarce(source, measured, &limits))
        };
        assert_eq!(scarce(Some(100), Some(50)), [false, false]);
        assert_eq!(scarce(Some(101), Some(50)), [false, true]);
        assert_eq!(scarce(Some(100), Some(49)), [true, false]);
        assert_eq!(scarce(None, None), [false, false]);
        let full = Measured { memory: None, disk_free: Some(90), disk_needed: Some(100) };
        assert!(is_scarce(AlarmSource::Disk, full, &limits));
        let measured = Measured { memory: Some(u64::MAX), disk_free: Some(0), disk_needed: None };
        assert!(!is_scarce(AlarmSource::Memory, measured, &AlarmLimits::default()));
        assert!(!is_scarce(AlarmSource::Disk, measured, &AlarmLimits::default()));
    }

    #[test]
    fn parts_of_memory_follow_the_systems_limit() {
        let mut limits = AlarmLimits {
            memory_bytes: Some(60),
            memory_factor: Some(0.6),
            disk_free_bytes: 50,
            total_memory_bytes: 100,
            follows_system: true,
            ..AlarmLimits::default()
        };
        assert!(!limits.follow(100), "it is the same");
        assert!(limits.follow(200));
        let of = |limits: &AlarmLimits| (limits.memory_bytes, limits.disk_free_bytes, limits.total_memory_bytes);
        assert_eq!(of(&limits), (Some(120), 50, 200), "bytes stay");
        limits.disk_free_factor = Some(1.5);
        limits.memory_factor = None;
        assert!(limits.follow(10));
        assert_eq!(of(&limits), (Some(120), 15, 10));
        limits.follows_system = false;
        assert!(!limits.follow(300), "total_memory_available_override_value counts");
    }

    #[test]
    fn unfinished_input_is_at_fault_if_the_rest_is_within_limits() {
        let limits = AlarmLimits { memory_bytes: Some(100), ..AlarmLimits::default() };
        let excess = |memory, unfinished| {
            let measured = Measured { memory: Some(memory), disk_free: None, disk_needed: None };
            excess_of_unfinished(measured, &limits, || unfinished)
        };
        assert_eq!(excess(100, 90), None, "there is no alarm");
        assert_eq!(excess(150, 24), None, "the alarm would stay without it");
        assert_eq!(excess(150, 25), Some(50), "with what its messages outgrew");
        let unlimited = Measured { memory: Some(150), disk_free: None, disk_needed: None };
        assert_eq!(excess_of_unfinished(unlimited, &AlarmLimits::default(), || 150), None);
    }

    #[test]
    fn the_system_answers() {
        assert!(disk_free_bytes(Path::new("/")).expect("is known") > 0);
    }
}
