use std::collections::BTreeMap;

use super::LogLevel;

/// The format of a log line: `log.OUTPUT.formatter.*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    /// `formatter`: whether a line is a JSON object rather than text.
    pub json: bool,
    /// `formatter.time_format`.
    pub time: TimeFormat,
    /// `formatter.level_format`.
    pub level: LevelFormat,
    /// `formatter.single_line`: whether line ends within a message are replaced by commas.
    pub single_line: bool,
    /// `formatter.plaintext.format`: the part before the message, repeated for each of its lines.
    pub prefix: Vec<Piece>,
    /// The part after the message.
    pub suffix: Vec<Piece>,
    /// `formatter.json.field_map`.
    pub fields: FieldMap,
    /// `formatter.json.verbosity_map`: a number per level, in the field `verbosity`.
    pub verbosity: BTreeMap<LogLevel, i64>,
}

impl Default for Format {
    fn default() -> Self {
        let (prefix, suffix) = pieces("$time [$level] $pid $msg").expect("the default is right");
        Self {
            json: false,
            time: TimeFormat::Rfc3339(' '),
            level: LevelFormat { letters: None, upper: false },
            single_line: false,
            prefix,
            suffix,
            fields: FieldMap::parse("time level msg").expect("the default is right"),
            verbosity: BTreeMap::new(),
        }
    }
}

impl Format {
    /// Sets `plaintext.format`.
    pub(crate) fn set_text(&mut self, text: &str) -> Result<(), String> {
        (self.prefix, self.suffix) = pieces(text)?;
        Ok(())
    }

    /// Sets `json.verbosity_map`: `debug=2 info=1`, also with colons.
    pub(crate) fn set_verbosity(&mut self, text: &str) -> Result<(), String> {
        self.verbosity.clear();
        for word in text.split_whitespace() {
            let (level, number) = word.split_once([':', '=']).unwrap_or((word, ""));
            let named = LogLevel::named(level).zip(number.parse().ok());
            let (level, number) = named.ok_or_else(|| format!("expected level:number, got '{word}'"))?;
            self.verbosity.insert(level, number);
        }
        Ok(())
    }
}

/// A part of a line of text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Literal text.
    Text(String),
    /// A field with this name.
    Field(String),
}

/// The parts before and after `$msg`.
fn pieces(text: &str) -> Result<(Vec<Piece>, Vec<Piece>), String> {
    let (mut before, mut pieces, mut has_message) = (Vec::new(), Vec::new(), false);
    let mut rest = text;
    while !rest.is_empty() {
        let (plain, after) = rest.split_at(rest.find('$').unwrap_or(rest.len()));
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain.to_owned()));
        }
        let Some(variable) = after.strip_prefix('$') else { break };
        let end = variable.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(variable.len());
        let (name, behind) = variable.split_at(end);
        match name {
            "" => return Err(format!("a $ in '{text}' names no field")),
            "msg" if has_message => return Err(format!("'{text}' has $msg twice")),
            "msg" => {
                has_message = true;
                before = std::mem::take(&mut pieces);
            }
            name => pieces.push(Piece::Field(name.to_owned())),
        }
        rest = behind;
    }
    if has_message { Ok((before, pieces)) } else { Err(format!("'{text}' has no $msg, so that nothing would be told")) }
}

/// The format of a time, always in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeFormat {
    /// RFC 3339 in microseconds, with this character between date and time.
    Rfc3339(char),
    /// Microseconds since 1970.
    EpochMicroseconds,
    /// Seconds since 1970, with six decimal digits in text and none in JSON.
    EpochSeconds,
    /// Milliseconds without an offset, as before RabbitMQ 3.9.
    Lager,
}

impl TimeFormat {
    pub(crate) fn named(name: &str) -> Result<Self, String> {
        match name {
            "rfc3339_space" => Ok(TimeFormat::Rfc3339(' ')),
            "rfc3339_T" => Ok(TimeFormat::Rfc3339('T')),
            "epoch_usecs" => Ok(TimeFormat::EpochMicroseconds),
            "epoch_secs" => Ok(TimeFormat::EpochSeconds),
            "lager_default" => Ok(TimeFormat::Lager),
            other => {
                Err(format!("'{other}' is none of rfc3339_space, rfc3339_T, epoch_usecs, epoch_secs and lager_default"))
            }
        }
    }
}

/// The format of a level's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelFormat {
    /// 3 or 4 letters; `None` for the whole name.
    pub letters: Option<u8>,
    /// Whether it is in capitals.
    pub upper: bool,
}

impl LevelFormat {
    pub(crate) fn named(name: &str) -> Result<Self, String> {
        let (letters, upper) = match name {
            "lc" => (None, false),
            "uc" => (None, true),
            "lc3" => (Some(3), false),
            "uc3" => (Some(3), true),
            "lc4" => (Some(4), false),
            "uc4" => (Some(4), true),
            other => return Err(format!("'{other}' is none of lc, uc, lc3, uc3, lc4 and uc4")),
        };
        Ok(Self { letters, upper })
    }
}

/// Names and order of the fields of a JSON object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldMap {
    /// The first fields, in order: our name of the field and the name to write, `None` to omit the field.
    pub first: Vec<(String, Option<String>)>,
    /// Whether fields that aren't listed follow.
    pub rest: bool,
}

impl FieldMap {
    /// Parses `time:ts level msg pid:- *:-`: a renamed field, two unchanged ones, an omitted one, and no others.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut map = FieldMap { first: Vec::new(), rest: true };
        for word in text.split_whitespace() {
            match word.split_once(':') {
                None => map.first.push((word.to_owned(), Some(word.to_owned()))),
                Some(("*", "-")) => map.rest = false,
                Some((from, to)) if from.is_empty() || to.is_empty() || from == "*" => {
                    return Err(format!("expected field, field:name, field:- or *:-, got '{word}'"));
                }
                Some((from, "-")) => map.first.push((from.to_owned(), None)),
                Some((from, to)) => map.first.push((from.to_owned(), Some(to.to_owned()))),
            }
        }
        Ok(map)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_is_split_at_the_message() {
        let field = |name: &str| Piece::Field(name.into());
        let text = |text: &str| Piece::Text(text.into());
        assert_eq!(
            pieces("$time [$level] $pid $msg").expect("is right"),
            (vec![field("time"), text(" ["), field("level"), text("] "), field("pid"), text(" ")], vec![])
        );
        assert_eq!(pieces("$msg ($line)").expect("is right"), (vec![], vec![text(" ("), field("line"), text(")")]));
        for wrong in ["$time", "a $ b $msg", "$msg $msg"] {
            assert!(pieces(wrong).expect_err(wrong).contains(wrong));
        }
    }

    #[test]
    fn fields_are_renamed_left_out_and_ordered() {
        let map = FieldMap::parse("time:ts msg pid:- *:-").expect("is right");
        let kept = |from: &str, to: Option<&str>| (from.to_owned(), to.map(str::to_owned));
        assert_eq!(map.first, [kept("time", Some("ts")), kept("msg", Some("msg")), kept("pid", None)]);
        assert!(!map.rest && Format::default().fields.rest);
        assert!(FieldMap::parse("time:").is_err() && FieldMap::parse("*:x").is_err());
    }
}
