package main

import (
	"time"

	amqp "github.com/Azure/go-amqp"
	. "leveret/tests/gocell"
)

var both = map[string]func(){
	"from_091": func() {
		q := Queue("q")
		Peer(map[string]any{"do": "sample", "queue": q})
		r := receiver(begin(), AtQueue(q), 1)
		m := next(r)
		Equal(body(m), "body ✓", "body")
		Check(m.Header != nil && m.Header.Durable && m.Header.Priority == 5, "header %v", m.Header)
		p := m.Properties
		Equal(p.MessageID, any("message"), "message-id")
		Equal(p.CorrelationID, any("correlation"), "correlation-id")
		Equal(*p.ContentType, "text/plain", "content-type")
		Equal(*p.ContentEncoding, "utf-8", "content-encoding")
		Equal(*p.ReplyTo, "/queues/answers", "reply-to")
		Equal(*p.GroupID, "app", "group-id")
		Equal(string(p.UserID), "guest", "user-id")
		Equal(p.CreationTime.Unix(), 1_700_000_000, "creation-time")
		Equal(m.Annotations["x-a"], any("note"), "x-a")
		Equal(m.Annotations["x-basic-type"], any("kind"), "x-basic-type")
		Equal(number(m.ApplicationProperties["b"]), 7, "b")
		Equal(m.ApplicationProperties["c"], any("ключ"), "c")
		accept(r, m)
	},
	"to_091": func() {
		q := Queue("q")
		link := sender(begin(), AtQueue(q))
		at := time.Unix(1_700_000_000, 0)
		text := func(value string) *string { return &value }
		m := durable("body ✓")
		m.Header.Priority = 5
		m.Annotations = amqp.Annotations{"x-a": "note"}
		m.Properties = &amqp.MessageProperties{
			MessageID: "message", CorrelationID: "correlation", ContentType: text("text/plain"), CreationTime: &at,
			ReplyTo: text("/queues/answers"), GroupID: text("app"), UserID: []byte("guest"),
		}
		m.ApplicationProperties = map[string]any{"s": "ключ", "i": int32(7), "b": true, "l": int64(1) << 40}
		accepted(put(link, m))
		accepted(put(link, &amqp.Message{Value: "value"}))

		came := Get(q)
		Equal(came["body"].(string), "body ✓", "body")
		p := came["properties"].(map[string]any)
		for name, expected := range map[string]any{
			"delivery_mode": 2.0, "priority": 5.0, "message_id": "message", "correlation_id": "correlation",
			"content_type": "text/plain", "timestamp": 1.7e9, "reply_to": "answers", "app_id": "app", "user_id": "guest",
		} {
			Equal(p[name], expected, name)
		}
		headers := p["headers"].(map[string]any)
		for name, expected := range map[string]any{"s": "ключ", "i": 7.0, "b": true, "l": float64(int64(1) << 40), "x-a": "note"} {
			Equal(headers[name], expected, "header "+name)
		}
		came = Get(q)
		Equal(came["properties"].(map[string]any)["type"], any("amqp-1.0"), "type")
	},
}

// number is an integer of any width.
func number(value any) int64 {
	switch n := value.(type) {
	case int8:
		return int64(n)
	case int16:
		return int64(n)
	case int32:
		return int64(n)
	case int64:
		return n
	case uint8:
		return int64(n)
	case uint16:
		return int64(n)
	case uint32:
		return int64(n)
	case uint64:
		return int64(n)
	}
	Fail("%T isn't a number", value)
	return 0
}
