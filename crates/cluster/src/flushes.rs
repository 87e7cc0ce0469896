//! The entry log of a node as its placements share it, and the reports of what became durable.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::rc::Rc;

use leveret_log::{EntryLog, Position};

type Report = Box<dyn FnOnce(io::Result<()>)>;

struct Inner {
    log: EntryLog,
    /// In order of positions.
    waiting: VecDeque<(Position, Report)>,
    /// The last position that was reported.
    reported: Position,
    /// The error that ended the log.
    failed: Option<String>,
}

/// The entry log of a node. Clones share it.
#[derive(Clone)]
pub struct NodeLog(Rc<RefCell<Inner>>);

impl fmt::Debug for NodeLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NodeLog")
    }
}

impl NodeLog {
    /// Shares a log that was opened.
    #[must_use]
    pub fn new(log: EntryLog) -> NodeLog {
        NodeLog(Rc::new(RefCell::new(Inner { log, waiting: VecDeque::new(), reported: 0, failed: None })))
    }

    /// Calls the log. Whoever runs its jobs calls [`NodeLog::report`] after each completed one.
    ///
    /// # Panics
    /// If `call` comes back here.
    pub fn with<T>(&self, call: impl FnOnce(&mut EntryLog) -> T) -> T {
        call(&mut self.0.borrow_mut().log)
    }

    /// Reports everything that became durable, in the order in which it was appended.
    pub fn report(&self) {
        loop {
            let mut inner = self.0.borrow_mut();
            let durable = inner.log.durable();
            let is_durable = |(position, _): &mut (Position, Report)| *position <= durable;
            let next = match planted!(ReportOutOfOrder) {
                true => inner.waiting.pop_back_if(is_durable),
                false => inner.waiting.pop_front_if(is_durable),
            };
            let Some((position, report)) = next else { return };
            let last = inner.reported;
            inner.reported = position.max(last);
            drop(inner);
            report(in_order(position, last));
        }
    }

    /// Ends the log: nothing more becomes durable.
    pub fn fail(&self, reason: &str) {
        let mut inner = self.0.borrow_mut();
        inner.failed.get_or_insert(reason.to_owned());
        let waiting = std::mem::take(&mut inner.waiting);
        drop(inner);
        waiting.into_iter().for_each(|(_, report)| report(Err(io::Error::other(reason.to_owned()))));
    }

    /// Reports once this position is durable; at once if it is.
    ///
    /// # Errors
    /// A later position waits already, so that the order of the reports would be wrong.
    pub(crate) fn when_durable(&self, position: Position, report: Report) -> Result<(), String> {
        let mut inner = self.0.borrow_mut();
        if let Some(reason) = &inner.failed {
            let error = io::Error::other(reason.clone());
            drop(inner);
            report(Err(error));
            return Ok(());
        }
        if let Some((last, _)) = inner.waiting.back().filter(|(last, _)| *last > position) {
            return Err(format!("a flush up to record {position} was to be reported after one up to record {last}"));
        }
        if position <= inner.log.durable() && inner.waiting.is_empty() {
            inner.reported = inner.reported.max(position);
            drop(inner);
            report(Ok(()));
            return Ok(());
        }
        inner.waiting.push_back((position, report));
        Ok(())
    }
}

/// The engine takes a report for one of everything before it, and drops one that comes late.
fn in_order(position: Position, last: Position) -> io::Result<()> {
    match position >= last {
        true => Ok(()),
        false => {
            let text = format!("a flush up to record {position} was reported after one up to record {last}");
            Err(io::Error::other(text))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use leveret_log::{EntryOptions, Lane, MemoryDisk, Next, PlacementId, Vote, recover_entries};

    use super::*;

    fn vote(term: u64) -> Vote {
        Vote { term, replica: 1, is_leader: false }
    }

    #[test]
    fn flushes_are_reported_once_durable_and_in_order() {
        let disk = MemoryDisk::new();
        let options = EntryOptions { file_bytes: 16 << 10, buffer_bytes: 64 << 10, ..EntryOptions::default() };
        let (log, _) = recover_entries(&disk, &options, 0).unwrap();
        let node = NodeLog::new(log);
        let seen = Rc::new(Cell::new(0));
        let note = |number| -> Report {
            let seen = seen.clone();
            Box::new(move |result| {
                assert!(result.is_ok() && seen.get() == number - 1);
                seen.set(number);
            })
        };
        let first = node.with(|log| log.save_vote(PlacementId(1), vote(1), 0)).unwrap();
        let second = node.with(|log| log.save_vote(PlacementId(2), vote(1), 0)).unwrap();
        node.when_durable(first, note(1)).unwrap();
        node.when_durable(second, note(2)).unwrap();
        let error = node.when_durable(first, note(3)).unwrap_err();
        assert!(error.contains("was to be reported after"), "{error}");
        for step in 0..2 {
            node.report();
            assert_eq!(seen.get(), 0, "nothing is durable after {step} jobs");
            let Next::Run(id, job) = node.with(|log| log.next_job(Lane::Commit, 1)) else { panic!("a job is due") };
            let done = job.run(&disk);
            node.with(|log| log.complete(id, done, 1)).unwrap();
        }
        node.report();
        assert_eq!(seen.get(), 2);
        node.when_durable(second, note(3)).unwrap();
        assert_eq!(seen.get(), 3, "it is durable already");
    }

    #[test]
    fn a_log_that_ended_reports_its_error_to_all() {
        let disk = MemoryDisk::new();
        let options = EntryOptions { file_bytes: 16 << 10, buffer_bytes: 64 << 10, ..EntryOptions::default() };
        let (log, _) = recover_entries(&disk, &options, 0).unwrap();
        let node = NodeLog::new(log);
        let failed = Rc::new(Cell::new(0));
        let note = || -> Report {
            let failed = failed.clone();
            Box::new(move |result| {
                assert_eq!(result.unwrap_err().to_string(), "storage failed");
                failed.set(failed.get() + 1);
            })
        };
        let position = node.with(|log| log.save_vote(PlacementId(1), vote(1), 0)).unwrap();
        node.when_durable(position, note()).unwrap();
        node.fail("storage failed");
        node.when_durable(position, note()).unwrap();
        assert_eq!(failed.get(), 2);
    }
}
