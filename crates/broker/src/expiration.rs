//! The message property `expiration`: milliseconds as decimal text.

/// Longest accepted time to live, as in RabbitMQ: ten years of 365 days.
const TIME_TO_LIVE_MS_MAX: u64 = 315_360_000_000;

/// The time to live, as RabbitMQ reads it: a sign is allowed, nothing else around the digits.
///
/// # Errors
/// A text that names the reason when it isn't a number, is negative or is too large.
pub fn time_to_live_ms(text: &[u8]) -> Result<u64, String> {
    parse(text).map_err(|reason| {
        let text = String::from_utf8_lossy(text);
        format!("invalid expiration '{text}': {reason}; expected milliseconds, 0 to {TIME_TO_LIVE_MS_MAX}, as text")
    })
}

fn parse(text: &[u8]) -> Result<u64, &'static str> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let length = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = digits.split_at(length);
    if digits.is_empty() {
        return Err("no_integer");
    }
    let number = digits.iter().fold(0u64, |sum, digit| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0')));
    match (negative && number > 0, rest.is_empty(), number <= TIME_TO_LIVE_MS_MAX) {
        (_, false, _) => Err("leftover_string"),
        (true, ..) => Err("value_negative"),
        (.., false) => Err("value_too_large"),
        _ => Ok(number),
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    /// As answered by RabbitMQ 4.3.6.
    #[test]
    fn numbers_with_and_without_a_sign() {
        for (text, expected) in [
            ("100", Ok(100)),
            ("0", Ok(0)),
            ("00", Ok(0)),
            ("-0", Ok(0)),
            ("+5", Ok(5)),
            ("4294967296", Ok(4_294_967_296)),
            ("315360000000", Ok(315_360_000_000)),
            ("315360000001", Err("value_too_large")),
            ("99999999999999999999999", Err("value_too_large")),
            ("-1", Err("value_negative")),
            ("1.5", Err("leftover_string")),
            ("12a", Err("leftover_string")),
            ("5 ", Err("leftover_string")),
            (" 5", Err("no_integer")),
            ("abc", Err("no_integer")),
            ("+", Err("no_integer")),
            ("", Err("no_integer")),
        ] {
            assert_eq!(parse(text.as_bytes()), expected, "{text:?}");
        }
    }
}
