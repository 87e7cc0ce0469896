//! The machine and time of a measurement.

use std::{fmt, fs};

use time::OffsetDateTime;

use super::record::Machine;
use crate::process;

impl Machine {
    /// This machine, now.
    pub(crate) fn here() -> Self {
        let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        Self {
            measured_at: text_of(OffsetDateTime::now_utc()),
            kernel: process::kernel(),
            cores: std::thread::available_parallelism().ok().map(usize::from),
            cpu_model: cpu_model(&cpus),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kernel {}", self.kernel)?;
        if let Some(cores) = self.cores {
            write!(f, ", {cores} cores shared by broker and load")?;
        }
        self.cpu_model.as_ref().map_or(Ok(()), |model| write!(f, ", {model}"))
    }
}

fn text_of(time: OffsetDateTime) -> String {
    let (date, clock) = (time.date(), time.time());
    let (year, month, day) = (date.year(), u8::from(date.month()), date.day());
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", clock.hour(), clock.minute(), clock.second())
}

/// The model of the first processor in `/proc/cpuinfo`, which is often missing on machines other than x86.
fn cpu_model(cpus: &str) -> Option<String> {
    let line = cpus.lines().find(|line| line.starts_with("model name"))?;
    let model = line.split_once(':')?.1.trim();
    (!model.is_empty()).then(|| model.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_named_as_far_as_it_is_known() {
        assert_eq!(
            cpu_model("processor\t: 0\nmodel name\t: Fast (R) 9\nmodel name\t: x\n").as_deref(),
            Some("Fast (R) 9")
        );
        assert_eq!(cpu_model("processor\t: 0\nCPU part\t: 0xd0c\n"), None);
        let mut machine = Machine { kernel: "6.1".into(), ..Machine::default() };
        assert_eq!(machine.to_string(), "kernel 6.1");
        machine.cores = Some(2);
        machine.cpu_model = Some("Fast".into());
        assert_eq!(machine.to_string(), "kernel 6.1, 2 cores shared by broker and load, Fast");
    }

    #[test]
    fn times_are_of_a_fixed_width() {
        assert_eq!(text_of(OffsetDateTime::from_unix_timestamp(951_782_709).expect("legal")), "2000-02-29T00:05:09Z");
    }
}
