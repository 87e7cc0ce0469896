//! Nothing of its own: its manifest names the version of the client.

#![forbid(unsafe_code)]
