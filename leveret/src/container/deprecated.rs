//! Variables of earlier images of RabbitMQ that have no effect any more. The image "rabbitmq" refuses them, so that no
//! one believes to have TLS or a limit of memory, and so does ours.

/// The variables, without `RABBITMQ_`.
const NAMES: [&str; 13] = [
    "MANAGEMENT_SSL_CACERTFILE",
    "MANAGEMENT_SSL_CERTFILE",
    "MANAGEMENT_SSL_DEPTH",
    "MANAGEMENT_SSL_FAIL_IF_NO_PEER_CERT",
    "MANAGEMENT_SSL_KEYFILE",
    "MANAGEMENT_SSL_VERIFY",
    "SSL_CACERTFILE",
    "SSL_CERTFILE",
    "SSL_DEPTH",
    "SSL_FAIL_IF_NO_PEER_CERT",
    "SSL_KEYFILE",
    "SSL_VERIFY",
    "VM_MEMORY_HIGH_WATERMARK",
];

/// The text for the variables that are set, with the image's words; `None` if none is.
pub(crate) fn complaint(is_set: impl Fn(&str) -> bool) -> Option<String> {
    let names = NAMES.iter().map(|name| format!("RABBITMQ_{name}")).filter(|name| is_set(name));
    let lines: Vec<String> = names.map(|name| format!("error: {name} is set but deprecated\n")).collect();
    (!lines.is_empty()).then(|| {
        format!(
            "{}error: deprecated environment variables detected\n\n\
             Please use a configuration file instead: put keys of rabbitmq.conf such as ssl_options.certfile, \
             management.ssl.certfile and vm_memory_high_watermark.relative into a file in /etc/rabbitmq/conf.d\n",
            lines.concat()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_variable_is_named_in_a_line_of_its_own() {
        assert_eq!(complaint(|_| false), None);
        let told = complaint(|name| name.ends_with("_CERTFILE")).expect("two are set");
        let lines: Vec<&str> = told.lines().take(3).collect();
        assert_eq!(
            lines,
            [
                "error: RABBITMQ_MANAGEMENT_SSL_CERTFILE is set but deprecated",
                "error: RABBITMQ_SSL_CERTFILE is set but deprecated",
                "error: deprecated environment variables detected",
            ]
        );
        assert_eq!(complaint(|_| true).expect("all are set").matches("is set but deprecated").count(), 13);
    }
}
