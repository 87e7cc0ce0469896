//! Sessions of a broker without threads, sockets or a clock: strict clients on one side, a disk in memory on the
//! other, and time that passes when a test says so.

mod client_amqp10;
mod shared_prefetch;
mod stage;

mod access;
mod alarms;
mod allocations;
mod consuming;
mod conversion;
mod delayed;
mod dynamic_amqp10;
mod fan_out;
mod firehose;
mod frame_max;
mod headers;
mod inquiries;
mod late_answers;
mod late_answers_amqp10;
mod limits;
mod login;
mod long_commits;
mod many_commands;
mod many_consumers;
mod names;
mod overdue;
mod own_exchanges;
mod own_publishes;
mod parts;
mod permission_matrix;
mod policies;
mod publishing;
mod publishing_amqp10;
mod reads;
mod receiving_amqp10;
mod recent_history;
mod removals_amqp10;
mod renewal;
mod reply_to;
mod reply_to_amqp10;
mod requeue_places;
mod routes;
mod topic_permissions;
mod transactions;
mod waiting_for_log;
mod wide_dead_letters;
