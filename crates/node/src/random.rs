use std::io;

/// Fills `bytes` from the system's randomness.
///
/// # Errors
/// The system provides none.
pub(crate) fn fill(bytes: &mut [u8]) -> io::Result<()> {
    let mut have = 0;
    while have < bytes.len() {
        have += rustix::rand::getrandom(&mut bytes[have..], rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(())
}
