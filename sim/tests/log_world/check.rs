//! Conditions that must hold on a disk after a power cut.

use std::collections::BTreeMap;

use leveret_log::format::file_header::FileHeader;
use leveret_log::{Disk, Log, LogId, Options, Position, Report, recover};
use leveret_sim::disk::{Change, SimDisk};

use super::chunk_head;
use super::ledger::{Ledger, LedgerRecord, Ledgers, has_chunks};

/// The result of a check.
pub(crate) type Verdict = Result<(), String>;

/// Checks that no two uses of files have the same salt.
pub(crate) fn check_salts(trace: &[Change]) -> Verdict {
    let mut salts: BTreeMap<u64, &str> = BTreeMap::new();
    for change in trace {
        let Change::Write { name, offset: 0, bytes } = change else {
            continue;
        };
        if let Some(header) = FileHeader::decode(bytes) {
            let before = salts.insert(header.salt, name);
            if before.is_some_and(|before| before != name) {
                return Err(format!("salt check: {name} has the salt of {}", before.unwrap_or_default()));
            }
        }
    }
    Ok(())
}

/// An opened directory after a power cut.
pub(crate) struct Recovered {
    pub(crate) log: Log,
    pub(crate) report: Report,
    pub(crate) ledgers: Ledgers,
}

/// Opens what a power cut left and compares it with what was appended: it has to be a prefix of it, with at least
/// everything that was confirmed, byte for byte.
pub(crate) fn check(
    disk: &SimDisk,
    options: &Options,
    records: &[LedgerRecord],
    confirmed: Position,
) -> Result<Recovered, String> {
    let mut ledgers = Ledgers::default();
    let (log, report) =
        recover(disk, options.clone(), &mut ledgers, 0).map_err(|error| format!("recovery check: {error}"))?;
    if !report.damaged.is_empty() {
        return Err(format!("damage check: a power cut damages nothing, reported is {:?}", report.damaged));
    }
    if report.position < confirmed {
        return Err(format!("confirm check: {confirmed} was confirmed, {} is there", report.position));
    }
    let Some(there) = records.get(..report.position as usize) else {
        return Err(format!("prefix check: {} records of {}", report.position, records.len()));
    };
    let mut expected = Ledgers::default();
    there.iter().for_each(|record| expected.apply(record));
    if ledgers != expected.outline() {
        return Err(format!("ledger check: at {} {}", report.position, difference(&ledgers, &expected.outline())));
    }
    for (log_id, ledger) in &expected.0 {
        check_messages(&log, disk, *log_id, ledger)?;
    }
    Ok(Recovered { log, report, ledgers: expected })
}

fn difference(found: &Ledgers, expected: &Ledgers) -> String {
    for (log, expected) in &expected.0 {
        match found.0.get(log) {
            None => return format!("log {log} is missing"),
            Some(found) if found != expected => {
                return format!(
                    "log {log}: next {} bytes {} live {:?} controls {}, expected next {} bytes {} live {:?} controls {}",
                    found.next,
                    found.bytes,
                    found.live.keys().collect::<Vec<_>>(),
                    found.controls.len(),
                    expected.next,
                    expected.bytes,
                    expected.live.keys().collect::<Vec<_>>(),
                    expected.controls.len()
                );
            }
            Some(_) => {}
        }
    }
    "there are more logs than expected".into()
}

fn check_messages(log: &Log, disk: &dyn Disk, log_id: LogId, ledger: &Ledger) -> Verdict {
    let mut from = 0;
    for (number, payload) in &ledger.live {
        if *number < from {
            continue;
        }
        let mut expected = ledger.live.range(number..).peekable();
        let plan = log.plan_read(log_id, *number, 10_000);
        let plan = plan.ok_or_else(|| format!("read check: {log_id}/{number} is nowhere"))?;
        let found = plan.run(disk).map_err(|error| format!("read check: {error}"))?;
        let is_there = found.first().is_some_and(|first| (first.number..=first.last()).contains(number));
        if !is_there || payload.is_none() {
            return Err(format!("read check: {log_id}/{number} isn't there"));
        }
        for message in found {
            if has_chunks(log_id) && message.payload[..10] != chunk_head(message.number, message.messages) {
                return Err(format!("read check: {log_id}/{} has other numbers than its chunk", message.number));
            }
            // Settled messages may be there too.
            while let Some((number, payload)) = expected.next_if(|(number, _)| **number <= message.last()) {
                if *number < message.number || payload.as_ref() != Some(&message.payload) {
                    return Err(format!("read check: {log_id}/{number} is not what was appended"));
                }
            }
            from = message.last() + 1;
        }
    }
    Ok(())
}
