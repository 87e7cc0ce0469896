//! The kernel's figures of processes and threads.

use std::fs;
use std::iter::Sum;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The processes of a broker: one, those of all nodes of a cluster, or none that is known.
#[derive(Debug, Clone, Default)]
pub(crate) struct Processes(Vec<u32>);

impl Processes {
    /// # Errors
    /// There is none with this one of the numbers.
    pub(crate) fn new(pids: &[u32]) -> Result<Self, u32> {
        match pids.iter().find(|&&pid| cpu_time(pid).is_none()) {
            Some(pid) => Err(*pid),
            None => Ok(Self(pids.to_vec())),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The numbers, separated by commas.
    pub(crate) fn list(&self) -> Option<String> {
        let pids: Vec<String> = self.0.iter().map(u32::to_string).collect();
        (!self.is_empty()).then(|| pids.join(","))
    }

    /// CPU time of all together.
    pub(crate) fn cpu_time(&self) -> Option<Duration> {
        self.of_all(cpu_time)
    }

    pub(crate) fn wake_ups(&self) -> Option<u64> {
        self.of_all(wake_ups)
    }

    /// Memory of all together. Their peaks needn't have been at one moment.
    pub(crate) fn memory(&self) -> Option<Memory> {
        self.of_all(memory)
    }

    /// Makes the kernel reset the peak of each, if permitted: otherwise it is that of the process's whole life.
    pub(crate) fn reset_peak(&self) -> bool {
        !self.is_empty() && self.0.iter().all(|&pid| reset_peak(pid))
    }

    fn of_all<T: Sum<T>>(&self, figure: impl Fn(u32) -> Option<T>) -> Option<T> {
        if self.is_empty() { None } else { self.0.iter().map(|&pid| figure(pid)).sum() }
    }
}

/// CPU time of a process with all its threads, including finished ones. The kernel counts in ticks of 10 ms.
fn cpu_time(pid: u32) -> Option<Duration> {
    let ticks = cpu_ticks(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?;
    let per_second = rustix::param::clock_ticks_per_second();
    Some(Duration::from_secs_f64(ticks as f64 / per_second as f64))
}

/// `utime` and `stime` in a line of `/proc/PID/stat`: fields 14 and 15, counted from the end of the name, which may
/// contain spaces and parentheses.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let behind_name = &stat[stat.rfind(')')? + 1..];
    let mut fields = behind_name.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

/// Voluntary context switches of a process's current threads: each was followed by a wake-up.
fn wake_ups(pid: u32) -> Option<u64> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    // A thread may end before it is read.
    let statuses = threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("status")).ok());
    Some(statuses.filter_map(|status| voluntary_switches(&status)).sum())
}

fn voluntary_switches(status: &str) -> Option<u64> {
    status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?.trim().parse().ok()
}

/// Resident memory of a process, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Memory {
    pub(crate) resident: u64,
    pub(crate) resident_max: u64,
}

fn memory(pid: u32) -> Option<Memory> {
    parse_memory(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?)
}

impl Sum for Memory {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            resident: sum.resident + one.resident,
            resident_max: sum.resident_max + one.resident_max,
        })
    }
}

fn parse_memory(status: &str) -> Option<Memory> {
    let field = |name: &str| -> Option<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
    };
    Some(Memory { resident: field("VmRSS")?, resident_max: field("VmHWM")? })
}

fn reset_peak(pid: u32) -> bool {
    fs::write(format!("/proc/{pid}/clear_refs"), "5").is_ok()
}

/// CPU time of the calling thread.
pub(crate) fn thread_cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// Release of the running kernel.
pub(crate) fn kernel() -> String {
    fs::read_to_string("/proc/sys/kernel/osrelease").map_or_else(|_| "unknown".into(), |text| text.trim().into())
}

#[cfg(test)]
mod tests {
    use super::{Memory, cpu_ticks, parse_memory, voluntary_switches};

    #[test]
    fn names_with_parentheses_do_not_shift_the_fields() {
        let stat = "42 (a) b (c)) S 1 2 3 4 5 6 7 8 9 10 700 55 1 2";
        assert_eq!(cpu_ticks(stat), Some(755));
        assert_eq!(cpu_ticks("42 (x) S 1"), None);
    }

    #[test]
    fn wake_ups_are_the_switches_that_a_thread_asked_for() {
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t900\n";
        assert_eq!(voluntary_switches(status), Some(12));
        assert_eq!(voluntary_switches("nonvoluntary_ctxt_switches:\t900\n"), None);
    }

    #[test]
    fn memory_is_in_bytes() {
        let status = "Name:\tx\nVmPeak:\t 9 kB\nVmHWM:\t    200 kB\nVmRSS:\t    100 kB\n";
        assert_eq!(parse_memory(status), Some(Memory { resident: 102_400, resident_max: 204_800 }));
        assert_eq!(parse_memory("Name:\tkthread\n"), None);
    }
}
