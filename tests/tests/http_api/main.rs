//! Administration over HTTP and at the start: limits, definitions, the requests of third-party tools, and the
//! duration of lists with 100,000 queues.

mod boot_definitions;
mod configuration;
mod hang_up;
mod listeners;
mod names;
mod object_limits;
mod queues_of_users;
mod rabbitmqadmin;
mod rabbitmqadmin_v2;
mod scale;
mod sorting;
mod terraform;
mod tools;
