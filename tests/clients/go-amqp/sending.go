package main

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"time"

	amqp "github.com/Azure/go-amqp"
	. "leveret/tests/gocell"
)

var sending = map[string]func(){
	"publish": func() {
		q := Queue("q")
		s := begin()
		send(sender(s, AtQueue(q)), numbered(0, 100)...)
		Equal(Ready(q), 100, "messages")
		r := receiver(s, AtQueue(q), 30)
		for _, name := range numbered(0, 100) {
			m := next(r)
			Equal(body(m), name, "body")
			Check(m.Header != nil && m.Header.Durable, "not durable")
			accept(r, m)
		}
	},
	"settled_publish": func() {
		q := Queue("q")
		s := begin()
		link := senderWith(s, AtQueue(q), &amqp.SenderOptions{SettlementMode: amqp.SenderSettleModeSettled.Ptr()})
		for _, name := range numbered(0, 100) {
			Must(link.Send(Within(), durable(name), nil))
		}
		r := receiver(s, AtQueue(q), 30)
		bodies(r, numbered(0, 100)...)
		mixed := senderWith(s, AtQueue(q), &amqp.SenderOptions{SettlementMode: amqp.SenderSettleModeMixed.Ptr()})
		Must(mixed.Send(Within(), durable("settled"), &amqp.SendOptions{Settled: true}))
		send(mixed, "unsettled")
		bodies(r, "settled", "unsettled")
	},
	"exchange_target": func() {
		q := Queue("q")
		x, f := Exchange("x ä/%", "direct"), Exchange("f", "fanout")
		Bind(q, x, "k ü/?&")
		Bind(q, f, "")
		s := begin()
		send(sender(s, "/exchanges/"+Percent(x)+"/k%20%C3%BC%2F%3F%26"), "by key")
		send(sender(s, "/exchanges/"+f), "by fanout")
		r := receiver(s, AtQueue(q), 2)
		m := next(r)
		Equal(body(m), "by key", "body")
		Equal(m.Annotations["x-exchange"], any(x), "x-exchange")
		Equal(m.Annotations["x-routing-key"], any("k ü/?&"), "x-routing-key")
		accept(r, m)
		m = next(r)
		Equal(body(m), "by fanout", "body")
		Equal(m.Annotations["x-exchange"], any(f), "x-exchange")
		accept(r, m)
	},
	"anonymous_terminus": func() {
		q := Queue("q")
		Bind(q, "amq.direct", Name("k"))
		s := begin()
		link := sender(s, "")
		to := func(address string) amqp.DeliveryState {
			m := durable(address)
			m.Properties = &amqp.MessageProperties{To: &address}
			return put(link, m)
		}
		direct, missing := AtExchange("amq.direct", Name("k")), AtExchange(Name("missing"), "k")
		accepted(to(AtQueue(q)))
		accepted(to(direct))
		released(to(AtExchange("amq.direct", Name("nowhere"))))
		released(to(AtQueue(Name("missing"))))
		rejected(to(missing), amqp.ErrCondNotFound)
		rejected(put(link, durable("no to")), amqp.ErrCondPreconditionFailed)
		accepted(to(AtQueue(q)))
		bodies(receiver(s, AtQueue(q), 3), AtQueue(q), direct, AtQueue(q))
	},
	"unroutable": func() {
		q := Queue("q")
		s := begin()
		link := sender(s, AtExchange("amq.direct", Name("nowhere")))
		released(put(link, durable("lost")))
		Bind(q, "amq.direct", Name("nowhere"))
		send(link, "found")
		bodies(receiver(s, AtQueue(q), 1), "found")
	},
	"rejected": func() {
		q := QueueWith("q", map[string]any{"x-max-length": 1, "x-overflow": "reject-publish"})
		link := sender(begin(), AtQueue(q))
		send(link, "first")
		for range 10 {
			state := put(link, durable("more"))
			if _, ok := state.(*amqp.StateAccepted); ok {
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
		s := session(Got(connectWith("guest", "guest", &amqp.ConnOptions{MaxFrameSize: 4096})))
		link, r := sender(s, AtQueue(q)), receiver(s, AtQueue(q), 2)
		big := make([]byte, 1<<20)
		for i := range big {
			big[i] = byte(i ^ i>>8)
		}
		for range 2 {
			send(link, string(big), "small")
			m := next(r)
			Check(bytes.Equal(m.GetData(), big), "%d bytes came back differently", len(m.GetData()))
			accept(r, m)
			bodies(r, "small")
		}
	},
	"sections": func() {
		q := Queue("q")
		s := begin()
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
		// A rune is an int32 to the library, so that there is no char.
		m.ApplicationProperties = map[string]any{
			"null": nil, "true": true, "false": false, "ubyte": uint8(255), "ushort": uint16(65535),
			"uint": uint32(4294967295), "ulong": uint64(18446744073709551615), "byte": int8(-128),
			"short": int16(-32768), "int": int32(-2147483648), "long": int64(-9223372036854775808),
			"float": float32(1.5), "double": 2.25, "timestamp": at, "uuid": amqp.UUID{1, 2, 3, 15: 16},
			"binary": []byte{0, 255}, "string": "ключ ✓", "symbol": amqp.Symbol("symbol"),
		}
		m.Footer = amqp.Annotations{"x-f": "foot"}
		accepted(put(sender(s, AtQueue(q)), m))
		r := receiver(s, AtQueue(q), 1)
		came := next(r)
		header := came.Header
		Check(header != nil && header.Durable && header.Priority == 7, "header %v", header)
		Check(header.FirstAcquirer && header.DeliveryCount == 0, "header %v", header)
		Check(header.TTL > 0 && header.TTL <= m.Header.TTL, "ttl %v", header.TTL)
		same(came.Properties, m.Properties, "properties")
		m.ApplicationProperties["symbol"] = "symbol"
		same(came.ApplicationProperties, m.ApplicationProperties, "application properties")
		same(came.Footer, m.Footer, "footer")
		same(came.Data, m.Data, "body")
		m.Annotations["x-exchange"], m.Annotations["x-routing-key"] = "", q
		same(came.Annotations, m.Annotations, "annotations")
		accept(r, came)
	},
	"message_ids": func() {
		q := Queue("q")
		s := begin()
		link, r := sender(s, AtQueue(q)), receiver(s, AtQueue(q), 10)
		for _, id := range []any{"text", uint64(1) << 63, amqp.UUID{1, 15: 16}, []byte{0, 1, 255}} {
			m := durable("ids")
			m.Properties = &amqp.MessageProperties{MessageID: id, CorrelationID: id}
			accepted(put(link, m))
			came := next(r)
			same(came.Properties.MessageID, id, "message-id")
			same(came.Properties.CorrelationID, id, "correlation-id")
			accept(r, came)
		}
	},
	"bodies": func() {
		q := Queue("q")
		s := begin()
		link, r := sender(s, AtQueue(q)), receiver(s, AtQueue(q), 10)
		for _, m := range []*amqp.Message{
			{Data: [][]byte{{}}},
			{Data: [][]byte{[]byte("one")}},
			{Data: [][]byte{[]byte("one"), []byte("two"), []byte("three")}},
			{Value: "value"},
			{Value: "ключ ✓"},
			{Value: amqp.Null{}},
			{Value: int32(-7)},
			{Value: []any{"a", int64(1), true}},
			{Value: map[string]any{"outer": map[string]any{"inner": "deep"}, "n": int64(3)}},
			{Value: []byte{0, 1, 255}},
			{Sequence: [][]any{{"a", int64(1)}}},
			{Sequence: [][]any{{"a"}, {"b", int64(2)}}},
		} {
			accepted(put(link, m))
			came := next(r)
			if _, null := m.Value.(amqp.Null); null {
				Check(came.Value == nil && came.Data == nil && came.Sequence == nil, "null: %v", came)
			} else {
				same(strip(came.Data), strip(m.Data), "data")
				same(came.Value, m.Value, "value")
				same(came.Sequence, m.Sequence, "sequence")
			}
			accept(r, came)
		}
	},
}

// strip makes an empty section of nil the same as one of no bytes.
func strip(sections [][]byte) string {
	var texts []string
	for _, section := range sections {
		texts = append(texts, fmt.Sprintf("%x", section))
	}
	return strings.Join(texts, "|")
}

func same(came, sent any, what string) {
	Check(reflect.DeepEqual(came, sent), "%s: %#v, sent %#v", what, came, sent)
}
