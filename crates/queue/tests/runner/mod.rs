//! Reads scenarios and carries out their steps.

pub(crate) mod bench;
mod commands;
pub(crate) mod script;
mod stream;
mod words;
