//! Rules of expressions that the recorded answers of RabbitMQ don't cover: JMS selectors, errors, budgets, limits.

use crate::message::{Message, Owned};
use leveret_selector::{Budget, Dialect, MessageField, ParseErrorKind, Selector, Verdict};

fn text(text: &str) -> Owned {
    Owned::Bytes(text.as_bytes().to_vec())
}

fn message() -> Message {
    Message::default()
        .with(MessageField::Durable, Owned::Bool(true))
        .with(MessageField::Priority, Owned::Int(7))
        .with(MessageField::MessageId, text("ID:1"))
        .with(MessageField::CorrelationId, text("c"))
        .with(MessageField::Subject, text("order"))
        .with(MessageField::CreationTime, Owned::Int(1_700_000_000_000))
        .with(MessageField::GroupId, text("g"))
        .with(MessageField::GroupSequence, Owned::Int(2))
        .with(MessageField::UserId, text("guest"))
        .application("color", text("red"))
        .application("weight", Owned::Int(2500))
        .application("ratio", Owned::Float(0.5))
        .application("fresh", Owned::Bool(true))
        .application("größe", Owned::Int(3))
        .application("x.y", Owned::Int(4))
        .application("nothing", Owned::Null)
}

fn evaluate(expression: &str, dialect: Dialect) -> Verdict {
    let selector = Selector::parse(expression, dialect).unwrap_or_else(|error| panic!("{expression}: {error}"));
    selector.evaluate(&message(), 1_800_000_000_000, &mut Budget::new(1))
}

fn refused(expression: &str, dialect: Dialect) -> String {
    Selector::parse(expression, dialect).expect_err(expression).to_string()
}

#[test]
fn jms_selectors_match() {
    for expression in [
        "color = 'red' AND weight > 2000",
        "color = 'red' and Weight is Null and nothing is null",
        "weight BETWEEN 2500 AND 2500 AND weight not between 1 and 2",
        "color IN ('blue', 'red') AND color NOT IN ('green')",
        "color LIKE 'r_d' AND color LIKE '%e%' AND color NOT LIKE 'b%' AND 'a!%' LIKE 'a!!!%' ESCAPE '!'",
        "JMSPriority = 7 AND JMSType = 'order' AND JMSMessageID = 'ID:1' AND JMSCorrelationID = 'c'",
        "JMSDeliveryMode = 'PERSISTENT' AND JMSDeliveryMode <> 'NON_PERSISTENT'",
        "JMSTimestamp = 1700000000000 AND JMSXGroupID = 'g' AND JMSXGroupSeq = 2 AND JMSXUserID = 'guest'",
        "größe = 3 AND x.y = 4 AND $no IS NULL AND _no IS NULL AND JMS_AMQP_TTL IS NULL",
        "ratio = .5 AND ratio = 5e-1 AND ratio = 0.5f AND ratio < 1. AND ratio < 7E3d",
        "weight = 2500L AND 0x1F = 31 AND 0XffL = 255 AND 017 = 15 AND 0 = 00",
        "weight + 1 * 2 = 2502 AND (weight + 1) * 2 = 5002 AND -weight < +weight AND weight / 1000 = 2.5",
        "fresh AND fresh = TRUE AND fresh <> false AND NOT (fresh = False)",
        "NOT (color = 5) AND NOT (color <> 5) AND NOT (color < 'z') AND NOT (fresh > FALSE)",
    ] {
        assert_eq!(evaluate(expression, Dialect::Jms), Verdict::Match, "{expression}");
    }
    for expression in [
        "missing BETWEEN 1 AND 2",
        "missing NOT BETWEEN 1 AND 2",
        "weight BETWEEN missing AND 3",
        "color BETWEEN 'a' AND 'z'",
    ] {
        assert_eq!(evaluate(expression, Dialect::Jms), Verdict::NoMatch, "{expression}");
    }
}

#[test]
fn jms_selectors_have_their_own_grammar() {
    for (expression, error) in [
        ("weight IN (1, 2)", "found 1 where a string of IN was expected (at character 12)"),
        ("color IN ('a' + 1)", "found + where an operator, a comma or ) of IN was expected (at character 15)"),
        ("color != 'a'", "unexpected character '!'; unequal is <> (at character 7)"),
        ("weight % 2 = 1", "unexpected character '%'; JMS selectors have + - * and / (at character 8)"),
        ("color = \"red\"", "unexpected character '\"'; put strings in single quotes (at character 9)"),
        ("[color] = 'red'", "unexpected character '['; put strings in single quotes (at character 1)"),
        ("UTC() > 1", "found ( where an operator or the end was expected (at character 4)"),
        (
            "JMSXDeliveryCount = 1",
            "there is no field JMSXDeliveryCount; the JMSX properties here are JMSXGroupID, \
          JMSXGroupSeq and JMSXUserID (at character 1)",
        ),
        (
            "0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF > 1",
            "the number FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF is out of range; \
          it has over 127 bits; write it in decimal (at character 1)",
        ),
        ("weight BETWEEN 1", "found the end of the expression where AND of BETWEEN was expected (at character 17)"),
        ("weight NOT 5", "found 5 where LIKE, IN or BETWEEN was expected (at character 12)"),
    ] {
        assert_eq!(refused(expression, Dialect::Jms), error);
    }
    assert!(refused("JMSReplyTo = 'q'", Dialect::Jms).starts_with("there is no field JMSReplyTo; the headers that "));
}

#[test]
fn an_error_names_the_place_and_the_remedy() {
    for (expression, error) in [
        (
            "a = 1 and b = 2",
            "and is a reserved word; write keywords in capitals, and names that are such a word in \
          brackets (at character 7)",
        ),
        (
            "ä = 1",
            "unexpected character 'ä'; put names with other characters than letters, digits and _ in brackets, \
          strings in quotes (at character 1)",
        ),
        ("'ä' = 'ö' AND", "found the end of the expression where a field, a value or ( was expected (at character 14)"),
        (
            "properties.message-id = 'x'",
            "there is no field properties.message; sections are header (h), properties (p) \
          and application_properties (a); fields have underscores, as properties.message_id; put names with a dot in \
          brackets (at character 1)",
        ),
        ("a = 'x", "the end of the string is missing; add ' (at character 5)"),
        ("[a = 'x'", "the end of the name in brackets is missing; add ] (at character 1)"),
        ("a = 1.8E308", "the number 1.8E308 is out of range; the largest is about 1.8E308 (at character 5)"),
        ("a LIKE b", "found b where the pattern, a string, was expected (at character 8)"),
        (
            "a LIKE 'x!' ESCAPE '!'",
            "the LIKE pattern can't be used: it ends with the escape character, which must \
          precede another one (at character 8)",
        ),
        (
            "a LIKE 'x' ESCAPE 'no'",
            "the LIKE pattern can't be used: ESCAPE takes a string of one character (at \
          character 19)",
        ),
        ("a < b < c", "found < where AND, OR or the end was expected (at character 7)"),
        (
            "(a) IS NULL",
            "found IS where the end or AND or OR, because only the name of a field stands before IS NULL \
          was expected (at character 5)",
        ),
        (
            "a = NULL",
            "found NULL where a value, because comparisons with NULL are unknown: write field IS NULL was \
          expected (at character 5)",
        ),
        ("(a", "found the end of the expression where an operator or ) was expected (at character 3)"),
        (
            "UPPER(a) = 'X'",
            "UPPER is a reserved word; this function isn't available; put a name that is such a word in \
          brackets (at character 1)",
        ),
        (
            ".5 = a",
            "unexpected character '.'; write a number as 0.5 or 5.0, and a field as section.field, where both \
          begin with a letter (at character 1)",
        ),
        ("", "found the end of the expression where a field, a value or ( was expected (at character 1)"),
    ] {
        assert_eq!(refused(expression, Dialect::Amqp), error);
    }
}

#[test]
fn limits_hold_for_both_dialects() {
    for dialect in [Dialect::Amqp, Dialect::Jms] {
        let error = Selector::parse(&"ä".repeat(4097), dialect).unwrap_err();
        assert_eq!((error.kind, error.at), (ParseErrorKind::TooLong { characters: 4097 }, 4097));
        let error = Selector::parse(&"(".repeat(4096), dialect).unwrap_err();
        assert_eq!((error.kind, error.at), (ParseErrorKind::TooManyTokens, 201));
        assert!(Selector::parse(&("NOT ".repeat(199) + "TRUE"), dialect).is_ok());
    }
}

#[test]
fn a_spent_budget_stops_before_the_next_message() {
    let selector = Selector::parse("color = 'red' AND weight > 1", Dialect::Amqp).unwrap();
    let mut budget = Budget::new(8);
    assert_eq!(selector.evaluate(&message(), 0, &mut budget), Verdict::Match);
    assert_eq!(budget.steps(), 1);
    // An evaluation that has begun is finished.
    assert_eq!(selector.evaluate(&message(), 0, &mut budget), Verdict::Match);
    assert!(budget.is_spent());
    assert_eq!(selector.evaluate(&message(), 0, &mut budget), Verdict::OutOfBudget);
}

#[test]
fn comparisons_pay_for_bytes() {
    let long = text(&"x".repeat(64_000));
    let message = Message::default().application("a", long.clone()).application("b", long);
    for (expression, cost) in [("a = b", 3 + 1000), ("a < b", 3 + 1000), ("a IN (b)", 3 + 1000), ("a = 'x'", 3)] {
        let selector = Selector::parse(expression, Dialect::Amqp).unwrap();
        let mut budget = Budget::new(1_000_000);
        selector.evaluate(&message, 0, &mut budget);
        assert_eq!(1_000_000 - budget.steps(), cost, "{expression}");
    }
}

#[test]
fn an_evaluation_allocates_nothing() {
    let expression = "p.subject = 'order' AND color IN ('blue', 'red') AND weight * 2 > 100 AND color LIKE '%e_' AND \
                      missing IS NULL AND NOT ratio = 1 AND UTC() > p.creation_time";
    let selector = Selector::parse(expression, Dialect::Amqp).unwrap();
    let message = message();
    let mut outcome = Verdict::NoMatch;
    let cost = allocation_counter::measure(|| outcome = selector.evaluate(&message, u64::MAX, &mut Budget::new(1)));
    assert_eq!((outcome, cost.count_total), (Verdict::Match, 0));
}

#[test]
fn an_equality_is_found_in_a_conjunction() {
    let equality = |expression, dialect| {
        let selector = Selector::parse(expression, dialect).unwrap();
        selector.equality().map(|(field, bytes)| (field.clone(), String::from_utf8(bytes.to_vec()).unwrap()))
    };
    let color = Some((MessageField::Application("color".into()), "red".to_owned()));
    for expression in [
        "color = 'red'",
        "'red' = color",
        "weight > 5 AND (color = 'red' AND p.subject = 'x')",
        "weight = 5 AND color = 'red' AND (a OR b)",
    ] {
        assert_eq!(equality(expression, Dialect::Amqp), color, "{expression}");
    }
    for expression in
        ["color = 'red' OR a", "NOT color = 'red'", "color <> 'red'", "color = 5", "a = color", "'a' = 'b'"]
    {
        assert_eq!(equality(expression, Dialect::Amqp), None, "{expression}");
    }
    assert_eq!(equality("JMSType = 'x'", Dialect::Jms), Some((MessageField::Subject, "x".to_owned())));
    assert_eq!(equality("JMSDeliveryMode = 'PERSISTENT'", Dialect::Jms), None);
}

/// Examples of JMS 2.0, section 3.8.1, in the grammar that both dialects share.
#[test]
fn examples_of_jms_match_in_both_dialects() {
    let message = Message::default()
        .with(MessageField::Subject, text("car"))
        .application("kind", text("car"))
        .application("color", text("blue"))
        .application("weight", Owned::Int(3000))
        .application("age", Owned::Int(16))
        .application("phone", text("12993"))
        .application("word", text("lose"))
        .application("Country", text("Peru"))
        .application("underscored", text("_foo"));
    for dialect in [Dialect::Amqp, Dialect::Jms] {
        let matches = |expression: &str| {
            let selector = Selector::parse(expression, dialect).unwrap();
            selector.evaluate(&message, 0, &mut Budget::new(1)) == Verdict::Match
        };
        assert!(matches("kind = 'car' AND color = 'blue' AND weight > 2500"));
        assert!(matches("age >= 15 AND age <= 19") && !matches("age < 15 OR age > 19"));
        assert!(matches("phone LIKE '12%3'") && !matches("phone NOT LIKE '12%3'"));
        assert!(matches("word LIKE 'l_se'") && matches("underscored LIKE '\\_%' ESCAPE '\\'"));
        assert!(matches("Country NOT IN ('UK', 'US', 'France')") && !matches("Country IN ('UK', 'US', 'France')"));
        assert!(matches("(Country = 'Peru') OR (Country = 'US')"));
        assert!(matches("prop_name IS NULL") && matches("Country IS NOT NULL"));
    }
}
