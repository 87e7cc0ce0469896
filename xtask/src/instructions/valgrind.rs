use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

const PACKAGE: &str = "leveret-instructions";
/// Profile of Cargo.toml for released code.
const PROFILE: &str = "instructions";
/// Callgrind counts while this function runs.
const COUNTED: &str = "*counted_by_callgrind*";

/// Builds the program. Returns its path.
pub(super) fn build(root: &Path) -> io::Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(root).args(["build", "--quiet", "--profile", PROFILE, "--package", PACKAGE, "--bin", PACKAGE]);
    output(&mut command)?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |target| root.join(target));
    Ok(target.join(PROFILE).join(PACKAGE))
}

/// The names of its benchmarks.
pub(super) fn names(program: &Path) -> io::Result<Vec<String>> {
    Ok(output(&mut Command::new(program))?.lines().map(str::to_owned).collect())
}

/// Instructions per message. Callgrind's file stays next to the program, for `callgrind_annotate`.
pub(super) fn count(program: &Path, name: &str) -> io::Result<f64> {
    let profile = program.with_file_name(format!("{name}.callgrind"));
    let mut command = Command::new("valgrind");
    command.args(["--quiet", "--tool=callgrind"]);
    command.arg(format!("--toggle-collect={COUNTED}"));
    command.arg(format!("--callgrind-out-file={}", profile.display()));
    let told = output(command.arg(program).arg(name))?;
    let messages: u64 = told.trim().parse().map_err(|_| wrong(format!("{name} counted '{told}' messages")))?;
    let instructions = total(&fs::read_to_string(&profile)?)
        .ok_or_else(|| wrong(format!("{} has no total: is {COUNTED} in the program?", profile.display())))?;
    Ok(instructions as f64 / messages as f64)
}

/// The total in a file of callgrind.
fn total(profile: &str) -> Option<u64> {
    let total = profile.lines().find_map(|line| line.strip_prefix("totals: "))?;
    total.trim().parse().ok().filter(|total| *total > 0)
}

/// The output of a successful program.
fn output(command: &mut Command) -> io::Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => wrong(format!("{program} isn't there: install it (.ci/tools does)")),
        _ => error,
    })?;
    if !output.status.success() {
        return Err(wrong(format!("{program}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr))));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn wrong(text: String) -> io::Error {
    io::Error::other(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_read_and_nothing_counted_is_no_total() {
        assert_eq!(total("version: 1\nfn=(2) Counters::totals\n+3 7\ntotals: 1234\n"), Some(1234));
        assert_eq!(total("version: 1\ntotals: 0\n"), None);
        assert_eq!(total("version: 1\n"), None);
    }

    #[test]
    fn a_program_that_is_missing_is_named() {
        let error = output(&mut Command::new("no-such-valgrind")).expect_err("it isn't there");
        assert!(error.to_string().starts_with("no-such-valgrind isn't there: install it"), "{error}");
    }
}
