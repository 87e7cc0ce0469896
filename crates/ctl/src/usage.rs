//! The usage line of a command, which defines its arguments: `<name>` is mandatory, `[<name>]` optional,
//! `[<name>...]` repeatable, `[--flag]` and `[--option <value>]` are options.

/// A part of a usage line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UsagePart {
    /// A positional argument.
    Word {
        /// Its name.
        name: &'static str,
        /// Whether it is mandatory.
        required: bool,
        /// Whether it is repeatable.
        many: bool,
    },
    /// An option.
    Option {
        /// Its name without dashes.
        name: &'static str,
        /// Whether it takes a value.
        takes_value: bool,
    },
}

/// The parts of a usage line.
pub(crate) fn parts(line: &'static str) -> Vec<UsagePart> {
    let mut parts = Vec::new();
    let mut rest = line.trim();
    while !rest.is_empty() {
        let (part, after) = match rest.strip_prefix('[') {
            Some(inner) => {
                let end = inner.find(']').unwrap_or(inner.len());
                (optional(&inner[..end]), inner[end..].trim_start_matches(']'))
            }
            None => {
                let end = rest.find(' ').unwrap_or(rest.len());
                (word(&rest[..end], true), &rest[end..])
            }
        };
        parts.push(part);
        rest = after.trim_start();
    }
    parts
}

fn optional(text: &'static str) -> UsagePart {
    match text.strip_prefix("--") {
        Some(option) => {
            UsagePart::Option { name: option.split(' ').next().unwrap_or(option), takes_value: option.contains(' ') }
        }
        None => word(text, false),
    }
}

fn word(text: &'static str, required: bool) -> UsagePart {
    let (text, many) = text.strip_suffix("...").map_or((text, false), |text| (text, true));
    UsagePart::Word { name: text.trim_start_matches('<').trim_end_matches('>'), required, many }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_usage_line_defines_the_arguments() {
        let line = "<username> [<password>] [--pre-hashed-password] [--unit <unit>] [<column>...]";
        let word = |name, required, many| UsagePart::Word { name, required, many };
        let expected = [
            word("username", true, false),
            word("password", false, false),
            UsagePart::Option { name: "pre-hashed-password", takes_value: false },
            UsagePart::Option { name: "unit", takes_value: true },
            word("column", false, true),
        ];
        assert_eq!(parts(line), expected);
        assert_eq!(parts(""), []);
        assert_eq!(parts("<tag>..."), [word("tag", true, true)]);
    }
}
