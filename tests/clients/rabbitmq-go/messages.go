package main

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"strings"
	"time"

	amqp "github.com/Azure/go-amqp"
	rabbit "github.com/rabbitmq/rabbitmq-amqp-go-client/pkg/rabbitmqamqp"
	. "leveret/tests/gocell"
)

func exchange(name, key string) *rabbit.ExchangeAddress {
	return &rabbit.ExchangeAddress{Exchange: name, Key: key}
}

var messages = map[string]func(){
	"publish": func() {
		q := Queue("q")
		c := connect()
		send(toQueue(c, q), numbered(0, 100)...)
		Equal(Ready(q), 100, "messages")
		r := consumer(c, q, 30)
		for _, name := range numbered(0, 100) {
			d := next(r)
			Equal(body(d), name, "body")
			Check(d.Message().Header != nil && d.Message().Header.Durable, "not durable")
			Must(d.Accept(Within()))
		}
	},
	"exchange_target": func() {
		q := Queue("q")
		x, f := Exchange("x ä/%", "direct"), Exchange("f", "fanout")
		Bind(q, x, "k ü/?&")
		Bind(q, f, "")
		c := connect()
		send(publisher(c, exchange(x, "k ü/?&")), "by key")
		send(publisher(c, exchange(f, "")), "by fanout")
		r := consumer(c, q, 2)
		d := next(r)
		Equal(body(d), "by key", "body")
		Equal(d.Message().Annotations["x-exchange"], any(x), "x-exchange")
		Equal(d.Message().Annotations["x-routing-key"], any("k ü/?&"), "x-routing-key")
		Must(d.Accept(Within()))
		bodies(r, "by fanout")
	},
	"anonymous_terminus": func() {
		q := Queue("q")
		Bind(q, "amq.direct", Name("k"))
		c := connect()
		p := publisher(c, nil)
		to := func(address rabbit.ITargetAddress) rabbit.DeliveryState {
			return put(p, Got(rabbit.NewMessageWithAddress([]byte("body"), address)))
		}
		accepted(to(&rabbit.QueueAddress{Queue: q}))
		accepted(to(exchange("amq.direct", Name("k"))))
		released(to(exchange("amq.direct", Name("nowhere"))))
		released(to(&rabbit.QueueAddress{Queue: Name("missing")}))
		rejected(to(exchange(Name("missing"), "k")), amqp.ErrCondNotFound)
		accepted(to(&rabbit.QueueAddress{Queue: q}))
		bodies(consumer(c, q, 3), "body", "body", "body")
	},
	"unroutable": func() {
		q := Queue("q")
		c := connect()
		p := publisher(c, exchange("amq.direct", Name("nowhere")))
		released(put(p, durable("lost")))
		Bind(q, "amq.direct", Name("nowhere"))
		send(p, "found")
		bodies(consumer(c, q, 1), "found")
	},
	"rejected": func() {
		q := QueueWith("q", map[string]any{"x-max-length": 1, "x-overflow": "reject-publish"})
		p := toQueue(connect(), q)
		send(p, "first")
		for range 10 {
			state := put(p, durable("more"))
			if _, ok := state.(*rabbit.StateAccepted); ok {
				continue // A RabbitMQ queue lets a few pass.
			}
			problem := rejected(state, amqp.ErrCondResourceLimitExceeded)
			Equal(problem.Info["queue"], any(q), "queue")
			Equal(fmt.Sprint(problem.Info["reason"]), "maxlen", "reason")
			return
		}
		Fail("nothing was rejected")
	},
	"big_message": func() {
		q := Queue("q")
		c := Got(connectWith("guest:guest@", "", &rabbit.AmqpConnOptions{MaxFrameSize: 4096}))
		p, r := toQueue(c, q), consumer(c, q, 2)
		big := make([]byte, 1<<20)
		for i := range big {
			big[i] = byte(i ^ i>>8)
		}
		for range 2 {
			send(p, string(big), "small")
			d := next(r)
			Check(bytes.Equal(d.Message().GetData(), big), "%d bytes came back differently", len(d.Message().GetData()))
			Must(d.Accept(Within()))
			bodies(r, "small")
		}
	},
	"sections": func() {
		q := Queue("q")
		c := connect()
		at := time.UnixMilli(1_700_000_000_123)
		text := func(value string) *string { return &value }
		group := uint32(7)
		m := amqp.NewMessage([]byte("body"))
		m.Header = &amqp.MessageHeader{Durable: true, Priority: 7, TTL: 600 * time.Second}
		m.Annotations = amqp.Annotations{"x-s": "note", "x-i": int32(-5)}
		m.Properties = &amqp.MessageProperties{
			MessageID: "message", UserID: []byte("guest"), To: text("to ✓"), Subject: text("subject"),
			ReplyTo: text("reply-to"), CorrelationID: "correlation", ContentType: text("text/plain"),
			ContentEncoding: text("utf-8"), AbsoluteExpiryTime: &at, CreationTime: &at, GroupID: text("group"),
			GroupSequence: &group, ReplyToGroupID: text("reply group"),
		}
		m.ApplicationProperties = map[string]any{
			"null": nil, "true": true, "ubyte": uint8(255), "uint": uint32(4294967295), "byte": int8(-128),
			"long": int64(-9223372036854775808), "double": 2.25, "timestamp": at, "uuid": amqp.UUID{1, 15: 16},
			"binary": []byte{0, 255}, "string": "ключ ✓",
		}
		m.Footer = amqp.Annotations{"x-f": "foot"}
		accepted(put(toQueue(c, q), m))
		d := next(consumer(c, q, 1))
		came := d.Message()
		header := came.Header
		Check(header != nil && header.Durable && header.Priority == 7, "header %v", header)
		Check(header.FirstAcquirer && header.DeliveryCount == 0, "header %v", header)
		Check(header.TTL > 0 && header.TTL <= m.Header.TTL, "ttl %v", header.TTL)
		same(came.Properties, m.Properties, "properties")
		same(came.ApplicationProperties, m.ApplicationProperties, "application properties")
		same(came.Footer, m.Footer, "footer")
		same(came.Data, m.Data, "body")
		m.Annotations["x-exchange"], m.Annotations["x-routing-key"] = "", q
		same(came.Annotations, m.Annotations, "annotations")
		Must(d.Accept(Within()))
	},
	"message_ids": func() {
		q := Queue("q")
		c := connect()
		p, r := toQueue(c, q), consumer(c, q, 10)
		for _, id := range []any{"text", uint64(1) << 63, amqp.UUID{1, 15: 16}, []byte{0, 1, 255}} {
			m := durable("ids")
			m.Properties = &amqp.MessageProperties{MessageID: id, CorrelationID: id}
			accepted(put(p, m))
			d := next(r)
			same(d.Message().Properties.MessageID, id, "message-id")
			same(d.Message().Properties.CorrelationID, id, "correlation-id")
			Must(d.Accept(Within()))
		}
	},
	"bodies": func() {
		q := Queue("q")
		c := connect()
		p, r := toQueue(c, q), consumer(c, q, 10)
		for _, m := range []*amqp.Message{
			{Data: [][]byte{[]byte("one"), []byte("two")}},
			{Value: "ключ ✓"},
			{Value: int32(-7)},
			{Value: map[string]any{"outer": map[string]any{"inner": "deep"}, "n": int64(3)}},
			{Sequence: [][]any{{"a"}, {"b", int64(2)}}},
		} {
			accepted(put(p, m))
			d := next(r)
			same(d.Message().Data, m.Data, "data")
			same(d.Message().Value, m.Value, "value")
			same(d.Message().Sequence, m.Sequence, "sequence")
			Must(d.Accept(Within()))
		}
	},
	"outcomes": func() {
		q := Queue("q")
		c := connect()
		p, r := toQueue(c, q), consumer(c, q, 10)
		send(p, "accepted")
		bodies(r, "accepted")
		send(p, "rejected")
		Must(next(r).Discard(Within(), nil))
		send(p, "released")
		Must(next(r).Requeue(Within()))
		again(next(r), "released", 0)
		send(p, "annotated")
		Must(next(r).RequeueWithAnnotations(Within(), amqp.Annotations{"x-opt-why": "because"}))
		again(next(r), "annotated", 0)
		send(p, "undeliverable")
		Must(next(r).DiscardWithAnnotations(Within(), amqp.Annotations{"x-opt-why": "because"}))
		send(p, "last")
		bodies(r, "last")
		Must(c.Close(Within()))
		Equal(Ready(q), 0, "messages")
	},
	"dead_letter": func() {
		dead := Queue("dead")
		q := QueueWith("q", map[string]any{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead})
		c := connect()
		p, r, buried := toQueue(c, q), consumer(c, q, 1), consumer(c, dead, 1)
		send(p, "rejected")
		Must(next(r).Discard(Within(), nil))
		died(next(buried), "rejected", q, "rejected")
		send(p, "undeliverable")
		Must(next(r).DiscardWithAnnotations(Within(), amqp.Annotations{"x-opt-why": "because"}))
		died(next(buried), "undeliverable", q, "rejected")
	},
	"ttl": func() {
		dead := Queue("dead")
		q := QueueWith("q", map[string]any{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead})
		c := connect()
		p, buried := toQueue(c, q), consumer(c, dead, 1)
		m := durable("short")
		m.Header.TTL = time.Millisecond
		accepted(put(p, m))
		d := next(buried)
		Check(d.Message().Header.TTL == 0, "ttl %v", d.Message().Header.TTL)
		died(d, "short", q, "expired")

		m = durable("long")
		m.Header.TTL = 600 * time.Second
		accepted(put(p, m))
		m = amqp.NewMessage([]byte("transient"))
		m.Header = &amqp.MessageHeader{Priority: 9}
		accepted(put(p, m))
		r := consumer(c, q, 2)
		d = next(r)
		header := d.Message().Header
		Check(body(d) == "long" && header.Durable && header.Priority == 4, "header %v", header)
		Check(header.TTL > 0 && header.TTL <= 600*time.Second, "ttl %v", header.TTL)
		Must(d.Accept(Within()))
		d = next(r)
		header = d.Message().Header
		Check(body(d) == "transient" && !header.Durable && header.Priority == 9, "header %v", header)
		Must(d.Accept(Within()))
	},
	"detach_requeues": func() {
		q := Queue("q")
		c := connect()
		names := numbered(0, 10)
		send(toQueue(c, q), names...)
		hold := func(c *rabbit.AmqpConnection) *rabbit.Consumer {
			r := consumer(c, q, 10)
			for _, name := range names {
				Equal(body(next(r)), name, "body")
			}
			return r
		}
		Must(hold(c).Close(Within()))
		other := connect()
		hold(other)
		Must(other.Close(Within()))
		bodies(consumer(c, q, 10), names...)
	},
	"credit": func() {
		// The library renews credit as messages are settled; that is all of it that its API has.
		q := Queue("q")
		c := connect()
		send(toQueue(c, q), numbered(0, 20)...)
		r := consumer(c, q, 1)
		d := next(r)
		Equal(body(d), "m0", "body")
		Equal(Ready(q), 19, "ready messages")
		Must(d.Accept(Within()))
		bodies(r, numbered(1, 20)...)
	},
	"settled_receive": func() {
		q := Queue("q")
		c := connect()
		send(toQueue(c, q), numbered(0, 10)...)
		r := Got(c.NewConsumer(Within(), q, &rabbit.ConsumerOptions{InitialCredits: 10, SettleStrategy: rabbit.PreSettled}))
		for _, name := range numbered(0, 10) {
			d := next(r)
			Equal(body(d), name, "body")
			Check(d.Accept(Within()) != nil, "a settled message was accepted")
		}
		Must(c.Close(Within()))
		Equal(Ready(q), 0, "messages")
	},
	"two_receivers": func() {
		a, b := Queue("a"), Queue("b")
		c := connect()
		fromA, fromB := consumer(c, a, 10), consumer(c, b, 10)
		send(toQueue(c, a), numbered(0, 200)...)
		send(toQueue(c, b), numbered(200, 400)...)
		for i := range 200 {
			bodies(fromA, fmt.Sprintf("m%d", i))
			bodies(fromB, fmt.Sprintf("m%d", 200+i))
		}
	},
	"backlog": func() {
		const messages = 20_000
		q := Queue("q")
		c := connect()
		send(toQueue(c, q), numbered(0, messages)...)
		bodies(consumer(c, q, 100), numbered(0, messages)...)
		Must(c.Close(Within()))
		Equal(Ready(q), 0, "messages")
	},
	"request_reply":   func() { converse(rabbit.ExplicitSettle) },
	"direct_reply_to": func() { converse(rabbit.DirectReplyTo) },
	"from_091": func() {
		q := Queue("q")
		Peer(map[string]any{"do": "sample", "queue": q})
		d := next(consumer(connect(), q, 1))
		m := d.Message()
		Equal(body(d), "body ✓", "body")
		Check(m.Header != nil && m.Header.Durable && m.Header.Priority == 5, "header %v", m.Header)
		Equal(m.Properties.MessageID, any("message"), "message-id")
		Equal(m.Properties.CorrelationID, any("correlation"), "correlation-id")
		Equal(*m.Properties.ContentType, "text/plain", "content-type")
		Equal(*m.Properties.ReplyTo, "/queues/answers", "reply-to")
		Equal(m.Annotations["x-a"], any("note"), "x-a")
		Equal(m.ApplicationProperties["c"], any("ключ"), "c")
		Must(d.Accept(Within()))
	},
	"to_091": func() {
		q := Queue("q")
		m := durable("body ✓")
		m.Annotations = amqp.Annotations{"x-a": "note"}
		m.Properties = &amqp.MessageProperties{MessageID: "message", UserID: []byte("guest")}
		m.ApplicationProperties = map[string]any{"s": "ключ", "i": int32(7), "b": true}
		p := toQueue(connect(), q)
		accepted(put(p, m))
		accepted(put(p, &amqp.Message{Value: "value"}))
		came := Get(q)
		Equal(came["body"].(string), "body ✓", "body")
		properties := came["properties"].(map[string]any)
		Equal(properties["delivery_mode"], any(2.0), "delivery_mode")
		Equal(properties["message_id"], any("message"), "message_id")
		Equal(properties["user_id"], any("guest"), "user_id")
		headers := properties["headers"].(map[string]any)
		for name, expected := range map[string]any{"s": "ключ", "i": 7.0, "b": true, "x-a": "note"} {
			Equal(headers[name], expected, "header "+name)
		}
		Equal(Get(q)["properties"].(map[string]any)["type"], any("amqp-1.0"), "type")
	},
}

func same(came, sent any, what string) {
	Check(reflect.DeepEqual(came, sent), "%s: %#v, sent %#v", what, came, sent)
}

// again: a message that came before, with this failure count; it is accepted.
func again(d rabbit.IDeliveryContext, name string, failures uint32) {
	Equal(body(d), name, "body")
	Equal(d.Message().Header.DeliveryCount, failures, "delivery-count")
	Check(!d.Message().Header.FirstAcquirer, "first-acquirer")
	Must(d.Accept(Within()))
}

// died: a message that was dead-lettered once, from queue; it is accepted.
func died(d rabbit.IDeliveryContext, name, queue, reason string) {
	Equal(body(d), name, "body")
	annotations := d.Message().Annotations
	deaths := fmt.Sprint(annotations["x-opt-deaths"])
	for _, part := range []string{"count:1", "queue:" + queue, "reason:" + reason, "routing-keys:[" + queue + "]"} {
		Check(strings.Contains(deaths, part), "%s isn't in %s", part, deaths)
	}
	for _, which := range []string{"first", "last"} {
		Equal(fmt.Sprint(annotations["x-"+which+"-death-queue"]), queue, which+" death's queue")
		Equal(fmt.Sprint(annotations["x-"+which+"-death-reason"]), reason, which+" death's reason")
	}
	Must(d.Accept(Within()))
}

// converse asks three questions, one after another, with the library's requester and responder.
func converse(strategy rabbit.ConsumerSettleStrategy) {
	q := Queue("requests")
	c := connect()
	server := Got(connect().NewResponder(Within(), rabbit.ResponderOptions{
		RequestQueue: q,
		Handler: func(_ context.Context, request *amqp.Message) (*amqp.Message, error) {
			return amqp.NewMessage([]byte("answer to " + string(request.GetData()))), nil
		},
	}))
	asker := Got(c.NewRequester(Within(), &rabbit.RequesterOptions{
		RequestQueueName: q, SettleStrategy: strategy, RequestTimeout: 2 * time.Second,
	}))
	ask := func(question string) *amqp.Message {
		return <-Got(asker.Publish(Within(), asker.Message([]byte(question))))
	}
	// The library grants the credit for answers in the background and notes a question only after it was accepted; an
	// answer that is faster counts as nobody's. From a queue it comes again, from a volatile one it is lost.
	for i := range 3 {
		question := fmt.Sprintf("question %d", i)
		answer := ask(question)
		for tries := 0; answer == nil && strategy == rabbit.DirectReplyTo && tries < 10; tries++ {
			answer = ask(question)
		}
		Check(answer != nil, "no answer to %s", question)
		Equal(string(answer.GetData()), "answer to "+question, "answer")
	}
	Must(asker.Close(Within()))
	Must(server.Close(Within()))
}
