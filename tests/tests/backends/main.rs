//! Backends of logins: the chain, a service over HTTP, the cache before it, and tokens; with real traffic over all protocols.

mod cache;
mod chain;
mod http;
mod service;
mod stage;
mod tokens;
