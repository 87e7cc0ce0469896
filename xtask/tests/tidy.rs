//! The repository follows its own rules.

#[test]
fn the_repository_is_tidy() {
    let complaints = xtask::tidy::check(&xtask::root()).expect("the repository can be read");
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}
