//! Prints the longest uninterrupted time of a core for clients that do something to 60,000 things at once:
//! `leveret-turns [PART]`, with a part of the names to run only these.
//!
//! It has the node's allocator: with another one, a turn may pay at once for memory that was freed long before.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    leveret_instructions::turns::print(&std::env::args().nth(1).unwrap_or_default());
}
