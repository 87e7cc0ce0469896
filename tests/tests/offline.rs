//! `leveret verify` and `leveret log dump`: on directories that every released version wrote, and on damaged ones.

mod offline {
    mod damage;
    mod fixtures;
}
