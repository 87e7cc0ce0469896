//! The usage line of a command, which says what it takes: `<name>` has to be there, `[<name>]` may be, `[<name>...]` may
//! be often, `[--flag]` and `[--option <value>]` are options.

/// A part of a usage line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// A word in its place.
    Word {
        /// What it is.
        name: &'static str,
        /// Whether it has to be there.
        required: bool,
        /// Whether more than one may be.
        many: bool,
    },
    /// An option.
    Option {
        /// Without its dashes.
        name: &'static str,
        /// Whether a value stands behind it.
        takes_value: bool,
    },
}

/// The parts of a line.
pub(crate) fn parts(line: &'static str) -> Vec<Part> {
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

fn optional(text: &'static str) -> Part {
    match text.strip_prefix("--") {
        Some(option) => {
            Part::Option { name: option.split(' ').next().unwrap_or(option), takes_value: option.contains(' ') }
        }
        None => word(text, false),
    }
}

fn word(text: &'static str, required: bool) -> Part {
    let (text, many) = text.strip_suffix("...").map_or((text, false), |text| (text, true));
    Part::Word { name: text.trim_start_matches('<').trim_end_matches('>'), required, many }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_a_command_takes() {
        let line = "<username> [<password>] [--pre-hashed-password] [--unit <unit>] [<column>...]";
        let word = |name, required, many| Part::Word { name, required, many };
        let expected = [
            word("username", true, false),
            word("password", false, false),
            Part::Option { name: "pre-hashed-password", takes_value: false },
            Part::Option { name: "unit", takes_value: true },
            word("column", false, true),
        ];
        assert_eq!(parts(line), expected);
        assert_eq!(parts(""), []);
        assert_eq!(parts("<tag>..."), [word("tag", true, true)]);
    }
}
