//! What is done with a node over HTTP, and at its start: limits, definitions, the calls of others' tools, and how long
//! lists take with 100,000 queues.

mod boot_definitions;
mod configuration;
mod hang_up;
mod listeners;
mod object_limits;
mod queues_of_users;
mod rabbitmqadmin;
mod rabbitmqadmin_v2;
mod scale;
mod sorting;
mod terraform;
mod tools;
