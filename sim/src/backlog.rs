//! Waiting of scripted clients.

use crate::failure::{Check, Failure};
use crate::world::World;

/// Number of the world's steps after which an answer isn't expected any more.
pub(crate) const STEPS_MAX: u32 = 200_000;

/// Runs the world until the wanted event comes; other events stay in the backlog. `heard` takes what the client has received, and `look`
/// says of an event whether it is the wanted one.
///
/// # Errors
/// It never comes, or what `look` says of an event that ends everything.
pub(crate) fn until<H, T>(
    world: &mut World,
    backlog: &mut Vec<H>,
    heard: impl Fn(&mut World) -> Vec<H>,
    mut look: impl FnMut(&H) -> Result<Option<T>, Failure>,
) -> Result<T, Failure> {
    for _ in 0..STEPS_MAX {
        backlog.extend(heard(world));
        for at in 0..backlog.len() {
            if let Some(found) = look(&backlog[at])? {
                backlog.remove(at);
                return Ok(found);
            }
        }
        if !world.step()? {
            break;
        }
    }
    Err(Failure::new(Check::Answered, "an answer never came"))
}
