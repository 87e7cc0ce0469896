/// The fields of a journal entry besides its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournaldFields(pub Vec<JournaldField>);

/// A field of a journal entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JournaldField {
    /// `NAME="text"`: a constant.
    Text(String, String),
    /// `NAME=field`: a field of the log line, if it has it.
    Field(String, String),
}

impl Default for JournaldFields {
    fn default() -> Self {
        Self::parse(
            "SYSLOG_IDENTIFIER=\"rabbitmq-server\" syslog_timestamp syslog_pid priority ERL_PID=pid CODE_FILE=file \
             CODE_LINE=line CODE_MFA=mfa",
        )
        .expect("the default is right")
    }
}

impl JournaldFields {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut fields = Vec::new();
        let mut rest = text.trim_start();
        while !rest.is_empty() {
            let end = rest.find(|c: char| c.is_whitespace() || c == '=').unwrap_or(rest.len());
            let (name, behind) = rest.split_at(end);
            let field = match behind.strip_prefix('=') {
                None => {
                    rest = behind;
                    JournaldField::Field(name.to_ascii_uppercase(), name.to_owned())
                }
                Some(value) => match value.strip_prefix('"') {
                    Some(quoted) => {
                        let (text, behind) =
                            quoted.split_once('"').ok_or_else(|| format!("a quote isn't closed: '{value}'"))?;
                        rest = behind;
                        JournaldField::Text(name.to_owned(), text.to_owned())
                    }
                    None => {
                        let end = value.find(char::is_whitespace).unwrap_or(value.len());
                        let (field, behind) = value.split_at(end);
                        rest = behind;
                        JournaldField::Field(name.to_owned(), field.to_owned())
                    }
                },
            };
            let (JournaldField::Text(name, _) | JournaldField::Field(name, _)) = &field;
            let is_name = name.starts_with(|c: char| c.is_ascii_uppercase())
                && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
            if !is_name {
                return Err(format!("'{name}' is no name of a field in a journal: capitals, digits and _"));
            }
            fields.push(field);
            rest = rest.trim_start();
        }
        Ok(Self(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read() {
        let fields = JournaldFields::parse("A=\"x y\" priority B_1=pid").expect("is right");
        let field = |name: &str, of: &str| JournaldField::Field(name.into(), of.into());
        let expected =
            [JournaldField::Text("A".into(), "x y".into()), field("PRIORITY", "priority"), field("B_1", "pid")];
        assert_eq!(fields.0, expected);
        assert_eq!(JournaldFields::default().0.len(), 8);
        for wrong in ["a=pid", "A=\"x", "=x", "_A=pid"] {
            assert!(JournaldFields::parse(wrong).is_err(), "{wrong}");
        }
    }
}
