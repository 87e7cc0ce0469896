//! The text of a scenario.

use leveret_model::QueueType;

const INDENT: &str = "    ";

enum Line {
    /// Empty, or a comment.
    Other(String),
    /// A step, and its line number.
    Step(usize, String),
}

pub(crate) struct Script {
    first: String,
    pub(crate) types: Vec<QueueType>,
    lines: Vec<Line>,
}

impl Script {
    /// # Errors
    /// The first line doesn't name types of queues.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut lines = text.lines();
        let first = lines.next().unwrap_or_default().to_owned();
        let names = first.strip_prefix("types:").ok_or("line 1: `types:` and types of queues are expected")?;
        let known = |name| QueueType::parse(name).ok_or_else(|| format!("line 1: there is no type `{name}`"));
        let types = names.split_whitespace().map(known).collect::<Result<_, _>>()?;
        let lines = lines.enumerate().filter(|(_, line)| !line.starts_with(INDENT));
        let lines = lines.map(|(at, line)| match line.trim() {
            "" => Line::Other(String::new()),
            comment if comment.starts_with('#') => Line::Other(comment.to_owned()),
            step => Line::Step(at + 2, step.to_owned()),
        });
        Ok(Self { first, types, lines: lines.collect() })
    }

    /// The text with the current answers of its steps.
    ///
    /// # Errors
    /// The error of the first step that fails.
    pub(crate) fn answer(
        &self,
        answer: &mut impl FnMut(usize, &str) -> Result<Vec<String>, String>,
    ) -> Result<String, String> {
        let mut text = format!("{}\n", self.first);
        for line in &self.lines {
            match line {
                Line::Other(other) => text += &format!("{other}\n"),
                Line::Step(at, step) => {
                    text += &format!("{step}\n");
                    answer(*at, step)?.iter().for_each(|answer| text += &format!("{INDENT}{answer}\n"));
                }
            }
        }
        Ok(text)
    }
}
