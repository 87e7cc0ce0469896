//! Links the code that unwinds a panic into the binary, so that the C library is its only dynamic dependency.
//!
//! The standard library asks for `libgcc_s.so.1`. The linker finds this script first, which names the static archives
//! that come with GCC. If there are none (another compiler, another system), nothing changes.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const SCRIPT: &str = "/* Instead of the shared library of this name. */\nGROUP ( -lgcc_eh -lgcc )\n";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let target = |part: &str| env::var(format!("CARGO_CFG_TARGET_{part}")).unwrap_or_default();
    if target("OS") != "linux" || target("ENV") != "gnu" || env::var("HOST") != env::var("TARGET") {
        return;
    }
    if ["libgcc_eh.a", "libgcc.a"].iter().all(|archive| has(archive)) {
        let directory = PathBuf::from(env::var_os("OUT_DIR").expect("cargo names it"));
        fs::write(directory.join("libgcc_s.so"), SCRIPT).expect("OUT_DIR can be written");
        println!("cargo::rustc-link-search=native={}", directory.display());
    }
}

/// Whether the compiler that links has an archive: it prints the archive's path, or only the requested name if it has
/// none.
fn has(archive: &str) -> bool {
    let asked = Command::new("cc").arg(format!("-print-file-name={archive}")).output();
    asked.is_ok_and(|said| Path::new(String::from_utf8_lossy(&said.stdout).trim()).is_absolute())
}
