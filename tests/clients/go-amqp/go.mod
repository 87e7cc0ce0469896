// Suite: github.com/Azure/go-amqp
module leveret/tests/go-amqp

go 1.26

require (
	github.com/Azure/go-amqp v1.7.0
	leveret/tests/gocell v0.0.0
)

replace leveret/tests/gocell => ../gocell
