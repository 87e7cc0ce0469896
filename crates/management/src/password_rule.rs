//! The rule that passwords of users have to keep when they are set: over HTTP, by the command line or by definitions.

use leveret_config::{CredentialValidator, ValidationBackend};
use leveret_model::RegularExpression;

/// A rule for passwords.
#[derive(Debug, Default)]
pub enum PasswordRule {
    /// Any password is accepted.
    #[default]
    AcceptEverything,
    /// At least so many bytes.
    MinLength(u64),
    /// A part of the password matches.
    Regexp(RegularExpression),
}

impl PasswordRule {
    /// The rule of a configuration.
    ///
    /// # Errors
    /// The key that the rule needs is missing, or its expression can't be compiled.
    pub fn of(config: &CredentialValidator) -> Result<Self, String> {
        let missing = |key: &str| format!("credential_validator.{key} is missing: the validation_backend needs it");
        match config.backend {
            ValidationBackend::AcceptEverything => Ok(Self::AcceptEverything),
            ValidationBackend::MinPasswordLength => {
                config.min_length.map(Self::MinLength).ok_or_else(|| missing("min_length"))
            }
            ValidationBackend::PasswordRegexp => {
                let text = config.regexp.as_deref().ok_or_else(|| missing("regexp"))?;
                RegularExpression::new(text)
                    .map(Self::Regexp)
                    .map_err(|reason| format!("credential_validator.regexp '{text}' can't be compiled: {reason}"))
            }
        }
    }

    /// Checks a new password.
    ///
    /// # Errors
    /// The reason why it isn't accepted, in RabbitMQ's words.
    pub(crate) fn check(&self, password: &str) -> Result<(), String> {
        match self {
            Self::MinLength(least) if (password.len() as u64) < *least => {
                Err(format!("minimum required password length is {least}"))
            }
            Self::Regexp(regexp) if !regexp.matches(password) => {
                Err("provided password does not match the validator regular expression".to_owned())
            }
            Self::AcceptEverything | Self::MinLength(_) | Self::Regexp(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(backend: ValidationBackend, min_length: Option<u64>, regexp: Option<&str>) -> Result<PasswordRule, String> {
        PasswordRule::of(&CredentialValidator { backend, min_length, regexp: regexp.map(Into::into) })
    }

    #[test]
    fn passwords_are_checked_by_length_or_expression() {
        let any = rule(ValidationBackend::AcceptEverything, Some(8), Some("x")).expect("it is one");
        assert_eq!(any.check(""), Ok(()));
        let long = rule(ValidationBackend::MinPasswordLength, Some(8), None).expect("it is one");
        assert_eq!(long.check("12345678"), Ok(()));
        assert_eq!(long.check("1234567"), Err("minimum required password length is 8".to_owned()));
        let lower = rule(ValidationBackend::PasswordRegexp, None, Some("[a-z]{3}")).expect("it is one");
        assert_eq!(lower.check("ABCdef"), Ok(()));
        let text = "provided password does not match the validator regular expression";
        assert_eq!(lower.check("ABC"), Err(text.to_owned()));
    }

    #[test]
    fn a_rule_without_its_key_or_with_a_wrong_one_is_an_error() {
        let missing = rule(ValidationBackend::MinPasswordLength, None, None).expect_err("it says no length");
        assert!(missing.contains("credential_validator.min_length is missing"), "{missing}");
        assert!(rule(ValidationBackend::PasswordRegexp, Some(8), None).is_err());
        let wrong = rule(ValidationBackend::PasswordRegexp, None, Some("(?=a")).expect_err("it is malformed");
        assert!(wrong.starts_with("credential_validator.regexp '(?=a' can't be compiled: "), "{wrong}");
        let strong =
            rule(ValidationBackend::PasswordRegexp, None, Some(r"^(?=.*\d)(?=.*[a-z]).{8,}$")).expect("it is one");
        assert_eq!(strong.check("abcdefg1"), Ok(()));
        assert!(strong.check("abcdefgh").is_err());
    }
}
