//! Log lines about declarations that differ from the queue that exists, and are accepted all the same.

use std::fmt::Display;

use leveret_model::Refused;
use parking_lot::Mutex;

use super::category::QUEUE;
use super::overdue::Lines;
use crate::time::Nanos;

/// These lines of a node: at most one a second, since clients may declare a queue before each publish.
#[derive(Debug, Default)]
pub struct RedeclareLines(Mutex<Lines>);

impl RedeclareLines {
    /// Logs the difference between a declaration of `user` and the queue that exists. `by` names the connection.
    pub fn write(&self, mismatch: &Refused, user: &str, by: &dyn Display, now: Nanos) {
        if let Some(left_out) = self.0.lock().admit(now) {
            tracing::warn!(
                target: QUEUE,
                "a declaration by user '{user}', connection {by}, was accepted although it differs: {}{left_out}",
                mismatch.text
            );
        }
    }
}
