module leveret/tests/client

go 1.26

require github.com/rabbitmq/amqp091-go v1.16.0
