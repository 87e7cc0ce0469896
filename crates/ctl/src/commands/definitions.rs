//! Definitions: all declared objects, as JSON.

use std::fs;

use serde_json::{Value, json};

use super::{CTL, Command, CommandGroup};
use crate::answer::CommandOutput;
use crate::call::{self, Call};
use crate::failure::Failure;

#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    Command::new(CTL, "export_definitions", CommandGroup::Definitions, "<file> [--format <format>]", "Exports definitions as JSON to a file, or with - to standard output", export),
    Command::new(CTL, "import_definitions", CommandGroup::Definitions, "[<file>] [--format <format>] [--skip-if-unchanged] [--skip-unsupported] [--dry-run]", "Imports definitions in JSON from a file or standard input; with --skip-unsupported without objects that can't be imported; --dry-run only lists these", import),
];

fn check_format(call: &Call<'_>) -> Result<(), Failure> {
    match call.given("format").map(str::to_ascii_lowercase).as_deref() {
        None | Some("json") => Ok(()),
        Some("erlang") => {
            Err(Failure::Usage("Error:\nErlang's term format isn't there yet: use --format json".to_owned()))
        }
        Some(_) => Err(Failure::bad_argument("Bad argument: Format should be either json or erlang")),
    }
}

fn export(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    check_format(call)?;
    let file = call.word("file").to_owned();
    let node = call.node()?;
    let text = node.get("/api/definitions")?.to_string();
    if file == "-" {
        return Ok(CommandOutput::Report { text, value: node.get("/api/definitions")? });
    }
    call.say(&format!("Exporting definitions in JSON to a file at \"{file}\" ..."));
    fs::write(&file, text)
        .map_err(|reason| Failure::Data(format!("Error:\nUnable to write to the file {file}: {reason}")))?;
    Ok(CommandOutput::Done)
}

fn import(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    check_format(call)?;
    let (text, from) = match call.given("file").filter(|file| *file != "-") {
        Some(file) => {
            let missing = |_| Failure::bad_argument(&format!("Bad argument: File {file} does not exist"));
            (fs::read_to_string(file).map_err(missing)?, format!("a file at \"{file}\""))
        }
        None => (call::input()?, "standard input".to_owned()),
    };
    let node = call.node()?;
    call.say(&format!("Importing definitions in JSON from {from} ..."));
    let definitions: Value = serde_json::from_str(&text).map_err(|reason| {
        Failure::Data(format!("Error:\nFailed to deserialise input (format: JSON) (error: {reason})"))
    })?;
    if call.has("skip-if-unchanged") {
        let unchanged = node.get("/api/definitions")?;
        if contains(&unchanged, &definitions) {
            call.say("Definitions are unchanged: nothing to do.");
            return Ok(CommandOutput::Done);
        }
    }
    if call.has("dry-run") {
        let response = node.request("POST", "/api/definitions?dry_run=true", Some(&definitions))?;
        return match response.status {
            200 => Ok(preview(response.json())),
            _ => Err(Failure::refused(&response.reason())),
        };
    }
    let query = if call.has("skip-unsupported") { "?skip_unsupported=true" } else { "" };
    node.change("POST", &format!("/api/definitions{query}"), definitions)?;
    call.say("Successfully imported definitions.");
    Ok(CommandOutput::Done)
}

/// The effects of an import that wasn't done.
fn preview(value: Value) -> CommandOutput {
    const PARTS: [(&str, &str); 5] = [
        ("unsupported", "not built yet; --skip-unsupported leaves it out"),
        ("refused", "refused; --skip-unsupported leaves it out"),
        ("left_out", "left out, since its queue is neither there nor among the definitions"),
        ("without_effect", "kept without an effect"),
        ("ignored", "ignored"),
    ];
    let mut text = match value["would_be_imported"] == json!(true) {
        true => format!("The definitions can be imported, with {} changes\n", value["changes"]),
        false => "The definitions can't be imported as they are\n".to_owned(),
    };
    for (part, what) in PARTS {
        for object in value[part].as_array().into_iter().flatten().filter_map(Value::as_str) {
            text.push_str(&format!("{what}: {object}\n"));
        }
    }
    CommandOutput::Report { text, value }
}

/// Whether every object of some definitions is in others.
fn contains(all: &Value, some: &Value) -> bool {
    let lists = some.as_object().into_iter().flatten().filter_map(|(key, value)| Some((key, value.as_array()?)));
    let empty = json!([]);
    lists.into_iter().all(|(key, list)| {
        let known = all.get(key).unwrap_or(&empty).as_array().cloned().unwrap_or_default();
        list.iter().all(|object| known.contains(object))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_unchanged_if_all_objects_exist() {
        let all = json!({"users": [{"name": "a"}, {"name": "b"}], "product_version": "4"});
        assert!(contains(&all, &json!({"users": [{"name": "b"}], "product_version": "3"})));
        assert!(!contains(&all, &json!({"users": [{"name": "c"}]})));
        assert!(!contains(&all, &json!({"queues": [{"name": "c"}]})));
    }
}
