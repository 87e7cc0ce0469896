use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that a node should be allowed: RabbitMQ's packages ask for as many.
const WANTED: u64 = 65_536;

/// Raises the soft limit of open files to the hard one if it is too low; the limit that then holds.
pub(crate) fn raise_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let current = limit.current.unwrap_or(u64::MAX);
    if current >= WANTED {
        return current;
    }
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum.unwrap_or(u64::MAX),
        Err(_) => current,
    }
}

/// What to tell the operator about that limit, if anything.
pub(crate) fn warning(limit: u64) -> Option<String> {
    (limit < WANTED).then(|| {
        format!(
            "the limit of open files is {limit}; each connection takes one, and at least {WANTED} are \
             recommended (ulimit -n, LimitNOFILE= of the systemd unit)"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_low_limit_is_told_with_its_number() {
        assert!(warning(1024).is_some_and(|text| text.contains("limit of open files is 1024;")));
        assert_eq!(warning(65_536), None);
    }

    #[test]
    fn the_limit_is_never_lowered() {
        let before = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        assert!(raise_limit() >= before);
    }
}
