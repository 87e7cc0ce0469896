//! Tests of the cluster's thread.
