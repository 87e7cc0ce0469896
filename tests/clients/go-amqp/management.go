package main

import (
	"fmt"
	"strings"

	amqp "github.com/Azure/go-amqp"
	. "leveret/tests/gocell"
)

// node is the management node, over its pair of links.
type node struct {
	requests *amqp.Sender
	answers  *amqp.Receiver
	asked    int
}

func manage(s *amqp.Session) *node {
	const name, address = "management", "/management"
	paired := map[string]any{"paired": true}
	settled := amqp.SenderSettleModeSettled
	answers := receiverWith(s, address, &amqp.ReceiverOptions{
		Name: name, TargetAddress: address, Properties: paired, RequestedSenderSettleMode: &settled, Credit: 8,
	})
	requests := senderWith(s, address, &amqp.SenderOptions{
		Name: name, SourceAddress: address, Properties: paired, SettlementMode: &settled,
	})
	return &node{requests: requests, answers: answers}
}

// ask makes a request and returns the status and the body.
func (n *node) ask(method, to string, body any) (string, any) {
	n.asked++
	id, me := fmt.Sprint(n.asked), "$me"
	if body == nil {
		body = amqp.Null{}
	}
	request := &amqp.Message{
		Properties: &amqp.MessageProperties{MessageID: id, To: &to, Subject: &method, ReplyTo: &me}, Value: body,
	}
	Must(n.requests.Send(Within(), request, nil))
	answer := next(n.answers)
	Equal(answer.Properties.CorrelationID, any(id), "correlation-id")
	return *answer.Properties.Subject, answer.Value
}

// expect makes a request that is answered with this status.
func (n *node) expect(status, method, to string, body any) any {
	came, answer := n.ask(method, to, body)
	Equal(came, status, fmt.Sprintf("%s %s (%v)", method, to, answer))
	return answer
}

func field(value any, key string) any {
	switch m := value.(type) {
	case map[string]any:
		return m[key]
	case map[any]any:
		return m[key]
	}
	Fail("%v isn't a map", value)
	return nil
}

func queueBody(durable bool, arguments map[string]any) map[string]any {
	return map[string]any{"durable": durable, "exclusive": false, "auto_delete": false, "arguments": arguments}
}

func exchangeBody(kind string) map[string]any {
	return map[string]any{
		"type": kind, "durable": true, "auto_delete": false, "internal": false, "arguments": map[string]any{},
	}
}

var management = map[string]func(){
	"management": func() {
		s := begin()
		n := manage(s)
		q, x := Name("q ä/"), Name("x")
		atQueue, atExchange := AtQueue(q), "/exchanges/"+Percent(x)
		n.expect("201", "PUT", atQueue, queueBody(true, map[string]any{}))
		n.expect("200", "PUT", atQueue, queueBody(true, map[string]any{}))
		shown := n.expect("200", "GET", atQueue, nil)
		Equal(field(shown, "name"), any(q), "name")
		Equal(field(shown, "durable"), any(true), "durable")
		Equal(fmt.Sprint(field(shown, "type")), "classic", "type")
		Equal(number(field(shown, "message_count")), 0, "message_count")
		n.expect("204", "PUT", atExchange, exchangeBody("direct"))
		n.expect("204", "POST", "/bindings", map[string]any{
			"source": x, "destination_queue": q, "binding_key": "k", "arguments": map[string]any{},
		})
		bound, ok := n.expect("200", "GET", "/bindings?src="+Percent(x)+"&dstq="+Percent(q)+"&key=k", nil).([]any)
		Check(ok && len(bound) == 1, "bindings %v", bound)
		location, ok := field(bound[0], "location").(string)
		Check(ok, "location %v", field(bound[0], "location"))
		link := sender(s, atExchange+"/k")
		send(link, "one")
		Equal(number(field(n.expect("200", "DELETE", atQueue+"/messages", nil), "message_count")), 1, "purged")
		n.expect("204", "DELETE", location, nil)
		n.expect("204", "DELETE", location, nil)
		released(put(link, durable("lost")))
		Must(link.Close(Within()))
		n.expect("204", "DELETE", atExchange, nil)
		Equal(number(field(n.expect("200", "DELETE", atQueue, nil), "message_count")), 0, "message_count")
		n.expect("404", "GET", atQueue, nil)
	},
	"management_errors": func() {
		c := connect()
		n := manage(session(c))
		q, x := Name("q"), Name("x")
		atQueue, atExchange := AtQueue(q), "/exchanges/"+Percent(x)
		n.expect("201", "PUT", atQueue, queueBody(true, map[string]any{}))
		n.expect("409", "PUT", atQueue, queueBody(true, map[string]any{"x-max-length": int64(7)}))
		n.expect("204", "PUT", atExchange, exchangeBody("direct"))
		n.expect("409", "PUT", atExchange, exchangeBody("fanout"))
		n.expect("404", "GET", AtQueue(Name("missing")), nil)
		n.expect("404", "DELETE", AtQueue(Name("missing"))+"/messages", nil)
		n.expect("409", "PUT", AtQueue(Name("bad")), queueBody(true, map[string]any{"x-max-length": int64(-1)}))
		n.expect("403", "PUT", "/queues/amq.x", queueBody(true, map[string]any{}))
		status, answer := n.ask("DELETE", "/exchanges/amq.default", nil)
		Check(status == "403" || strings.HasPrefix(status, "40"), "%s (%v)", status, answer)
		n.expect("204", "DELETE", atExchange, nil)
		n.expect("200", "DELETE", atQueue, nil)
		_, err := session(c).NewSender(Within(), "/management", &amqp.SenderOptions{
			SettlementMode: amqp.SenderSettleModeSettled.Ptr(),
		})
		is(err, amqp.ErrCondInvalidField, "paired")
	},
}
