//! The result of a check, as text for people and as JSON for programs.

use std::fmt;

use leveret_broker::offline::{Offline, by_log};
use leveret_log::{Damage, Hit, LogId, Numbers, PlacementId, SetAside};
use serde_json::{Value, json};

use super::directory::OfflineDirectory;
use super::verify::Checked;
use crate::terminal::{harmless, harmless_json};

/// The format of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// Number of ranges shown in a line of text; the rest is counted.
const RANGES_SHOWN: usize = 20;

impl Checked {
    /// Whether every byte is valid.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.verified.is_sound() && self.entries.damaged.is_empty() && self.entries.torn.is_none()
    }

    /// The whole report.
    #[must_use]
    pub fn report(&self, directory: &OfflineDirectory, form: Form) -> String {
        match form {
            Form::Text => self.text(directory),
            Form::Json => harmless_json(&format!("{:#}\n", self.json(directory))),
        }
    }

    fn text(&self, directory: &OfflineDirectory) -> String {
        let verified = &self.verified;
        let mut text = format!("{}: {}\n", directory.path().display(), self.verdict());
        for damage in &verified.damaged {
            text += &format!("  {}\n{}", harmless(&damage.to_string()), self.queues_text(damage));
        }
        if let Some(torn) = &verified.torn {
            text += &format!(
                "  {torn}: a power cut tears it so, and then nothing in it was confirmed; the next start puts it aside\n{}",
                self.queues_text(torn)
            );
        }
        text += &self.entries_text();
        if let Some(refused) = &verified.refused {
            text += &format!("  a node would not start: {}\n", harmless(refused));
        }
        for aside in &verified.set_aside {
            let (file, count) = (harmless(&aside.file), aside.messages);
            text += &format!(
                "  {file} was set aside, and has {count} of the missing {} whole: a repaired copy has them\n",
                plural(count, "message")
            );
        }
        for (log, count) in self.offline.unowned() {
            text += &format!(
                "  log {log} has {count} {} and no queue in the metadata owns it: a node keeps it, and a repaired copy has it as a queue\n",
                plural(count, "message")
            );
        }
        text += &format!(
            "{} files, {} bytes, {} queues with {} messages, format version {}, {}: checked in {:.3} s\n",
            verified.files,
            verified.bytes,
            self.offline.queue_count(),
            verified.messages,
            verified.version,
            if verified.closed { "stopped cleanly" } else { "not stopped cleanly" },
            self.took.as_secs_f64()
        );
        if !verified.unused.is_empty() {
            text += &format!("not in use, a start removes them: {}\n", harmless(&verified.unused.join(", ")));
        }
        let (without_state, unattributed) = &self.unattributed;
        if *unattributed > 0 {
            let logs: Vec<String> = without_state.iter().take(RANGES_SHOWN).map(LogId::to_string).collect();
            text += &format!(
                "log {} may have had up to {unattributed} more {} that several queues share: only the lost state says which, so no copy has them\n",
                logs.join(", "),
                plural(*unattributed, "message")
            );
        }
        if let Some(copied) = self.copied {
            let found: u64 = self.verified.set_aside.iter().map(|aside| aside.messages).sum();
            let more =
                if *unattributed > 0 { format!(", and up to {unattributed} shared ones") } else { String::new() };
            let left_out = self.lost().saturating_sub(found);
            text += &format!("the copy has {copied} messages; {left_out} were left out{more}\n");
            for (log, name) in self.offline.adopted() {
                text += &format!("  log {log} became the queue '{name}' in vhost '/'\n");
            }
        }
        text
    }

    fn entries_text(&self) -> String {
        let entries = &self.entries;
        let mut text = String::new();
        for damage in &entries.damaged {
            text += &format!("  {}\n    {}\n", harmless(&damage.to_string()), placements_text(damage));
        }
        if let Some(torn) = &entries.torn {
            text += &format!(
                "  {torn}: a power cut tears it so, and then nothing in it was answered; the next start puts it aside\n"
            );
        }
        if entries.files > 0 {
            text += &format!(
                "  the entry log: {} files, {} bytes, {} entries of {} placements\n",
                entries.files, entries.bytes, entries.entries, entries.placements
            );
        }
        text
    }

    fn verdict(&self) -> &'static str {
        let verified = &self.verified;
        let is_whole = verified.damaged.is_empty() && verified.refused.is_none() && self.entries.damaged.is_empty();
        match (self.is_sound(), is_whole) {
            (true, _) => "sound",
            (false, true) => "sound up to the last batch, which isn't whole",
            (false, false) => "damaged",
        }
    }

    /// Number of lost messages.
    fn lost(&self) -> u64 {
        self.verified.damaged.iter().flat_map(|damage| &damage.messages).map(Numbers::count).sum()
    }

    fn queues_text(&self, damage: &Damage) -> String {
        let mut text = String::new();
        for (log, numbers) in by_log(damage) {
            text += &match name_of(&self.offline, log) {
                Name::Metadata => "    the metadata (log 0)".to_owned(),
                Name::Queue(vhost, name) => {
                    format!("    queue '{}' in vhost '{}' (log {log})", harmless(&name), harmless(&vhost))
                }
                Name::Unknown => format!("    log {log}, whose queue isn't known"),
            };
            let count: u64 = numbers.iter().map(Numbers::count).sum();
            if count > 0 {
                text += &format!(": {count} {} ({})", plural(count, "message"), Ranges(&numbers));
            } else if log != LogId::METADATA {
                text += ": no message that is still there";
            }
            text.push('\n');
        }
        if damage.logs == Hit::Any {
            text += "    any queue may have been hit";
            if damage.unknown > 0 {
                text += &format!(": {} {} of unknown queues", damage.unknown, plural(damage.unknown, "record"));
            }
            text.push('\n');
        }
        text
    }

    fn json(&self, directory: &OfflineDirectory) -> Value {
        let verified = &self.verified;
        let mut report = json!({
            "directory": directory.path().display().to_string(),
            "result": if self.is_sound() { "sound" } else { "damaged" },
            "format_version": verified.version,
            "clean_stop": verified.closed,
            "files": verified.files,
            "bytes": verified.bytes,
            "queues": self.offline.queue_count(),
            "messages": verified.messages,
            "messages_lost": self.lost(),
            "shared_messages_unattributed": self.unattributed.1,
            "logs_without_state": self.unattributed.0.iter().map(|log| log.0).collect::<Vec<_>>(),
            "damaged": verified.damaged.iter().map(|damage| self.damage_json(damage)).collect::<Vec<_>>(),
            "torn_last_batch": verified.torn.as_ref().map(|damage| self.damage_json(damage)),
            "start_refused": verified.refused,
            "set_aside": verified.set_aside.iter().map(set_aside_json).collect::<Vec<_>>(),
            "unowned_logs": self.offline.unowned().into_iter().map(log_json).collect::<Vec<_>>(),
            "adopted_logs": self.offline.adopted().iter().map(|(log, name)| json!({"log": log.0, "queue": &**name})).collect::<Vec<_>>(),
            "unused_files": verified.unused,
            "messages_copied": self.copied,
            "seconds": self.took.as_secs_f64(),
        });
        // A node that is no member of a cluster has none.
        if self.entries.files > 0 || !self.entries.damaged.is_empty() {
            report["entry_log"] = self.entries_json();
        }
        report
    }

    fn entries_json(&self) -> Value {
        let entries = &self.entries;
        let damage = |damage: &Damage| {
            json!({
                "file": damage.file,
                "from_byte": damage.range.start,
                "to_byte": damage.range.end,
                "reason": damage.reason,
                "any_placement": damage.logs == Hit::Any,
                "placements": placements_of(damage),
            })
        };
        json!({
            "files": entries.files,
            "bytes": entries.bytes,
            "entries": entries.entries,
            "placements": entries.placements,
            "damaged": entries.damaged.iter().map(damage).collect::<Vec<_>>(),
            "torn_last_batch": entries.torn.as_ref().map(damage),
        })
    }

    fn damage_json(&self, damage: &Damage) -> Value {
        let queues = by_log(damage).into_iter().map(|(log, numbers)| {
            let (vhost, name) = match name_of(&self.offline, log) {
                Name::Queue(vhost, name) => (Some(vhost), Some(name)),
                _ => (None, None),
            };
            json!({
                "log": log.0,
                "vhost": vhost,
                "name": name,
                "messages": numbers.iter().map(Numbers::count).sum::<u64>(),
                "numbers": numbers.iter().map(|range| [range.first, range.last]).collect::<Vec<_>>(),
            })
        });
        json!({
            "file": damage.file,
            "from_byte": damage.range.start,
            "to_byte": damage.range.end,
            "reason": damage.reason,
            "any_queue": damage.logs == Hit::Any,
            "unknown_records": damage.unknown,
            "queues": queues.collect::<Vec<_>>(),
        })
    }
}

/// The placements that damage of the entry log hit.
fn placements_of(damage: &Damage) -> Vec<u32> {
    match &damage.logs {
        Hit::Logs(logs) => {
            logs.iter().filter_map(|log| PlacementId::of_log(*log)).map(|placement| placement.0).collect()
        }
        Hit::Any => Vec::new(),
    }
}

fn placements_text(damage: &Damage) -> String {
    match placements_of(damage).as_slice() {
        [] if damage.logs == Hit::Any => "any placement may have been hit".to_owned(),
        [] => "no placement was hit".to_owned(),
        placements => {
            let ids: Vec<String> = placements.iter().map(u32::to_string).collect();
            format!("placement {}: its replica has to be removed, and to join again", ids.join(", "))
        }
    }
}

fn set_aside_json(aside: &SetAside) -> Value {
    json!({ "file": aside.file, "messages": aside.messages })
}

fn log_json((log, messages): (LogId, u64)) -> Value {
    json!({ "log": log.0, "messages": messages })
}

/// The owner of a log.
pub(super) enum Name {
    Metadata,
    /// The vhost and the queue's name in it.
    Queue(String, String),
    Unknown,
}

pub(super) fn name_of(offline: &Offline, log: LogId) -> Name {
    match offline.queue(log) {
        _ if log == LogId::METADATA => Name::Metadata,
        Some(queue) => Name::Queue(queue.vhost.to_string(), queue.name.to_string()),
        None => Name::Unknown,
    }
}

fn plural(count: u64, word: &str) -> String {
    format!("{word}{}", if count == 1 { "" } else { "s" })
}

/// In the form `3, 7 to 9`.
struct Ranges<'a>(&'a [Numbers]);

impl fmt::Display for Ranges<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, range) in self.0.iter().take(RANGES_SHOWN).enumerate() {
            f.write_str(if i == 0 { "" } else { ", " })?;
            match range.first == range.last {
                true => write!(f, "{}", range.first)?,
                false => write!(f, "{} to {}", range.first, range.last)?,
            }
        }
        match self.0.len().saturating_sub(RANGES_SHOWN) {
            0 => Ok(()),
            more => write!(f, " and {more} more ranges: see --format json"),
        }
    }
}
