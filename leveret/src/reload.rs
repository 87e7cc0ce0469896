//! SIGHUP: configuration files are reloaded, and settings that may change do.

use leveret_config::Config;
use leveret_management::Api;
use leveret_node::{Log, NodeHandle, alarm_limits};
use tracing::{error, info, warn};

use crate::arguments::ServerArguments;
use crate::configuration;

/// The state that a reload changes.
pub(crate) struct Reload {
    pub(crate) arguments: ServerArguments,
    /// The configuration in effect.
    pub(crate) running: Config,
    pub(crate) api: Api,
    pub(crate) node: NodeHandle,
    pub(crate) log: Log,
}

impl Reload {
    /// Reloads everything. If there is an error anywhere, nothing changes.
    pub(crate) fn now(&mut self) {
        let (newer, warnings) = match self.arguments.look_up().and_then(|start| configuration::of_start(&start)) {
            Ok(read) => read,
            Err(mistakes) => {
                mistakes.iter().for_each(|mistake| error!("the configuration isn't reloaded: {mistake}"));
                return;
            }
        };
        warnings.iter().for_each(|warning| warn!("{warning}"));
        let reloaded = self.running.reload(&newer);
        if let Err(reason) = self.log.reload(&self.running.log) {
            error!("the log stays as it is: {reason}");
        }
        let limits = alarm_limits(&self.running);
        self.node.change_alarm_limits(|current| *current = limits);
        self.node.broker().set_consumer_timeout_ms(self.running.consumer_timeout_ms);
        self.api.set_configuration(self.running.effective());
        let list = |keys: &[String]| if keys.is_empty() { "nothing".to_owned() } else { keys.join(", ") };
        info!("the configuration is reloaded; in effect now: {}", list(&reloaded.changed));
        if !reloaded.needs_restart.is_empty() {
            warn!("these keys take effect with the next start: {}", list(&reloaded.needs_restart));
        }
    }
}
