//! Cuts an expression into tokens.
//!
//! The dialects differ in what they write: keywords of SQL filter expressions are capitals, those of JMS may have any
//! case; only the former have names in brackets, strings in double quotes and binary literals, only the latter numbers
//! such as `7.`, `.5`, `3e8`, `0x1F` and `10L`.

use winnow::Parser;
use winnow::combinator::{alt, delimited, opt, preceded, repeat};
use winnow::error::EmptyError;
use winnow::token::{one_of, take_while};

use crate::error::ParseErrorKind;
use crate::expression::{Arithmetic, Comparison, Constant};
use crate::{Dialect, MessageField, ParseError, TOKENS_MAX};

/// A token and the byte at which it begins.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Token<'t> {
    pub(crate) kind: Kind,
    pub(crate) text: &'t str,
    pub(crate) at: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kind {
    Literal(Constant),
    /// A string in quotes.
    Text(String),
    Field(MessageField),
    Keyword(Keyword),
    Comparison(Comparison),
    Arithmetic(Arithmetic),
    Open,
    Close,
    Comma,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keyword {
    And,
    Or,
    Not,
    Like,
    In,
    Is,
    Null,
    Escape,
    Utc,
    Between,
}

type Fault = ParseErrorKind;

/// The tokens of an expression.
pub(crate) fn tokens(expression: &str, dialect: Dialect) -> Result<Vec<Token<'_>>, ParseError> {
    let mut tokens = Vec::new();
    let mut rest = expression;
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\x0c', '\n', '\r']);
        if rest.is_empty() {
            return Ok(tokens);
        }
        let at = expression.len() - rest.len();
        if tokens.len() == TOKENS_MAX {
            return Err(error_at(expression, at, Fault::TooManyTokens));
        }
        let before = rest;
        let kind = token(&mut rest, dialect).map_err(|fault| error_at(expression, at, fault))?;
        tokens.push(Token { kind, text: &before[..before.len() - rest.len()], at });
    }
}

/// A fault at a byte of the expression.
pub(crate) fn error_at(expression: &str, at: usize, kind: ParseErrorKind) -> ParseError {
    ParseError { kind, at: expression[..at].chars().count() + 1 }
}

/// The output of a parser at the beginning of the rest, which goes on behind it; nothing is taken if it isn't there.
fn attempt<'i, O>(rest: &mut &'i str, mut parser: impl Parser<&'i str, O, EmptyError>) -> Option<O> {
    let mut behind = *rest;
    let output = parser.parse_next(&mut behind).ok()?;
    *rest = behind;
    Some(output)
}

fn token(rest: &mut &str, dialect: Dialect) -> Result<Kind, Fault> {
    let first = rest.chars().next().expect("it isn't empty");
    match first {
        '\'' => string(rest, '\'').map(Kind::Text),
        '"' if dialect == Dialect::Amqp => string(rest, '"').map(Kind::Text),
        '[' if dialect == Dialect::Amqp => bracketed(rest),
        '0'..='9' => number(rest, dialect),
        '.' if dialect == Dialect::Jms && rest[1..].starts_with(|next: char| next.is_ascii_digit()) => {
            number(rest, dialect)
        }
        _ if begins_name(first, dialect) => name(rest, dialect),
        _ => operator(rest, dialect).ok_or_else(|| Fault::Character { character: first, hint: hint(first, dialect) }),
    }
}

/// Whether a name may begin with a character. In JMS it is a Java identifier.
fn begins_name(first: char, dialect: Dialect) -> bool {
    match dialect {
        Dialect::Amqp => first.is_ascii_alphabetic(),
        Dialect::Jms => first.is_alphabetic() || first == '_' || first == '$',
    }
}

fn hint(character: char, dialect: Dialect) -> &'static str {
    match (character, dialect) {
        ('_' | '$' | '-', Dialect::Amqp) => "put names that begin with it or contain it in brackets, as [_name]",
        ('.', Dialect::Amqp) => {
            "write a number as 0.5 or 5.0, and a field as section.field, where both begin with a letter"
        }
        ('!', Dialect::Amqp) => "unequal is <> or !=",
        ('!', Dialect::Jms) => "unequal is <>",
        ('"', _) => "put strings in single quotes",
        ('%', Dialect::Jms) => "JMS selectors have + - * and /",
        ('[' | ']', Dialect::Amqp) => "a bracket in a name in brackets is written twice",
        ('\'', _) => "a quote in a string is written twice",
        (_, Dialect::Amqp) => {
            "put names with other characters than letters, digits and _ in brackets, strings in quotes"
        }
        (_, Dialect::Jms) => "put strings in single quotes",
    }
}

fn operator(rest: &mut &str, dialect: Dialect) -> Option<Kind> {
    let amqp_only = |text: &'static str| (dialect == Dialect::Amqp).then_some(text);
    let found = alt((
        alt((
            "<>".value(Kind::Comparison(Comparison::NotEqual)),
            "<=".value(Kind::Comparison(Comparison::LessOrEqual)),
            ">=".value(Kind::Comparison(Comparison::GreaterOrEqual)),
            "!=".value(Kind::Comparison(Comparison::NotEqual)).verify(|_: &Kind| amqp_only("!=").is_some()),
            "<".value(Kind::Comparison(Comparison::Less)),
            ">".value(Kind::Comparison(Comparison::Greater)),
            "=".value(Kind::Comparison(Comparison::Equal)),
        )),
        alt((
            "+".value(Kind::Arithmetic(Arithmetic::Add)),
            "-".value(Kind::Arithmetic(Arithmetic::Subtract)),
            "*".value(Kind::Arithmetic(Arithmetic::Multiply)),
            "/".value(Kind::Arithmetic(Arithmetic::Divide)),
            "%".value(Kind::Arithmetic(Arithmetic::Remainder)).verify(|_: &Kind| amqp_only("%").is_some()),
            "(".value(Kind::Open),
            ")".value(Kind::Close),
            ",".value(Kind::Comma),
        )),
    ));
    attempt(rest, found)
}

/// Text between two quotes, in which the quote is written twice.
fn string(rest: &mut &str, quote: char) -> Result<String, Fault> {
    let character = alt(((quote, quote).value(quote), one_of(move |character| character != quote)));
    let text = attempt(rest, delimited(quote, repeat(0.., character), quote));
    text.ok_or(Fault::Unterminated { what: "string", end: quote })
}

/// An application property whose name is in brackets, in which a bracket is written twice.
fn bracketed(rest: &mut &str) -> Result<Kind, Fault> {
    let character = alt(("[[".value('['), "]]".value(']'), one_of(|character| character != '[' && character != ']')));
    let name: Option<String> = attempt(rest, delimited('[', repeat(0.., character), ']'));
    let name = name.ok_or(Fault::Unterminated { what: "name in brackets", end: ']' })?;
    if let Some(character) = name.chars().find(|character| *character < ' ' || *character == '\x7f') {
        let hint = "remove control characters from the name";
        return Err(Fault::Character { character, hint });
    }
    Ok(Kind::Field(MessageField::Application(name.into())))
}

fn number(rest: &mut &str, dialect: Dialect) -> Result<Kind, Fault> {
    match dialect {
        Dialect::Amqp => amqp_number(rest),
        Dialect::Jms => jms_number(rest),
    }
}

fn digits<'i>(rest: &mut &'i str) -> Result<&'i str, EmptyError> {
    take_while(1.., |character: char| character.is_ascii_digit()).parse_next(rest)
}

/// `12`, `1.5`, `1.5E-3` or bytes as `0x1F2E`.
fn amqp_number(rest: &mut &str) -> Result<Kind, Fault> {
    let pair = take_while(2..=2, |digit: char| digit.is_ascii_digit() || ('A'..='F').contains(&digit));
    let byte = pair.map(|pair: &str| u8::from_str_radix(pair, 16).expect("two digits"));
    let bytes: Option<Vec<u8>> = attempt(rest, preceded("0x", repeat(1.., byte)));
    if let Some(bytes) = bytes {
        return Ok(Kind::Literal(Constant::Bytes(bytes.into())));
    }
    let exponent = opt(('E', opt(one_of(['+', '-'])), digits));
    match attempt(rest, (digits, '.', digits, exponent).take()) {
        Some(text) => float_literal(text),
        None => integer_literal(attempt(rest, digits).unwrap_or_default(), 10),
    }
}

/// Literals of Java: `12`, `12L`, `0x1F`, `017`, `7.`, `.5`, `3e8`, each of the last three with `f` or `d` behind it.
fn jms_number(rest: &mut &str) -> Result<Kind, Fault> {
    let skip_suffix = |rest: &mut &str, suffixes: [char; 2]| {
        *rest = rest.strip_prefix(suffixes).unwrap_or(rest);
    };
    let hexadecimal = take_while(1.., |digit: char| digit.is_ascii_hexdigit());
    if let Some(text) = attempt(rest, preceded(alt(("0x", "0X")), hexadecimal)) {
        skip_suffix(rest, ['l', 'L']);
        return integer_literal(text, 16);
    }
    let exponent = || (one_of(['e', 'E']), opt(one_of(['+', '-'])), digits);
    let float = alt((
        (digits, '.', opt(digits), opt(exponent())).take(),
        ('.', digits, opt(exponent())).take(),
        (digits, exponent()).take(),
    ));
    if let Some(text) = attempt(rest, float) {
        skip_suffix(rest, ['f', 'F']);
        skip_suffix(rest, ['d', 'D']);
        return float_literal(text);
    }
    let text = attempt(rest, digits).unwrap_or_default();
    skip_suffix(rest, ['l', 'L']);
    let is_octal = text.len() > 1 && text.starts_with('0') && text.bytes().all(|digit| digit < b'8');
    integer_literal(text, if is_octal { 8 } else { 10 })
}

fn float_literal(text: &str) -> Result<Kind, Fault> {
    match text.parse() {
        Ok(value) if f64::is_finite(value) => Ok(Kind::Literal(Constant::Float(value))),
        _ => Err(Fault::Number { number: text.to_owned(), hint: "the largest is about 1.8E308" }),
    }
}

/// An integer; a floating-point number if it has over 127 bits.
fn integer_literal(text: &str, radix: u32) -> Result<Kind, Fault> {
    match i128::from_str_radix(text, radix) {
        Ok(value) => Ok(Kind::Literal(Constant::Int(value))),
        Err(_) if radix == 10 => float_literal(text),
        Err(_) => Err(Fault::Number { number: text.to_owned(), hint: "it has over 127 bits; write it in decimal" }),
    }
}

fn name(rest: &mut &str, dialect: Dialect) -> Result<Kind, Fault> {
    match dialect {
        Dialect::Amqp => amqp_name(rest),
        Dialect::Jms => jms_name(rest),
    }
}

fn amqp_name(rest: &mut &str) -> Result<Kind, Fault> {
    let part = |character: char| character.is_ascii_alphanumeric() || character == '_';
    let word = || (one_of(|first: char| first.is_ascii_alphabetic()), take_while(0.., part)).take();
    let first: &str = attempt(rest, word()).unwrap_or_default();
    if let Some(second) = attempt(rest, preceded('.', word())) {
        return MessageField::of_section(first, second).map(Kind::Field).ok_or_else(|| Fault::Field {
            name: format!("{first}.{second}"),
            hint: "sections are header (h), properties (p) and application_properties (a); fields have underscores, \
                   as properties.message_id; put names with a dot in brackets",
        });
    }
    if let Some(kind) = keyword(first, Dialect::Amqp) {
        return Ok(kind);
    }
    let capitals = first.to_ascii_uppercase();
    if keyword(&capitals, Dialect::Amqp).is_some() {
        let hint = "write keywords in capitals, and names that are such a word in brackets";
        return Err(Fault::Reserved { word: first.to_owned(), hint });
    }
    const FUNCTIONS: [&str; 9] = ["EXISTS", "NAN", "INF", "LOWER", "UPPER", "LEFT", "RIGHT", "SUBSTRING", "DATE"];
    if FUNCTIONS.contains(&&*capitals) {
        let hint = "this function isn't available; put a name that is such a word in brackets";
        return Err(Fault::Reserved { word: first.to_owned(), hint });
    }
    Ok(Kind::Field(MessageField::Application(first.into())))
}

fn jms_name(rest: &mut &str) -> Result<Kind, Fault> {
    let part = |character: char| character.is_alphanumeric() || matches!(character, '_' | '$' | '.');
    let name: &str = attempt(rest, take_while(1.., part)).unwrap_or_default();
    if let Some(kind) = keyword(&name.to_ascii_uppercase(), Dialect::Jms) {
        return Ok(kind);
    }
    MessageField::of_jms(name).map(Kind::Field).map_err(|hint| Fault::Field { name: name.to_owned(), hint })
}

/// The keyword or boolean that a word in capitals is.
fn keyword(word: &str, dialect: Dialect) -> Option<Kind> {
    Some(Kind::Keyword(match (word, dialect) {
        ("TRUE", _) => return Some(Kind::Literal(Constant::Bool(true))),
        ("FALSE", _) => return Some(Kind::Literal(Constant::Bool(false))),
        ("AND", _) => Keyword::And,
        ("OR", _) => Keyword::Or,
        ("NOT", _) => Keyword::Not,
        ("LIKE", _) => Keyword::Like,
        ("IN", _) => Keyword::In,
        ("IS", _) => Keyword::Is,
        ("NULL", _) => Keyword::Null,
        ("ESCAPE", _) => Keyword::Escape,
        ("UTC", Dialect::Amqp) => Keyword::Utc,
        ("BETWEEN", Dialect::Jms) => Keyword::Between,
        _ => return None,
    }))
}
