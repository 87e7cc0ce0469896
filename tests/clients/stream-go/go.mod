// Suite: github.com/rabbitmq/rabbitmq-stream-go-client
module leveret/tests/stream-go

go 1.26

require github.com/rabbitmq/rabbitmq-stream-go-client v1.8.3
