//! Regular expressions of administrators: permissions, policies, filters of lists and metrics.
//!
//! RabbitMQ's are those of PCRE. An expression without look-around, back-references and the like is matched in linear time. Any other
//! one is matched by backtracking, a bounded number of times, so that no name can make it stall a thread.

/// Largest compiled form of one expression, in bytes.
const COMPILED_BYTES_MAX: usize = 256 * 1024;

/// Longest expression that needs backtracking, in bytes. Those of linear time are limited by their compiled form.
const BACKTRACKING_BYTES_MAX: usize = 4096;

/// Most steps back of one match: less than a millisecond. `^(?!amq\.).*` takes none.
const BACKTRACKS_MAX: usize = 10_000;

/// A compiled regular expression.
#[derive(Clone, Debug)]
pub struct RegularExpression {
    engine: Engine,
}

/// The expressions that most users' permissions are. They match everything.
const EVERYTHING: [&str; 2] = [".*", "^.*"];

#[derive(Clone, Debug)]
enum Engine {
    /// It matches whatever is there. A compiled form of it takes 300 KB while it is made, and as many steps as any other to match.
    Everything,
    Linear(regex::Regex),
    Backtracking(fancy_regex::Regex),
}

impl RegularExpression {
    /// Compiles an expression. A match isn't anchored.
    ///
    /// # Errors
    /// The reason in words: it is malformed or too large, or has a part whose meaning differs from PCRE's.
    pub fn new(source: &str) -> Result<Self, String> {
        Self::compiled(source, false)
    }

    /// As [`RegularExpression::new`]; the case of letters doesn't matter.
    ///
    /// # Errors
    /// As [`RegularExpression::new`].
    pub fn without_case(source: &str) -> Result<Self, String> {
        Self::compiled(source, true)
    }

    fn compiled(source: &str, ignores_case: bool) -> Result<Self, String> {
        if EVERYTHING.contains(&source) {
            return Ok(Self { engine: Engine::Everything });
        }
        let compiled = regex::RegexBuilder::new(source)
            .case_insensitive(ignores_case)
            .size_limit(COMPILED_BYTES_MAX)
            .build()
            .map_err(|error| last_line(&error.to_string()));
        let linear = |regex| Self { engine: Engine::Linear(regex) };
        let compiled = match compiled {
            // `a++` is possessive to PCRE and a repetition of a repetition to `regex`.
            Ok(regex) if !has_possessive(source) => return Ok(linear(regex)),
            other => other,
        };
        match (compiled, Self::backtracking(source, ignores_case)) {
            (_, Ok(expression)) => Ok(expression),
            (Ok(regex), Err(_)) => Ok(linear(regex)),
            // The linear engine's reason names the part that is wrong, unless it only lacks a feature.
            (Err(reason), Err(Refusal::Malformed(why))) => Err(if lacks_feature(&reason) { why } else { reason }),
            (Err(_), Err(Refusal::Limit(why))) => Err(why),
        }
    }

    fn backtracking(source: &str, ignores_case: bool) -> Result<Self, Refusal> {
        if source.len() > BACKTRACKING_BYTES_MAX {
            return Err(Refusal::Malformed(format!(
                "with look-around or back-references it may have {BACKTRACKING_BYTES_MAX} bytes at most, and has {}",
                source.len()
            )));
        }
        if let Some(escape) = differs_from_pcre(source) {
            return Err(Refusal::Limit(format!("'{escape}' isn't taken: write the characters that it stands for")));
        }
        let built = fancy_regex::RegexBuilder::new(source)
            .case_insensitive(ignores_case)
            .backtrack_limit(BACKTRACKS_MAX)
            .delegate_size_limit(COMPILED_BYTES_MAX)
            .build();
        match built {
            Ok(regex) => Ok(Self { engine: Engine::Backtracking(regex) }),
            Err(error) => Err(Refusal::Malformed(last_line(&error.to_string()))),
        }
    }

    /// Whether it matches a part of `text`. An expression that would have to go back too often doesn't match.
    pub fn matches(&self, text: &str) -> bool {
        match &self.engine {
            Engine::Everything => true,
            Engine::Linear(regex) => regex.is_match(text),
            Engine::Backtracking(regex) => regex.is_match(text).unwrap_or(false),
        }
    }

    /// Whether a match of `text` would take more steps than are allowed.
    pub fn gives_up_on(&self, text: &str) -> bool {
        match &self.engine {
            Engine::Everything | Engine::Linear(_) => false,
            Engine::Backtracking(regex) => regex.is_match(text).is_err(),
        }
    }
}

/// The reason why an expression isn't compiled for backtracking.
enum Refusal {
    Malformed(String),
    /// It can't be replaced by the linear engine's reason.
    Limit(String),
}

fn lacks_feature(reason: &str) -> bool {
    reason.contains("look-around") || reason.contains("backreferences")
}

/// Errors of `regex` show the expression first.
fn last_line(error: &str) -> String {
    error.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
}

/// Whether a quantifier is followed by `+`, outside of classes and escapes.
fn has_possessive(source: &str) -> bool {
    let (mut in_class, mut after_quantifier) = (false, false);
    let mut letters = source.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => {
                letters.next();
                after_quantifier = false;
            }
            ']' => (in_class, after_quantifier) = (false, false),
            _ if in_class => {}
            '[' => (in_class, after_quantifier) = (true, false),
            '+' if after_quantifier => return true,
            // A lazy quantifier: a `+` behind it would repeat nothing.
            '?' if after_quantifier => after_quantifier = false,
            '*' | '+' | '?' | '}' => after_quantifier = true,
            _ => after_quantifier = false,
        }
    }
    false
}

/// An escape that the engine would take in another sense than PCRE: `\h` is a hexadecimal digit there.
fn differs_from_pcre(source: &str) -> Option<&'static str> {
    let mut letters = source.chars();
    while let Some(letter) = letters.next() {
        if letter == '\\' {
            match letters.next() {
                Some('h') => return Some("\\h"),
                Some('H') => return Some("\\H"),
                _ => {}
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matching<'a>(source: &str, texts: &[&'a str]) -> Vec<&'a str> {
        let expression = RegularExpression::new(source).unwrap_or_else(|reason| panic!("{source}: {reason}"));
        texts.iter().copied().filter(|text| expression.matches(text)).collect()
    }

    /// The answers are those of RabbitMQ 4.3.6 (`re:run` of Erlang, PCRE).
    #[test]
    fn expressions_of_pcre_match_the_names_that_rabbitmq_matches() {
        let names = ["amq.gen-1", "amqp", "orders", "orders.dlq", "logs.a.a", "", "rpc_1"];
        for (source, expected) in [
            (r"^(?!amq\.).*", &["amqp", "orders", "orders.dlq", "logs.a.a", "", "rpc_1"][..]),
            (r"^(?!amq\.)", &["amqp", "orders", "orders.dlq", "logs.a.a", "", "rpc_1"]),
            (r"^(?!amq\.|rpc_).+", &["amqp", "orders", "orders.dlq", "logs.a.a"]),
            (r"^(?!amq)(?!.*dlq$).+$", &["orders", "logs.a.a", "rpc_1"]),
            (r"^(?=.*\.)(?!amq\.).*", &["orders.dlq", "logs.a.a"]),
            (r"^((?!dlq).)*$", &["amq.gen-1", "amqp", "orders", "logs.a.a", "", "rpc_1"]),
            (r"(?<!orders)\.", &["amq.gen-1", "logs.a.a"]),
            (r"(?<=orders)\.dlq", &["orders.dlq"]),
            (r"\.(\w)\.\1$", &["logs.a.a"]),
            (r"^(?>orders|orders\.dlq)$", &["orders"]),
            (r"^[a-z]++$", &["amqp", "orders"]),
            (r"^[a-z]++s$", &[]),
            (r"^(?i)AMQ(?!P)", &["amq.gen-1"]),
        ] {
            assert_eq!(matching(source, &names), expected, "{source}");
        }
    }

    #[test]
    fn a_pattern_without_backtracking_stays_linear() {
        for source in ["^amq\\.", ".*$", "", "a{2,3}", "[a++]", r"a\++", "a+?"] {
            let expression = RegularExpression::new(source).expect(source);
            assert!(matches!(expression.engine, Engine::Linear(_)), "{source}");
        }
    }

    #[test]
    fn the_permission_of_most_users_matches_everything() {
        for source in EVERYTHING {
            let expression = RegularExpression::without_case(source).expect(source);
            assert!(matches!(expression.engine, Engine::Everything), "{source}");
            let texts = ["", "a", "two\nlines", "\u{fffd}"];
            assert_eq!(matching(source, &texts), texts);
            let compiled = regex::Regex::new(source).expect(source);
            assert!(texts.iter().all(|text| compiled.is_match(text)) && !expression.gives_up_on("a"));
        }
    }

    #[test]
    fn a_match_that_goes_back_too_often_is_none_and_ends_soon() {
        let expression = RegularExpression::new(r"^(?=x?)(a|a|aa(?!b))+$").expect("it is one");
        let name = format!("{}!", "a".repeat(254));
        assert!(!expression.matches(&name) && expression.gives_up_on(&name));
        assert!(expression.matches("aaa") && !expression.gives_up_on("aaa"));
    }

    #[test]
    fn a_wrong_expression_is_refused_with_the_reason() {
        let refused = |source: &str| RegularExpression::new(source).expect_err(source);
        assert!(refused("[").contains("unclosed character class"));
        assert!(refused(r"\w{5000}").contains("exceeds size limit"));
        assert!(refused(&format!("(?!a){}", "b".repeat(5000))).contains("at most, and has 5005"));
        assert!(refused(r"^(?!a)\h").starts_with("'\\h' isn't taken"));
        for source in ["^(?!amq", "(?R)(", r"(a)\2"] {
            assert!(!refused(source).is_empty());
        }
    }
}
