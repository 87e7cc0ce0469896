//! The vhosts and queues that a scrape of `/metrics/detailed` asks for.

use std::sync::Arc;

use leveret_broker::registry::Snapshot;
use leveret_model::RegularExpression;

/// Filters of a scrape.
#[derive(Debug, Default)]
pub(super) struct Filters {
    vhosts: Vec<VhostFilter>,
    queue: Option<RegularExpression>,
}

/// A `vhost` of the query.
#[derive(Debug)]
struct VhostFilter {
    text: String,
    expression: Result<RegularExpression, String>,
}

impl Filters {
    /// Adds a vhost: its name or, if no vhost is called so, a regular expression. [`Filters::check`] finds out which.
    pub(super) fn add_vhost(&mut self, text: String) {
        let expression = RegularExpression::new(&text);
        self.vhosts.push(VhostFilter { text, expression });
    }

    /// Sets the regular expression of the names of queues, of which RabbitMQ allows one.
    ///
    /// # Errors
    /// There is one, or it is malformed.
    pub(super) fn set_queue(&mut self, text: &str) -> Result<(), String> {
        if self.queue.is_some() {
            return Err("Only one 'queue' query parameter is allowed".to_owned());
        }
        let expression = RegularExpression::new(text);
        self.queue = Some(expression.map_err(|reason| format!("Invalid 'queue' regex '{text}': {reason}"))?);
        Ok(())
    }

    /// Checks the filters of vhosts against those that exist.
    ///
    /// # Errors
    /// One is neither the name of a vhost nor a regular expression.
    pub(super) fn check(&self, snapshot: &Snapshot) -> Result<(), String> {
        self.vhosts.iter().try_for_each(|filter| match &filter.expression {
            Err(reason) if snapshot.topology.vhost(&filter.text).is_none() => {
                Err(format!("Invalid 'vhost' regex '{}': {reason}", filter.text))
            }
            _ => Ok(()),
        })
    }

    /// The vhosts that are asked for, in order.
    pub(super) fn vhosts(&self, snapshot: &Snapshot) -> Vec<Arc<str>> {
        let is_wanted = |vhost: &&Arc<str>| {
            self.vhosts.is_empty() || self.vhosts.iter().any(|filter| filter.matches(vhost, snapshot))
        };
        snapshot.topology.vhosts().filter(is_wanted).cloned().collect()
    }

    /// Whether not all queues of the vhosts are asked for.
    pub(super) fn limits_queues(&self) -> bool {
        self.queue.is_some()
    }

    /// Whether queues of this name are asked for.
    pub(super) fn has_queue(&self, name: &str) -> bool {
        self.queue.as_ref().is_none_or(|expression| expression.matches(name))
    }
}

impl VhostFilter {
    /// As in RabbitMQ, a name is that vhost alone: `/` isn't every vhost with a slash in its name.
    fn matches(&self, vhost: &str, snapshot: &Snapshot) -> bool {
        if self.text.is_empty() || snapshot.topology.vhost(&self.text).is_some() {
            return self.text == vhost;
        }
        self.expression.as_ref().is_ok_and(|expression| expression.matches(vhost))
    }
}
