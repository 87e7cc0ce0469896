//! Situations that people ask for help with, each staged: the API says what is wrong in a sentence, as the page and the command line
//! show it.

mod attention;
mod consumers;
mod dead_letters;
mod exchanges;
mod limits;
mod node;
mod stage;
