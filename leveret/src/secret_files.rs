//! Variables whose value is in a file, such as a secret of Docker or Kubernetes: `RABBITMQ_DEFAULT_PASS_FILE` is the path
//! of a file with the value of `RABBITMQ_DEFAULT_PASS`.

use std::fs::File;
use std::io::Read;

use leveret_config::Variable;

/// The variables that may come from a file.
const NAMES: [&str; 3] = ["RABBITMQ_DEFAULT_USER", "RABBITMQ_DEFAULT_PASS", "RABBITMQ_DEFAULT_VHOST"];

/// Longest value, in bytes.
const BYTES_MAX: u64 = 4096;

/// Replaces variables that name a file by those that the files hold.
///
/// # Errors
/// All errors: a file that can't be read or is empty, a value that is given twice.
pub(crate) fn resolve(variables: &mut Vec<Variable>) -> Result<(), Vec<String>> {
    let mut mistakes = Vec::new();
    for name in NAMES {
        let by_file = format!("{name}_FILE");
        let Some(at) = variables.iter().position(|variable| variable.name == by_file) else { continue };
        let path = variables.remove(at).value;
        if variables.iter().any(|variable| variable.name == name) {
            mistakes.push(format!("{name} and {by_file} are both set: unset one of them"));
            continue;
        }
        match read(&path) {
            Ok(value) => {
                let name = name.to_owned();
                variables.push(Variable { source: path, line: None, name, value });
            }
            Err(reason) => mistakes.push(format!("{by_file}: cannot read {path}: {reason}")),
        }
    }
    if mistakes.is_empty() { Ok(()) } else { Err(mistakes) }
}

/// The content of a file, without the end of its line.
fn read(path: &str) -> Result<String, String> {
    let mut text = String::new();
    let file = File::open(path).map_err(|reason| reason.to_string())?;
    file.take(BYTES_MAX + 1).read_to_string(&mut text).map_err(|reason| reason.to_string())?;
    let value = text.trim_end_matches(['\r', '\n']);
    match value.len() as u64 {
        0 => Err("it is empty".to_owned()),
        length if length > BYTES_MAX => Err(format!("it has more than {BYTES_MAX} bytes")),
        _ if value.contains('\n') => Err("it has more than one line".to_owned()),
        _ => Ok(value.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variable(name: &str, value: &str) -> Variable {
        Variable { source: "environment".to_owned(), line: None, name: name.to_owned(), value: value.to_owned() }
    }

    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), text).expect("is written");
        file
    }

    #[test]
    fn a_value_is_the_line_of_its_file() {
        let secret = file(" s3cr=t \r\n");
        let path = secret.path().display().to_string();
        let mut variables = vec![variable("RABBITMQ_DEFAULT_PASS_FILE", &path), variable("RABBITMQ_LOGS", "-")];
        resolve(&mut variables).expect("is read");
        let expected = Variable { source: path, ..variable("RABBITMQ_DEFAULT_PASS", " s3cr=t ") };
        assert_eq!(variables, [variable("RABBITMQ_LOGS", "-"), expected]);
    }

    #[test]
    fn a_missing_empty_or_second_value_is_an_error() {
        let of = |text: &str| {
            let secret = file(text);
            let path = secret.path().display().to_string();
            resolve(&mut vec![variable("RABBITMQ_DEFAULT_USER_FILE", &path)]).map_err(|mistakes| mistakes[0].clone())
        };
        assert!(of("\n").expect_err("is wrong").ends_with("it is empty"));
        assert!(of("a\nb\n").expect_err("is wrong").ends_with("it has more than one line"));
        assert!(of(&"a".repeat(5000)).expect_err("is wrong").ends_with("it has more than 4096 bytes"));
        let missing = resolve(&mut vec![variable("RABBITMQ_DEFAULT_VHOST_FILE", "/no/such")]).expect_err("is wrong");
        assert!(
            missing[0].starts_with("RABBITMQ_DEFAULT_VHOST_FILE: cannot read /no/such: No such file"),
            "{missing:?}"
        );
        let both = [variable("RABBITMQ_DEFAULT_PASS", "a"), variable("RABBITMQ_DEFAULT_PASS_FILE", "/no/such")];
        let both = resolve(&mut both.to_vec()).expect_err("is wrong");
        assert!(both[0].contains("are both set"), "{both:?}");
    }
}
