//! strict-client
