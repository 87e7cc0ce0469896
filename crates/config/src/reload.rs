//! Reloading the configuration of a running node.

use std::collections::BTreeSet;

use crate::config::Config;

/// Prefixes of keys that take effect while a node runs.
const RELOADABLE: [&str; 4] = ["consumer_timeout", "disk_free_limit.", "log.", "vm_memory_high_watermark."];

/// The result of reloading, by names of keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reloaded {
    /// Keys whose new values took effect.
    pub changed: Vec<String>,
    /// Keys whose new values take effect with the next start.
    pub needs_restart: Vec<String>,
}

impl Config {
    /// Takes over the values of `newer` that may change while a node runs.
    pub fn reload(&mut self, newer: &Config) -> Reloaded {
        let mut reloaded = Reloaded::default();
        let keys: BTreeSet<&String> = self.assigned.0.keys().chain(newer.assigned.0.keys()).collect();
        let keys: Vec<String> = keys.into_iter().cloned().collect();
        if self.plugins != newer.plugins {
            reloaded.needs_restart.push("enabled_plugins".to_owned());
        }
        for key in keys {
            let value = newer.assigned.0.get(&key);
            if self.assigned.0.get(&key) == value {
                continue;
            }
            if !RELOADABLE.iter().any(|begin| key.starts_with(begin)) {
                reloaded.needs_restart.push(key);
                continue;
            }
            match value {
                Some(value) => self.assigned.0.insert(key.clone(), value.clone()),
                None => self.assigned.0.remove(&key),
            };
            reloaded.changed.push(key);
        }
        if self.node_name != newer.node_name {
            reloaded.needs_restart.push("RABBITMQ_NODENAME".to_owned());
        }
        self.log = newer.log.clone();
        self.consumer_timeout_ms = newer.consumer_timeout_ms;
        self.disk_free_limit = newer.disk_free_limit;
        self.memory_high_watermark = newer.memory_high_watermark;
        reloaded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Config {
        let mut config = Config::default();
        config.read("rabbitmq.conf", text).expect("is right");
        config
    }

    #[test]
    fn reloadable_keys_change_and_others_are_named() {
        let mut running =
            config("heartbeat = 1\nlog.level = info\ndisk_free_limit.absolute = 1GB\ndefault_pass = old\n");
        let newer = config(
            "heartbeat = 2\nlog.level = debug\nvm_memory_high_watermark.relative = 0.5\ndefault_pass = old\nframe_max = 9000\n\
             consumer_timeout = 60000\n",
        );
        let reloaded = running.reload(&newer);
        let changed =
            ["consumer_timeout", "disk_free_limit.absolute", "log.level", "vm_memory_high_watermark.relative"];
        assert_eq!(reloaded.changed, changed);
        assert_eq!(reloaded.needs_restart, ["frame_max", "heartbeat"]);
        let expected = config(
            "heartbeat = 1\nlog.level = debug\nvm_memory_high_watermark.relative = 0.5\ndefault_pass = old\nconsumer_timeout = 60000\n",
        );
        assert_eq!(running, expected);
        assert_eq!(running.effective(), expected.effective());
        assert_eq!(running.reload(&newer).changed, [""; 0]);
    }
}
