use std::io::{self, Write};
use std::ops::ControlFlow;

use leveret_broker::offline::{Offline, encoding_name, shared_reference, stored_message};
use leveret_log::format::record::{Record, RecordKind, decode_ranges};
use leveret_log::{Dumped, EntryRecord, LogId, PlacementId, SettleReason};
use serde_json::{Map, Value, json};

use super::directory::{CannotCheck, OfflineDirectory};
use super::report::{Form, Name, name_of};
use crate::terminal::{harmless, harmless_json};

/// The part of a directory that is shown.
#[derive(Clone, Debug)]
pub struct DumpOptions {
    /// One file. If there is none, all files in the order in which a start reads them.
    pub file: Option<String>,
    /// Only records of the queues with this name.
    pub queue: Option<String>,
    /// Only records from this position on; with a queue, its messages from this number on.
    pub from: Option<u64>,
    /// Largest number of records.
    pub limit: u64,
    /// Whether bodies are shown.
    pub bodies: bool,
    /// The format of the output.
    pub form: Form,
}

/// Writes the contents of a directory's files, one line per record.
///
/// # Errors
/// The directory can't be read, or `out` can't be written any more.
pub fn dump(directory: &OfflineDirectory, options: &DumpOptions, out: &mut dyn Write) -> Result<(), CannotCheck> {
    let log_options = &directory.options;
    let mut offline = Offline::default();
    // Only the names of the queues are needed: errors that prevent a start don't prevent the dump.
    let looked = leveret_log::look(&directory.disk, log_options, &mut offline);
    if let Err(error @ leveret_log::StorageError::Version { .. }) = looked {
        return Err(error.into());
    }
    let logs = options.queue.as_ref().map(|name| offline.logs_named(name));
    let files = match &options.file {
        Some(file) => vec![file.clone()],
        None => leveret_log::files(&directory.disk, log_options)?,
    };
    let mut dump = Dump { offline, options, logs, left: options.limit, out, failed: None };
    for file in files {
        leveret_log::dump(&directory.disk, log_options, &file, &mut |found| dump.show(&file, &found))?;
        if dump.left == 0 || dump.failed.is_some() {
            break;
        }
    }
    match dump.failed {
        // The reader has closed the pipe.
        Some(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Some(source) => Err(CannotCheck::Unreadable { path: "the output".into(), source }),
        None => Ok(()),
    }
}

struct Dump<'a> {
    offline: Offline,
    options: &'a DumpOptions,
    logs: Option<Vec<LogId>>,
    left: u64,
    out: &'a mut dyn Write,
    failed: Option<io::Error>,
}

impl Dump<'_> {
    fn show(&mut self, file: &str, found: &Dumped<'_>) -> ControlFlow<()> {
        if !self.is_wanted(found) {
            return ControlFlow::Continue(());
        }
        if self.left == 0 {
            return ControlFlow::Break(());
        }
        if matches!(found, Dumped::Record { .. } | Dumped::State { .. }) {
            self.left -= 1;
        }
        let line = self.line(found);
        let written = match self.options.form {
            Form::Json => {
                let mut line = line;
                line.insert("file".into(), file.into());
                writeln!(self.out, "{}", harmless_json(&Value::Object(line).to_string()))
            }
            Form::Text => writeln!(self.out, "{}", harmless(&text(file, &line))),
        };
        match written {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                self.failed = Some(error);
                ControlFlow::Break(())
            }
        }
    }

    fn is_wanted(&self, found: &Dumped<'_>) -> bool {
        let of_log = |log: &LogId| self.logs.as_ref().is_none_or(|logs| logs.contains(log));
        let is_narrow = self.logs.is_some() || self.options.from.is_some();
        let from = self.options.from.unwrap_or_default();
        match found {
            Dumped::Record { log, number, messages, position, .. } => {
                let last = number.map(|number| number + (u64::from(*messages) - 1));
                let place = if self.logs.is_some() { last } else { *position };
                of_log(log) && (self.options.from.is_none() || place.is_some_and(|place| place >= from))
            }
            Dumped::State { log, .. } => of_log(log) && self.options.from.is_none(),
            Dumped::Damaged { .. } => true,
            Dumped::File(_) | Dumped::Batch { .. } | Dumped::Checkpoint { .. } => !is_narrow,
        }
    }

    fn line(&self, found: &Dumped<'_>) -> Map<String, Value> {
        let line = match found {
            Dumped::File(header) => {
                let mut line = json!({
                    "what": "file", "sequence": header.sequence, "node_id": header.node_id,
                    "salt": format!("{:016x}", header.salt), "length": header.length,
                });
                if header.batches_in > 0 {
                    line["batches_in"] = json!(header.batches_in);
                }
                line
            }
            Dumped::Batch { offset, header } => {
                let mut line = json!({
                    "what": "batch", "offset": offset, "sequence": header.sequence,
                    "first_position": header.first_position, "records": header.records, "bytes": header.record_bytes,
                    "closing": header.flags & 1 != 0, "restart": header.flags & 2 != 0,
                });
                if header.unsynced > 0 {
                    line["unsynced"] = json!(header.unsynced);
                }
                line
            }
            Dumped::Record { offset, position, log, number, messages, record } => {
                let mut line = json!({ "what": "record", "offset": offset, "position": position });
                match PlacementId::of_log(*log) {
                    Some(placement) => entry_fields(&mut line, placement, record),
                    None => {
                        self.name(&mut line, *log);
                        line["number"] = json!(number);
                        line["messages"] = json!((*messages > 1).then_some(*messages));
                        record_fields(&mut line, record, self.options.bodies);
                    }
                }
                line
            }
            Dumped::Checkpoint { sequence, floor, position, segments } => json!({
                "what": "checkpoint", "sequence": sequence, "floor": floor, "position": position,
                "segments": segments.iter().map(|(id, length)| json!({"id": id, "length": length})).collect::<Vec<_>>(),
            }),
            Dumped::State { log, next, position, live, bytes, state } => {
                let mut line = json!({ "what": "state" });
                self.name(&mut line, *log);
                line["next"] = json!(next);
                line["position"] = json!(position);
                line["live"] = json!(live);
                line["bytes"] = json!(bytes);
                line["state_bytes"] = json!(state.len());
                line
            }
            Dumped::Damaged { range, reason } => json!({
                "what": "damaged", "from_byte": range.start, "to_byte": range.end, "reason": reason,
            }),
        };
        match line {
            // Unknown values aren't shown.
            Value::Object(fields) => fields.into_iter().filter(|(_, value)| !value.is_null()).collect(),
            _ => Map::new(),
        }
    }

    fn name(&self, line: &mut Value, log: LogId) {
        line["log"] = json!(log.0);
        if let Name::Queue(vhost, name) = name_of(&self.offline, log) {
            line["vhost"] = vhost.into();
            line["queue"] = name.into();
        }
    }
}

/// The fields of a record of the entry log.
fn entry_fields(line: &mut Value, placement: PlacementId, record: &Record<'_>) {
    line["placement"] = json!(placement.0);
    line["length"] = json!(record.payload.len());
    match EntryRecord::of(placement, record) {
        Ok(EntryRecord::Entry(entry, is_carried)) => {
            line["kind"] = "entry".into();
            line["entry"] = format!("{:?}", entry.kind).to_lowercase().into();
            line["index"] = json!(entry.index);
            line["term"] = json!(entry.term);
            line["led_by"] = json!(entry.led_by);
            line["clock"] = json!(entry.clock);
            line["committed"] = json!(entry.committed);
            line["carried"] = json!(is_carried.then_some(true));
        }
        Ok(EntryRecord::Vote(vote, is_carried)) => {
            line["kind"] = "vote".into();
            line["term"] = json!(vote.term);
            line["replica"] = json!(vote.replica);
            line["leader"] = json!(vote.is_leader);
            line["carried"] = json!(is_carried.then_some(true));
        }
        Ok(EntryRecord::Mark(mark)) => {
            line["kind"] = "mark".into();
            line["first"] = json!(mark.first);
            line["purged_term"] = json!(mark.purged_term);
            line["end"] = json!(mark.end);
            line["gone"] = json!(mark.is_gone.then_some(true));
            line["damaged"] = json!(mark.is_damaged.then_some(true));
        }
        Err(reason) => line["wrong"] = reason.into(),
    }
}

fn record_fields(line: &mut Value, record: &Record<'_>, bodies: bool) {
    line["kind"] = format!("{:?}", record.kind).to_lowercase().into();
    line["group"] = json!(record.group);
    line["length"] = json!(record.payload.len());
    match record.kind {
        RecordKind::Message => message_fields(line, record.payload, bodies),
        RecordKind::Settle => {
            let reason = SettleReason::from_code(record.detail);
            line["reason"] = reason.map_or("unknown".into(), |reason| format!("{reason:?}").to_lowercase()).into();
            let ranges = decode_ranges(record.payload).unwrap_or_default();
            line["settled"] = ranges.iter().map(|range| json!([range.first, range.last])).collect();
        }
        RecordKind::References => line["shared"] = json!(shared_reference(record.payload)),
        RecordKind::Control => line["control"] = json!(record.detail),
        RecordKind::Chunk | RecordKind::GroupCommit | RecordKind::Close | RecordKind::Copies | RecordKind::Filler => {}
    }
}

fn message_fields(line: &mut Value, payload: &[u8], bodies: bool) {
    let Some((message, file)) = stored_message(payload) else {
        line["message"] = "not a stored message of this version".into();
        return;
    };
    let text = |bytes: &[u8]| Value::from(String::from_utf8_lossy(bytes));
    let envelope = &message.envelope;
    line["encoding"] = encoding_name(message.encoding).into();
    line["durable"] = json!(envelope.durable);
    line["priority"] = json!(envelope.priority);
    line["exchange"] = text(envelope.exchange);
    line["routing_keys"] = message.routing_keys().map(text).collect();
    line["received_ms"] = json!(envelope.received_ms);
    line["expiry_ms"] = json!((envelope.expiry_ms != 0).then_some(envelope.expiry_ms));
    line["overlay_bytes"] = json!(message.overlay.as_bytes().len());
    line["properties_bytes"] = json!(message.properties.len());
    line["body_bytes"] = json!(file.map_or(message.body.len(), |(_, length)| length));
    if let Some((id, _)) = file {
        line["body_file"] = json!(id);
    } else if bodies {
        match std::str::from_utf8(message.body) {
            Ok(body) => line["body"] = body.into(),
            Err(_) => {
                let hex: String = message.body.iter().map(|byte| format!("{byte:02x}")).collect();
                line["body_hex"] = hex.into();
            }
        }
    }
}

/// A line in the form `wal-... record offset=640 position=5 ...`.
fn text(file: &str, line: &Map<String, Value>) -> String {
    let what = line.get("what").and_then(Value::as_str).unwrap_or_default();
    let fields = line.iter().filter(|(key, _)| *key != "what").map(|(key, value)| format!(" {key}={value}"));
    format!("{file} {what}{}", fields.collect::<String>())
}
