//! Random expressions: the compiled form gives what an evaluator gives that takes no shortcuts, and the text of any
//! expression is parsed as it was meant.

use crate::message::{Message, Owned};
use leveret_selector::{Budget, Dialect, MessageField, Selector, Verdict};
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Tree {
    Bool(bool),
    Int(i64),
    Quarters(i32),
    Text(String),
    Field(&'static str),
    Not(Box<Tree>),
    /// With an operator of `OR AND = <> < <= > >= + - * / %`.
    Binary(&'static str, Box<Tree>, Box<Tree>),
    Sign(char, Box<Tree>),
    In(bool, Box<Tree>, Vec<Tree>),
    Like(bool, Box<Tree>, String),
    IsNull(bool, &'static str),
}

const FIELDS: [&str; 5] = ["a", "b", "c", "d", "p.subject"];

fn tree() -> impl Strategy<Value = Tree> {
    let field = prop::sample::select(&FIELDS[..]);
    let leaf = prop_oneof![
        any::<bool>().prop_map(Tree::Bool),
        (0_i64..6).prop_map(Tree::Int),
        (0_i32..20).prop_map(Tree::Quarters),
        "[ab'_%é]{0,3}".prop_map(Tree::Text),
        field.clone().prop_map(Tree::Field),
        (any::<bool>(), field).prop_map(|(not, field)| Tree::IsNull(not, field)),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        let boxed = inner.clone().prop_map(Box::new);
        let logical = prop::sample::select(&["AND", "OR"][..]);
        let other = prop::sample::select(&["=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/", "%"][..]);
        let operator = prop_oneof![logical, other];
        prop_oneof![
            boxed.clone().prop_map(Tree::Not),
            (operator, boxed.clone(), boxed.clone())
                .prop_map(|(operator, left, right)| Tree::Binary(operator, left, right)),
            (prop::sample::select(&['+', '-'][..]), boxed.clone())
                .prop_map(|(sign, operand)| Tree::Sign(sign, operand)),
            (any::<bool>(), boxed.clone(), prop::collection::vec(inner, 1..3))
                .prop_map(|(not, operand, list)| Tree::In(not, operand, list)),
            (any::<bool>(), boxed, "[ab_%é]{0,4}")
                .prop_map(|(not, operand, pattern)| Tree::Like(not, operand, pattern)),
        ]
    })
}

/// The level of the grammar at which a tree stands without parentheses.
fn level(tree: &Tree) -> u8 {
    match tree {
        Tree::Binary("OR", ..) => 0,
        Tree::Binary("AND", ..) => 1,
        Tree::Not(_) => 2,
        Tree::Binary("=" | "<>" | "<" | "<=" | ">" | ">=", ..) | Tree::In(..) | Tree::Like(..) | Tree::IsNull(..) => 3,
        Tree::Binary("+" | "-", ..) => 4,
        Tree::Binary(..) => 5,
        Tree::Sign(..) => 6,
        _ => 7,
    }
}

/// The text of a tree, in parentheses if it stands at a lower level than `lowest`.
fn text(tree: &Tree, lowest: u8) -> String {
    let level = level(tree);
    let not = |not: bool| if not { "NOT " } else { "" };
    let inner = match tree {
        Tree::Bool(value) => value.to_string().to_uppercase(),
        Tree::Int(value) => value.to_string(),
        Tree::Quarters(value) => format!("{:.2}", f64::from(*value) / 4.0),
        Tree::Text(value) => format!("'{}'", value.replace('\'', "''")),
        Tree::Field(name) => (*name).to_owned(),
        Tree::Not(operand) => format!("NOT {}", text(operand, 2)),
        Tree::Binary(operator, left, right) => {
            // Comparisons don't follow each other.
            let left = text(left, if level == 3 { 4 } else { level });
            format!("{left} {operator} {}", text(right, level + 1))
        }
        Tree::Sign(sign, operand) => format!("{sign}{}", text(operand, 7)),
        Tree::In(negated, operand, list) => {
            let list: Vec<String> = list.iter().map(|item| text(item, 4)).collect();
            format!("{} {}IN ({})", text(operand, 4), not(*negated), list.join(","))
        }
        Tree::Like(negated, operand, pattern) => format!("{} {}LIKE '{pattern}'", text(operand, 4), not(*negated)),
        Tree::IsNull(negated, field) => format!("{field} IS {}NULL", not(*negated)),
    };
    if level < lowest { format!("({inner})") } else { inner }
}

/// A value; `None` is unknown.
type Naive = Option<Owned>;

fn number(value: &Naive) -> Option<f64> {
    match value {
        Some(Owned::Int(value)) => Some(*value as f64),
        Some(Owned::Float(value)) => Some(*value),
        _ => None,
    }
}

fn truth(value: &Naive) -> Option<bool> {
    if let Some(Owned::Bool(value)) = value { Some(*value) } else { None }
}

fn field(name: &str, message: &Message) -> Naive {
    let field = if name == "p.subject" { MessageField::Subject } else { MessageField::Application(name.into()) };
    message.0.get(&field).cloned().filter(|value| *value != Owned::Null)
}

fn value(tree: &Tree, message: &Message) -> Naive {
    let boolean = |value: Option<bool>| value.map(Owned::Bool);
    match tree {
        Tree::Bool(value) => Some(Owned::Bool(*value)),
        Tree::Int(value) => Some(Owned::Int(i128::from(*value))),
        Tree::Quarters(value) => Some(Owned::Float(f64::from(*value) / 4.0)),
        Tree::Text(text) => Some(Owned::Bytes(text.as_bytes().to_vec())),
        Tree::Field(name) => field(name, message),
        Tree::Not(operand) => boolean(truth(&value(operand, message)).map(|value| !value)),
        Tree::Binary(operator, left, right) => binary(operator, value(left, message), value(right, message)),
        Tree::Sign(sign, operand) => match (value(operand, message), sign) {
            (Some(Owned::Int(value)), '-') => Some(Owned::Int(-value)),
            (Some(Owned::Float(value)), '-') => Some(Owned::Float(-value)),
            (value, _) => value.filter(|value| matches!(value, Owned::Int(_) | Owned::Float(_))),
        },
        Tree::In(negated, operand, list) => {
            let operand = value(operand, message);
            operand.as_ref()?;
            let found = list.iter().map(|item| value(item, message)).any(|item| equals(&item, &operand));
            Some(Owned::Bool(found != *negated))
        }
        Tree::Like(negated, operand, pattern) => {
            let Some(Owned::Bytes(bytes)) = value(operand, message) else { return None };
            let subject: Vec<char> = String::from_utf8(bytes).unwrap().chars().collect();
            let pattern: Vec<char> = pattern.chars().collect();
            Some(Owned::Bool(like(&subject, &pattern) != *negated))
        }
        Tree::IsNull(negated, name) => Some(Owned::Bool(field(name, message).is_none() != *negated)),
    }
}

fn equals(left: &Naive, right: &Naive) -> bool {
    match (number(left), number(right)) {
        (Some(left), Some(right)) => left == right,
        _ => left.is_some() && left == right,
    }
}

fn binary(operator: &str, left: Naive, right: Naive) -> Naive {
    let (left_truth, right_truth) = (truth(&left), truth(&right));
    match operator {
        "AND" if left_truth == Some(false) || right_truth == Some(false) => return Some(Owned::Bool(false)),
        "OR" if left_truth == Some(true) || right_truth == Some(true) => return Some(Owned::Bool(true)),
        "AND" | "OR" => return left_truth.and(right_truth).map(Owned::Bool),
        _ => {}
    }
    let (some_left, some_right) = (left.clone()?, right.clone()?);
    let numbers = number(&left).zip(number(&right));
    let order = match (&some_left, &some_right) {
        (Owned::Bytes(left), Owned::Bytes(right)) => Some(left.cmp(right)),
        _ => numbers.and_then(|(left, right)| left.partial_cmp(&right)),
    };
    let ordered = |holds: fn(std::cmp::Ordering) -> bool| Some(Owned::Bool(order.is_some_and(holds)));
    match operator {
        "=" => Some(Owned::Bool(equals(&left, &right))),
        "<>" => Some(Owned::Bool(!equals(&left, &right))),
        "<" => ordered(std::cmp::Ordering::is_lt),
        "<=" => ordered(std::cmp::Ordering::is_le),
        ">" => ordered(std::cmp::Ordering::is_gt),
        ">=" => ordered(std::cmp::Ordering::is_ge),
        "%" => match (some_left, some_right) {
            (Owned::Int(left), Owned::Int(right)) if right != 0 => Some(Owned::Int(left % right)),
            _ => None,
        },
        _ => {
            let (left, right) = numbers?;
            let result = match operator {
                "+" => left + right,
                "-" => left - right,
                "*" => left * right,
                _ if right == 0.0 => return None,
                _ => left / right,
            };
            let are_integers = matches!((&some_left, &some_right), (Owned::Int(_), Owned::Int(_)));
            Some(if are_integers && operator != "/" { Owned::Int(result as i128) } else { Owned::Float(result) })
        }
    }
}

fn like(subject: &[char], pattern: &[char]) -> bool {
    match pattern {
        [] => subject.is_empty(),
        ['%', rest @ ..] => (0..=subject.len()).any(|at| like(&subject[at..], rest)),
        ['_', rest @ ..] => !subject.is_empty() && like(&subject[1..], rest),
        [character, rest @ ..] => subject.first() == Some(character) && like(&subject[1..], rest),
    }
}

fn message() -> impl Strategy<Value = Message> {
    let value = prop_oneof![
        Just(Owned::Null),
        any::<bool>().prop_map(Owned::Bool),
        (-4_i128..6).prop_map(Owned::Int),
        (-8_i32..20).prop_map(|quarters| Owned::Float(f64::from(quarters) / 4.0)),
        "[ab'_%é]{0,4}".prop_map(|text| Owned::Bytes(text.into_bytes())),
    ];
    (prop::collection::vec(value, 4), prop::option::of("[abé]{0,3}")).prop_map(|(values, subject)| {
        let mut message = Message::default();
        // The last one is always missing.
        for (name, value) in FIELDS.iter().zip(values).take(3) {
            message = message.application(name, value);
        }
        match subject {
            Some(subject) => message.with(MessageField::Subject, Owned::Bytes(subject.into_bytes())),
            None => message,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn an_expression_is_evaluated_as_by_a_naive_evaluator(tree in tree(), message in message()) {
        let text = text(&tree, 0);
        let selector = match Selector::parse(&text, Dialect::Amqp) {
            Ok(selector) => selector,
            Err(error) => return Err(TestCaseError::fail(format!("{text}: {error}"))),
        };
        let naive = truth(&value(&tree, &message)) == Some(true);
        let ours = selector.evaluate(&message, 0, &mut Budget::new(1));
        prop_assert_eq!(ours, if naive { Verdict::Match } else { Verdict::NoMatch }, "{}", text);
    }

    #[test]
    fn any_text_is_parsed_or_refused(text in "[ -~é\\n]{0,80}") {
        for dialect in [Dialect::Amqp, Dialect::Jms] {
            if let Err(error) = Selector::parse(&text, dialect) {
                prop_assert!((1..=text.chars().count() + 1).contains(&error.at));
            }
        }
    }
}
