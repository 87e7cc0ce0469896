// The AMQP 1.0 scenarios of the client table, with Azure/go-amqp. tests/clients/AMQP10.md says what each does.
package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	amqp "github.com/Azure/go-amqp"
	. "leveret/tests/gocell"
)

func main() {
	scenarios := map[string]func(){}
	for _, group := range []map[string]func(){connection, sending, receiving, both, management, refusals} {
		for name, run := range group {
			scenarios[name] = run
		}
	}
	Main(scenarios)
}

func connectWith(user, password string, options *amqp.ConnOptions) (*amqp.Conn, error) {
	return dial(user+":"+password+"@", options)
}

func dial(userinfo string, options *amqp.ConnOptions) (*amqp.Conn, error) {
	if options == nil {
		options = &amqp.ConnOptions{}
	}
	options.TLSConfig = TLS()
	return amqp.Dial(Within(), fmt.Sprintf("%s://%s%s", Scheme, userinfo, Authority), options)
}

func connect() *amqp.Conn { return Got(connectWith("guest", "guest", nil)) }

func session(c *amqp.Conn) *amqp.Session { return Got(c.NewSession(Within(), nil)) }

// begin is a session of a connection of its own.
func begin() *amqp.Session { return session(connect()) }

func sender(s *amqp.Session, target string) *amqp.Sender { return senderWith(s, target, nil) }

func senderWith(s *amqp.Session, target string, options *amqp.SenderOptions) *amqp.Sender {
	return Got(s.NewSender(Within(), target, options))
}

// manual receives only what credit is issued for.
func manual(s *amqp.Session, source string) *amqp.Receiver {
	return receiverWith(s, source, &amqp.ReceiverOptions{Credit: -1})
}

// receiver renews its credit by itself.
func receiver(s *amqp.Session, source string, credit int32) *amqp.Receiver {
	return receiverWith(s, source, &amqp.ReceiverOptions{Credit: credit})
}

func receiverWith(s *amqp.Session, source string, options *amqp.ReceiverOptions) *amqp.Receiver {
	return Got(s.NewReceiver(Within(), source, options))
}

func durable(body string) *amqp.Message {
	m := amqp.NewMessage([]byte(body))
	m.Header = &amqp.MessageHeader{Durable: true, Priority: 4}
	return m
}

// offer sends without waiting for the outcome.
func offer(s *amqp.Sender, m *amqp.Message) amqp.SendReceipt {
	return Got(s.SendWithReceipt(Within(), m, nil))
}

func outcome(receipt amqp.SendReceipt) amqp.DeliveryState { return Got(receipt.Wait(Within())) }

// send sends durable messages, all of which are accepted.
func send(s *amqp.Sender, bodies ...string) {
	receipts := make([]amqp.SendReceipt, 0, len(bodies))
	for _, body := range bodies {
		receipts = append(receipts, offer(s, durable(body)))
	}
	for _, receipt := range receipts {
		accepted(outcome(receipt))
	}
}

// put sends one message and returns its outcome.
func put(s *amqp.Sender, m *amqp.Message) amqp.DeliveryState { return outcome(offer(s, m)) }

func accepted(state amqp.DeliveryState) {
	_, ok := state.(*amqp.StateAccepted)
	Check(ok, "%T instead of accepted", state)
}

func released(state amqp.DeliveryState) {
	_, ok := state.(*amqp.StateReleased)
	Check(ok, "%T instead of released", state)
}

func rejected(state amqp.DeliveryState, condition amqp.ErrCond) *amqp.Error {
	is, ok := state.(*amqp.StateRejected)
	Check(ok, "%T instead of rejected", state)
	Check(is.Error != nil, "rejected without an error")
	Equal(is.Error.Condition, condition, "condition ("+is.Error.Description+")")
	return is.Error
}

func next(r *amqp.Receiver) *amqp.Message { return Got(r.Receive(Within(), nil)) }

func accept(r *amqp.Receiver, m *amqp.Message) { Must(r.AcceptMessage(Within(), m)) }

func body(m *amqp.Message) string { return string(m.GetData()) }

// bodies receives and accepts these, in this order.
func bodies(r *amqp.Receiver, expected ...string) {
	for _, want := range expected {
		m := next(r)
		Equal(body(m), want, "body")
		accept(r, m)
	}
}

// nothing comes: the answer to a drain is there, a message isn't.
func nothing(r *amqp.Receiver) {
	Must(r.DrainCredit(Within(), nil))
	m := r.Prefetched()
	Check(m == nil, "a message that wasn't expected")
}

// empty: the queue holds nothing, ready or unacknowledged, once its links are gone.
func empty(queue string) { Equal(Ready(queue), 0, "messages in "+queue) }

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

// usable is the session, or a new one where the broker ends it with a refused link.
func usable(s *amqp.Session, c *amqp.Conn, queue string) *amqp.Session {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	probe, err := s.NewSender(ctx, AtQueue(queue), nil)
	if err != nil {
		return session(c)
	}
	Must(probe.Close(ctx))
	return s
}
