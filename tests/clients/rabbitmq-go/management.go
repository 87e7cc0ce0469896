package main

import (
	"errors"

	amqp "github.com/Azure/go-amqp"
	rabbit "github.com/rabbitmq/rabbitmq-amqp-go-client/pkg/rabbitmqamqp"
	. "leveret/tests/gocell"
)

var management = map[string]func(){
	"management": func() {
		c := connect()
		m := c.Management()
		q, x := Name("q ä/"), Name("x")
		specification := &rabbit.ClassicQueueSpecification{Name: q}
		for range 2 {
			info := Got(m.DeclareQueue(Within(), specification))
			Equal(info.Name(), q, "name")
			Check(info.IsDurable(), "not durable")
			Equal(info.Type(), rabbit.Classic, "type")
		}
		Equal(Got(m.QueueInfo(Within(), q)).MessageCount(), 0, "message_count")
		Got(m.DeclareExchange(Within(), &rabbit.DirectExchangeSpecification{Name: x}))
		path := Got(m.Bind(Within(), &rabbit.ExchangeToQueueBindingSpecification{
			SourceExchange: x, DestinationQueue: q, BindingKey: "k",
		}))
		p := publisher(c, exchange(x, "k"))
		send(p, "one")
		Equal(Got(m.PurgeQueue(Within(), q)), 1, "purged")
		Must(m.Unbind(Within(), path))
		Must(m.Unbind(Within(), path))
		released(put(p, durable("lost")))
		Must(p.Close(Within()))
		Must(m.DeleteExchange(Within(), x))
		Must(m.DeleteQueue(Within(), q))
		_, err := m.QueueInfo(Within(), q)
		Check(errors.Is(err, rabbit.ErrDoesNotExist), "%v", err)
	},
	"management_errors": func() {
		m := connect().Management()
		q, x := Name("q"), Name("x")
		Got(m.DeclareQueue(Within(), &rabbit.ClassicQueueSpecification{Name: q}))
		_, err := m.DeclareQueue(Within(), &rabbit.ClassicQueueSpecification{Name: q, MaxLength: 7})
		Check(errors.Is(err, rabbit.ErrPreconditionFailed), "%v", err)
		Got(m.DeclareExchange(Within(), &rabbit.DirectExchangeSpecification{Name: x}))
		_, err = m.DeclareExchange(Within(), &rabbit.FanOutExchangeSpecification{Name: x})
		Check(errors.Is(err, rabbit.ErrPreconditionFailed), "%v", err)
		_, err = m.QueueInfo(Within(), Name("missing"))
		Check(errors.Is(err, rabbit.ErrDoesNotExist), "%v", err)
		body := map[string]any{
			"durable": true, "exclusive": false, "auto_delete": false, "arguments": map[string]any{"x-max-length": -1},
		}
		_, err = m.Request(Within(), body, AtQueue(Name("bad")), "PUT", []int{201})
		Check(errors.Is(err, rabbit.ErrPreconditionFailed), "%v", err)
		_, err = m.DeclareQueue(Within(), &rabbit.ClassicQueueSpecification{Name: "amq.x"})
		Check(err != nil, "amq.x was declared")
		Must(m.DeleteExchange(Within(), x))
		Must(m.DeleteQueue(Within(), q))
	},
	"exclusive": func() {
		q := Name("q")
		Peer(map[string]any{"do": "declare", "queue": q, "exclusive": true})
		_, err := connect().NewConsumer(Within(), q, nil)
		is(err, amqp.ErrCondResourceLocked, q)
	},
	"queue_deleted": func() {
		q, other := Queue("q"), Queue("other")
		c := connect()
		p, r := toQueue(c, q), consumer(c, q, 1)
		Delete(q)
		_, err := r.Receive(Within())
		is(err, amqp.ErrCondResourceDeleted, "")
		// The broker tells the consumer and the publisher, one after the other: a message may come in between.
		late, err := p.Publish(Within(), durable("late"))
		if err == nil {
			_, isAccepted := late.Outcome.(*rabbit.StateAccepted)
			Check(!isAccepted, "a message was published to a deleted queue")
		}
		send(toQueue(c, other), "one")
		bodies(consumer(c, other, 1), "one")
	},
	"not_found": func() {
		q, missing := Queue("q"), Name("missing")
		c := connect()
		_, err := c.NewConsumer(Within(), missing, nil)
		is(err, amqp.ErrCondNotFound, missing)
		_, err = c.NewPublisher(Within(), &rabbit.QueueAddress{Queue: missing}, nil)
		is(err, amqp.ErrCondNotFound, missing)
		_, err = c.NewPublisher(Within(), exchange(missing, "k"), nil)
		is(err, amqp.ErrCondNotFound, missing)
		send(toQueue(c, q), "one")
		bodies(consumer(c, q, 1), "one")
	},
	"unauthorized": func() {
		c := connect()
		_, err := c.NewPublisher(Within(), exchange("amq.direct", "k"), nil)
		is(err, amqp.ErrCondUnauthorizedAccess, "amq.direct")
		q := Queue("q")
		_, err = c.NewConsumer(Within(), q, nil)
		is(err, amqp.ErrCondUnauthorizedAccess, q)
		connect()
	},
	"user_id": func() {
		q := Queue("q")
		c := connect()
		m := durable("whose")
		m.Properties = &amqp.MessageProperties{UserID: []byte("somebody")}
		result, err := toQueue(c, q).Publish(Within(), m)
		if err == nil {
			rejected(result.Outcome, amqp.ErrCondUnauthorizedAccess)
		} else {
			is(err, amqp.ErrCondUnauthorizedAccess, "somebody")
		}
		m.Properties.UserID = []byte("guest")
		accepted(put(toQueue(c, q), m))
	},
	"message_too_large": func() {
		const limit = 100_000
		q := Queue("q")
		c := connect()
		_, err := toQueue(c, q).Publish(Within(), durable(string(make([]byte, limit+1))))
		Check(err != nil, "a message of %d bytes went out", limit+1)
		send(toQueue(c, q), "small")
	},
	"bad_annotation": func() {
		q := Queue("q")
		c := connect()
		m := durable("annotated")
		m.Annotations = amqp.Annotations{"y": "z"}
		_, err := toQueue(c, q).Publish(Within(), m)
		is(err, amqp.ErrCondDecodeError, "")
		send(toQueue(c, q), "plain")
	},
}
