package main

import (
	"fmt"

	amqp "github.com/Azure/go-amqp"
	. "leveret/tests/gocell"
)

var refusals = map[string]func(){
	"exclusive": func() {
		q := Name("q")
		Peer(map[string]any{"do": "declare", "queue": q, "exclusive": true})
		_, err := begin().NewReceiver(Within(), AtQueue(q), nil)
		is(err, amqp.ErrCondResourceLocked, q)
	},
	"queue_deleted": func() {
		q, other := Queue("q"), Queue("other")
		s := begin()
		link, r := sender(s, AtQueue(q)), receiver(s, AtQueue(q), 1)
		Delete(q)
		_, err := r.Receive(Within(), nil)
		is(err, amqp.ErrCondResourceDeleted, "")
		// The sender learns it with its next message.
		err = link.Send(Within(), durable("late"), nil)
		for err == nil {
			err = link.Send(Within(), durable("late"), nil)
		}
		is(err, amqp.ErrCondResourceDeleted, "")
		send(sender(s, AtQueue(other)), "one")
		bodies(receiver(s, AtQueue(other), 1), "one")
	},
	"not_found": func() {
		q, missing := Queue("q"), Name("missing")
		c := connect()
		s := session(c)
		_, err := s.NewReceiver(Within(), AtQueue(missing), nil)
		is(err, amqp.ErrCondNotFound, missing)
		s = usable(s, c, q)
		_, err = s.NewSender(Within(), AtQueue(missing), nil)
		is(err, amqp.ErrCondNotFound, missing)
		s = usable(s, c, q)
		_, err = s.NewSender(Within(), AtExchange(missing, "k"), nil)
		is(err, amqp.ErrCondNotFound, missing)
		s = usable(s, c, q)
		send(sender(s, AtQueue(q)), "one")
		bodies(receiver(s, AtQueue(q), 1), "one")
	},
	"bad_address": func() {
		q := Queue("q")
		c := connect()
		s := session(c)
		for _, target := range []string{
			"/exchanges//k", "/exchanges/amq.default/k", "/queues/", "/nothing/x", "/queues/a%zz",
		} {
			_, err := s.NewSender(Within(), target, nil)
			is(err, amqp.ErrCondInvalidField, "")
			s = usable(s, c, q)
		}
		_, err := s.NewReceiver(Within(), "/exchanges/amq.direct/k", nil)
		is(err, amqp.ErrCondInvalidField, "")
		s = usable(s, c, q)
		send(sender(s, AtQueue(q)), "one")
	},
	"unauthorized": func() {
		c := connect()
		_, err := session(c).NewSender(Within(), AtExchange("amq.direct", "k"), nil)
		is(err, amqp.ErrCondUnauthorizedAccess, "amq.direct")
		q := Queue("q")
		_, err = session(c).NewReceiver(Within(), AtQueue(q), nil)
		is(err, amqp.ErrCondUnauthorizedAccess, q)
		session(connect())
	},
	"user_id": func() {
		q := Queue("q")
		c := connect()
		link := sender(session(c), AtQueue(q))
		m := durable("whose")
		m.Properties = &amqp.MessageProperties{UserID: []byte("somebody")}
		state, err := refused(link, m)
		if err == nil {
			rejected(state, amqp.ErrCondUnauthorizedAccess)
		} else {
			is(err, amqp.ErrCondUnauthorizedAccess, "somebody")
		}
		m.Properties.UserID = []byte("guest")
		accepted(put(sender(session(c), AtQueue(q)), m))
	},
	"message_too_large": func() {
		const limit = 100_000
		q := Queue("q")
		c := connect()
		link := sender(session(c), AtQueue(q))
		Equal(link.MaxMessageSize(), limit, "max-message-size")
		// The library refuses by itself what is larger than the link allows.
		err := link.Send(Within(), durable(string(make([]byte, limit+1))), nil)
		Check(err != nil, "a message of %d bytes went out", limit+1)
		send(sender(session(c), AtQueue(q)), "small")
	},
	"bad_annotation": func() {
		q := Queue("q")
		c := connect()
		m := durable("annotated")
		m.Annotations = amqp.Annotations{"y": "z"}
		_, err := refused(sender(session(c), AtQueue(q)), m)
		is(err, amqp.ErrCondDecodeError, "")
		send(sender(session(c), AtQueue(q)), "plain")
	},
	"settle_mode_second": func() {
		q := Queue("q")
		_, err := begin().NewReceiver(Within(), AtQueue(q), &amqp.ReceiverOptions{
			SettlementMode: amqp.ReceiverSettleModeSecond.Ptr(),
		})
		is(err, amqp.ErrCondNotImplemented, "")
	},
	"framing_error": func() {
		other := begin()
		c := connect()
		session(c)
		Ask("inject 0000000302000000", "done")
		gone(c)
		is(c.Err(), amqp.ErrCondFramingError, "")
		q := Queue("q")
		send(sender(other, AtQueue(q)), "one")
	},
	"session_errors": func() {
		q := Queue("q")
		s := begin()
		// A transfer: handle 77, delivery-id 0, delivery-tag "t", message-format 0, settled; an empty body.
		inject("005314c00905524d43a001744341")
		_, err := s.NewSender(Within(), AtQueue(q), nil)
		is(err, "amqp:session:unattached-handle", "")

		s = begin()
		link := sender(s, AtQueue(q))
		// An attach: another name, handle 0, a sender; source and target are absent.
		inject("005312c00a03a1056f746865724342")
		for err = nil; err == nil; {
			err = link.Send(Within(), durable("late"), nil)
		}
		is(err, "amqp:session:handle-in-use", "")
	},
}

// refused sends what isn't accepted: the outcome, or the error that ended the link.
func refused(link *amqp.Sender, m *amqp.Message) (amqp.DeliveryState, error) {
	receipt, err := link.SendWithReceipt(Within(), m, nil)
	if err != nil {
		return nil, err
	}
	return receipt.Wait(Within())
}

// inject puts a performative on channel 0 of the last connection.
func inject(performative string) {
	Ask(fmt.Sprintf("inject %08x02000000%s", 8+len(performative)/2, performative), "done")
}
