//! Service buses of .NET by the frames that they send: what `MassTransit` and `NServiceBus` declare, publish and settle on a
//! RabbitMQ, written from their sources, without their code.

mod bus;
mod masstransit;
mod nservicebus;
