/// The rule for new passwords of users: `credential_validator.*`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CredentialValidator {
    /// `credential_validator.validation_backend`.
    pub backend: ValidationBackend,
    /// `credential_validator.min_length`, in bytes.
    pub min_length: Option<u64>,
    /// `credential_validator.regexp`.
    pub regexp: Option<String>,
}

/// The kind of the rule, by the name of RabbitMQ's module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ValidationBackend {
    /// `rabbit_credential_validator_accept_everything`
    #[default]
    AcceptEverything,
    /// `rabbit_credential_validator_min_password_length`
    MinPasswordLength,
    /// `rabbit_credential_validator_password_regexp`
    PasswordRegexp,
}

impl ValidationBackend {
    /// The backend of this name.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn parse(name: &str) -> Result<Self, String> {
        match name {
            "rabbit_credential_validator_accept_everything" => Ok(Self::AcceptEverything),
            "rabbit_credential_validator_min_password_length" => Ok(Self::MinPasswordLength),
            "rabbit_credential_validator_password_regexp" => Ok(Self::PasswordRegexp),
            _ => Err(format!(
                "expected rabbit_credential_validator_accept_everything, rabbit_credential_validator_min_password_length \
                 or rabbit_credential_validator_password_regexp, got '{name}'"
            )),
        }
    }
}
