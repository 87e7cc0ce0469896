// The AMQP 1.0 scenarios of the client table, with RabbitMQ's client for Go. tests/clients/AMQP10.md says what each does.
package main

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	amqp "github.com/Azure/go-amqp"
	rabbit "github.com/rabbitmq/rabbitmq-amqp-go-client/pkg/rabbitmqamqp"
	. "leveret/tests/gocell"
)

func main() {
	rabbit.SetSlogHandler(slog.DiscardHandler)
	scenarios := map[string]func(){}
	for _, group := range []map[string]func(){connection, messages, management} {
		for name, run := range group {
			scenarios[name] = run
		}
	}
	Main(scenarios)
}

func connectWith(userinfo, path string, options *rabbit.AmqpConnOptions) (*rabbit.AmqpConnection, error) {
	if options == nil {
		options = &rabbit.AmqpConnOptions{}
	}
	options.TLSConfig = TLS()
	return rabbit.Dial(Within(), Scheme+"://"+userinfo+Authority+"/"+path, options)
}

// connect opens a connection that isn't opened again by the library.
func connect() *rabbit.AmqpConnection {
	return Got(connectWith("guest:guest@", "", &rabbit.AmqpConnOptions{RecoveryConfiguration: once}))
}

var once = &rabbit.RecoveryConfiguration{ActiveRecovery: false}

// watch tells when the connection closes.
func watch(c *rabbit.AmqpConnection) chan *rabbit.StateChanged {
	changes := make(chan *rabbit.StateChanged, 16)
	c.NotifyStatusChange(changes)
	return changes
}

func publisher(c *rabbit.AmqpConnection, to rabbit.ITargetAddress) *rabbit.Publisher {
	return Got(c.NewPublisher(Within(), to, nil))
}

func toQueue(c *rabbit.AmqpConnection, queue string) *rabbit.Publisher {
	return publisher(c, &rabbit.QueueAddress{Queue: queue})
}

func consumer(c *rabbit.AmqpConnection, queue string, credits int32) *rabbit.Consumer {
	return Got(c.NewConsumer(Within(), queue, &rabbit.ConsumerOptions{InitialCredits: credits}))
}

func durable(body string) *amqp.Message {
	m := rabbit.NewMessage([]byte(body))
	m.Header = &amqp.MessageHeader{Durable: true, Priority: 4}
	return m
}

func put(p *rabbit.Publisher, m *amqp.Message) rabbit.DeliveryState {
	return Got(p.Publish(Within(), m)).Outcome
}

// send sends durable messages, all of which are accepted.
func send(p *rabbit.Publisher, bodies ...string) {
	var outcomes sync.WaitGroup
	problems := make(chan string, len(bodies))
	for _, body := range bodies {
		outcomes.Add(1)
		Must(p.PublishAsync(Within(), durable(body), func(result *rabbit.PublishResult, err error) {
			defer outcomes.Done()
			if err != nil {
				problems <- err.Error()
			} else if _, ok := result.Outcome.(*rabbit.StateAccepted); !ok {
				problems <- fmt.Sprintf("%T instead of accepted", result.Outcome)
			}
		}))
	}
	outcomes.Wait()
	close(problems)
	for problem := range problems {
		Fail("%s", problem)
	}
}

func accepted(state rabbit.DeliveryState) {
	_, ok := state.(*rabbit.StateAccepted)
	Check(ok, "%T instead of accepted", state)
}

func released(state rabbit.DeliveryState) {
	_, ok := state.(*rabbit.StateReleased)
	Check(ok, "%T instead of released", state)
}

func rejected(state rabbit.DeliveryState, condition amqp.ErrCond) *amqp.Error {
	is, ok := state.(*rabbit.StateRejected)
	Check(ok, "%T instead of rejected", state)
	Check(is.Error != nil, "rejected without an error")
	Equal(is.Error.Condition, condition, "condition ("+is.Error.Description+")")
	return is.Error
}

func next(c *rabbit.Consumer) rabbit.IDeliveryContext { return Got(c.Receive(Within())) }

func body(d rabbit.IDeliveryContext) string { return string(d.Message().GetData()) }

// bodies receives and accepts these, in this order.
func bodies(c *rabbit.Consumer, expected ...string) {
	for _, want := range expected {
		d := next(c)
		Equal(body(d), want, "body")
		Must(d.Accept(Within()))
	}
}

func numbered(from, to int) []string {
	var names []string
	for i := from; i < to; i++ {
		names = append(names, fmt.Sprintf("m%d", i))
	}
	return names
}

// remote is the error that the broker sent, wherever the library puts it.
func remote(err error) *amqp.Error {
	var link *amqp.LinkError
	var session *amqp.SessionError
	var connection *amqp.ConnError
	var plain *amqp.Error
	switch {
	case errors.As(err, &link) && link.RemoteErr != nil:
		return link.RemoteErr
	case errors.As(err, &session) && session.RemoteErr != nil:
		return session.RemoteErr
	case errors.As(err, &connection) && connection.RemoteErr != nil:
		return connection.RemoteErr
	case errors.As(err, &plain):
		return plain
	}
	return nil
}

// is: the broker refused with this condition, and a description that contains the words.
func is(err error, condition amqp.ErrCond, words string) {
	Check(err != nil, "no error instead of %s", condition)
	problem := remote(err)
	Check(problem != nil, "%s expected, got %v", condition, err)
	Equal(problem.Condition, condition, "condition ("+problem.Description+")")
	Check(strings.Contains(problem.Description, words), "%q doesn't name %q", problem.Description, words)
}
