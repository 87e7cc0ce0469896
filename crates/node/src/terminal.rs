/// A text in one line that a terminal shows and doesn't interpret. Control characters, and marks that change the
/// direction of the text or end a line, are written as JSON escapes (`\u001b`), because names are chosen by clients.
#[must_use]
pub fn harmless(text: &str) -> String {
    use std::fmt::Write as _;

    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter.is_control()
            || matches!(letter, '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        {
            // Writing into a string doesn't fail.
            true => drop(write!(out, "\\u{:04x}", u32::from(letter))),
            false => out.push(letter),
        }
    }
    out
}

/// JSON that a terminal shows and doesn't interpret: JSON itself allows unescaped characters above 0x7e.
pub(crate) fn harmless_json(json: &str) -> String {
    json.split('\n').map(harmless).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_not_command_a_terminal() {
        assert_eq!(harmless("a\r\n\u{1b}[31m\u{9b}b\u{202e}"), r"a\u000d\u000a\u001b[31m\u009bb\u202e");
        assert_eq!(harmless("Größe 'x'"), "Größe 'x'");
        let name = "a\r\n\u{1b}\u{7f}\u{9b}\u{202e}";
        let json = harmless_json(&format!("{:#}", serde_json::json!({ "name": name })));
        assert!(
            json.contains('\n') && !json.contains(|letter: char| letter.is_control() && letter != '\n'),
            "{json:?}"
        );
        assert_eq!(serde_json::from_str::<serde_json::Value>(&json).expect("JSON")["name"], name);
    }
}
