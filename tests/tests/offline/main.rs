//! `leveret verify` and `leveret log dump`, on directories written by every released version, and on damaged ones.

mod damage;
mod entries;
mod fixtures;
mod metadata;
