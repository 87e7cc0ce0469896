package main

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"time"

	amqp "github.com/Azure/go-amqp"
	. "leveret/tests/gocell"
)

var receiving = map[string]func(){
	"outcomes": func() {
		q := Queue("q")
		s := begin()
		link, r := sender(s, AtQueue(q)), receiver(s, AtQueue(q), 10)
		send(link, "accepted")
		bodies(r, "accepted")
		send(link, "rejected")
		Must(r.RejectMessage(Within(), next(r), nil))

		send(link, "released")
		Must(r.ReleaseMessage(Within(), next(r)))
		again(next(r), "released", 0, r)

		send(link, "failed")
		Must(r.ModifyMessage(Within(), next(r), &amqp.ModifyMessageOptions{DeliveryFailed: true}))
		again(next(r), "failed", 1, r)

		send(link, "undeliverable")
		Must(r.ModifyMessage(Within(), next(r), &amqp.ModifyMessageOptions{DeliveryFailed: true, UndeliverableHere: true}))
		send(link, "last")
		bodies(r, "last")
		Must(s.Close(Within()))
		empty(q)
	},
	"dead_letter": func() {
		dead := Queue("dead")
		q := QueueWith("q", map[string]any{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead})
		s := begin()
		link, r, buried := sender(s, AtQueue(q)), receiver(s, AtQueue(q), 1), receiver(s, AtQueue(dead), 1)
		send(link, "rejected")
		Must(r.RejectMessage(Within(), next(r), nil))
		came := next(buried)
		died(came, "rejected", q, "rejected")
		accept(buried, came)
		send(link, "undeliverable")
		Must(r.ModifyMessage(Within(), next(r), &amqp.ModifyMessageOptions{UndeliverableHere: true}))
		died(next(buried), "undeliverable", q, "rejected")
	},
	"ttl": func() {
		dead := Queue("dead")
		q := QueueWith("q", map[string]any{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead})
		s := begin()
		link, buried := sender(s, AtQueue(q)), receiver(s, AtQueue(dead), 1)
		m := durable("short")
		m.Header.TTL = time.Millisecond
		accepted(put(link, m))
		came := next(buried)
		died(came, "short", q, "expired")
		Check(came.Header.TTL == 0, "ttl %v", came.Header.TTL)
		accept(buried, came)

		m = durable("long")
		m.Header.TTL = 600 * time.Second
		accepted(put(link, m))
		m = amqp.NewMessage([]byte("transient"))
		m.Header = &amqp.MessageHeader{Priority: 9}
		accepted(put(link, m))
		r := receiver(s, AtQueue(q), 2)
		came = next(r)
		Equal(body(came), "long", "body")
		Check(came.Header.Durable && came.Header.Priority == 4, "header %v", came.Header)
		Check(came.Header.TTL > 0 && came.Header.TTL <= 600*time.Second, "ttl %v", came.Header.TTL)
		accept(r, came)
		came = next(r)
		Equal(body(came), "transient", "body")
		Check(!came.Header.Durable && came.Header.Priority == 9, "header %v", came.Header)
		accept(r, came)
	},
	"detach_requeues": func() {
		q := Queue("q")
		c := connect()
		s := session(c)
		names := numbered(0, 10)
		send(sender(s, AtQueue(q)), names...)
		hold := func(s *amqp.Session) *amqp.Receiver {
			r := manual(s, AtQueue(q))
			Must(r.IssueCredit(10))
			for _, name := range names {
				Equal(body(next(r)), name, "body")
			}
			return r
		}
		Must(hold(s).Close(Within()))
		second := session(c)
		hold(second)
		Must(second.Close(Within()))
		other := connect()
		hold(session(other))
		Must(other.Close())
		bodies(receiver(s, AtQueue(q), 10), names...)
	},
	"credit": func() {
		q := Queue("q")
		s := begin()
		link := sender(s, AtQueue(q))
		send(link, numbered(0, 20)...)
		r := manual(s, AtQueue(q))
		Must(r.IssueCredit(1))
		bodies(r, "m0")
		stay(r, q, 19)
		Must(r.IssueCredit(10))
		bodies(r, numbered(1, 11)...)
		stay(r, q, 9)
		Must(r.IssueCredit(20))
		bodies(r, numbered(11, 20)...)
		send(link, "new")
		bodies(r, "new")
	},
	"drain": func() {
		q := Queue("q")
		s := begin()
		link := sender(s, AtQueue(q))
		send(link, numbered(0, 3)...)
		r := manual(s, AtQueue(q))
		// The library grants credit in the background, and forgets what it hasn't granted when it drains: each time
		// a message shows that the credit is there.
		Must(r.IssueCredit(10))
		bodies(r, numbered(0, 3)...)
		nothing(r)
		send(link, "stays")
		Equal(Ready(q), 1, "ready messages")
		Must(r.IssueCredit(10))
		bodies(r, "stays")
		nothing(r)
		Must(r.IssueCredit(1))
		send(link, "afterwards")
		bodies(r, "afterwards")
	},
	"settled_receive": func() {
		q := Queue("q")
		s := begin()
		send(sender(s, AtQueue(q)), numbered(0, 10)...)
		r := receiverWith(s, AtQueue(q), &amqp.ReceiverOptions{
			Credit: 10, RequestedSenderSettleMode: amqp.SenderSettleModeSettled.Ptr(),
		})
		for _, name := range numbered(0, 10) {
			Equal(body(next(r)), name, "body")
		}
		Must(s.Close(Within()))
		empty(q)
	},
	"two_receivers": func() {
		a, b := Queue("a"), Queue("b")
		s := begin()
		toA, toB := sender(s, AtQueue(a)), sender(s, AtQueue(b))
		fromA, fromB := receiver(s, AtQueue(a), 10), receiver(s, AtQueue(b), 10)
		send(toA, numbered(0, 200)...)
		send(toB, numbered(200, 400)...)
		for i := range 200 {
			bodies(fromA, fmt.Sprintf("m%d", i))
			bodies(fromB, fmt.Sprintf("m%d", 200+i))
		}
		other := receiver(s, AtQueue(a), 10)
		seen := make(chan string, 200)
		shares := [2]int{}
		ctx, cancel := context.WithCancel(Within())
		ended := make(chan struct{}, 2)
		for i, link := range []*amqp.Receiver{fromA, other} {
			go func() {
				defer func() { ended <- struct{}{} }()
				for {
					m, err := link.Receive(ctx, nil)
					if err != nil || link.AcceptMessage(ctx, m) != nil {
						return
					}
					shares[i]++
					seen <- body(m)
				}
			}()
		}
		send(toA, numbered(0, 100)...)
		names := map[string]bool{}
		for range 100 {
			select {
			case name := <-seen:
				Check(!names[name], "%s came twice", name)
				names[name] = true
			case <-ctx.Done():
				Fail("%d of 100 came", len(names))
			}
		}
		cancel()
		<-ended
		<-ended
		Check(shares[0] > 0 && shares[1] > 0, "shares %v", shares)
	},
	"consumer_priority": func() {
		q := Queue("q")
		s := begin()
		link := sender(s, AtQueue(q))
		prior := func(priority int32) *amqp.Receiver {
			r := receiverWith(s, AtQueue(q), &amqp.ReceiverOptions{
				Credit: -1, Properties: map[string]any{"rabbitmq:priority": priority},
			})
			Must(r.IssueCredit(10))
			return r
		}
		high := prior(5)
		// When this has come the broker knows the credit, which the library grants in the background.
		send(link, "first")
		bodies(high, "first")
		Must(high.IssueCredit(1))
		low := prior(0)
		send(link, numbered(0, 10)...)
		bodies(high, numbered(0, 10)...)
		send(link, numbered(10, 15)...)
		bodies(low, numbered(10, 15)...)
	},
	"backlog": func() {
		const messages = 20_000
		q := Queue("q")
		s := begin()
		link := sender(s, AtQueue(q))
		receipts := make(chan amqp.SendReceipt, messages)
		go func() {
			defer close(receipts)
			for i := range messages {
				receipt, err := link.SendWithReceipt(context.Background(), durable(fmt.Sprintf("m%d", i)), nil)
				if err != nil {
					return
				}
				receipts <- receipt
			}
		}()
		confirmed := 0
		for receipt := range receipts {
			accepted(outcome(receipt))
			confirmed++
		}
		Equal(confirmed, messages, "accepted")
		r := receiver(s, AtQueue(q), 100)
		bodies(r, numbered(0, messages)...)
		Must(s.Close(Within()))
		empty(q)
	},
	"dynamic_node": func() {
		c := connect()
		s := session(c)
		r := dynamic(s)
		Check(strings.HasPrefix(r.Address(), "/queues/"), "address %q", r.Address())
		send(sender(s, r.Address()), "one")
		bodies(r, "one")
		other := begin()
		_, err := other.NewReceiver(Within(), r.Address(), nil)
		is(err, amqp.ErrCondResourceLocked, "")
		address := r.Address()
		Must(r.Close(Within()))
		_, err = s.NewReceiver(Within(), address, nil)
		is(err, amqp.ErrCondNotFound, "")
	},
	"request_reply": func() {
		s := begin()
		replies := dynamic(s)
		converse(s, replies)
	},
	"direct_reply_to": func() {
		s := begin()
		replies := receiverWith(s, "", &amqp.ReceiverOptions{
			DynamicAddress: true, Credit: 10, SourceCapabilities: []string{"rabbitmq:volatile-queue"},
			SourceExpiryPolicy: amqp.ExpiryPolicyLinkDetach, SourceDurability: amqp.DurabilityNone,
			RequestedSenderSettleMode: amqp.SenderSettleModeSettled.Ptr(),
		})
		converse(s, replies)
	},
	"browse": func() {
		q := Queue("q")
		s := begin()
		names := numbered(0, 5)
		send(sender(s, AtQueue(q)), names...)
		for range 2 {
			browser := receiverWith(s, AtQueue(q), &amqp.ReceiverOptions{Credit: 10, SourceDistributionMode: "copy"})
			bodies(browser, names...)
			Must(browser.Close(Within()))
		}
		r := receiver(s, AtQueue(q), 5)
		for _, name := range names {
			m := next(r)
			Equal(body(m), name, "body")
			Check(m.Header.FirstAcquirer && m.Header.DeliveryCount == 0, "header %v", m.Header)
			accept(r, m)
		}
	},
}

// stay: these messages are still ready after a drain, and none has come.
func stay(r *amqp.Receiver, queue string, ready int) {
	nothing(r)
	Equal(Ready(queue), ready, "ready messages")
}

// again: a message that came before, with this failure count; it is accepted.
func again(m *amqp.Message, name string, failures uint32, r *amqp.Receiver) {
	Equal(body(m), name, "body")
	Equal(m.Header.DeliveryCount, failures, "delivery-count")
	Check(!m.Header.FirstAcquirer, "first-acquirer")
	accept(r, m)
}

// died: the history of a message that was dead-lettered once, from queue.
func died(m *amqp.Message, name, queue, reason string) {
	Equal(body(m), name, "body")
	// An array of maps: the library gives it the type of its first element.
	list := reflect.ValueOf(m.Annotations["x-opt-deaths"])
	Check(list.Kind() == reflect.Slice && list.Len() == 1, "x-opt-deaths %v", m.Annotations["x-opt-deaths"])
	death := map[string]any{}
	for entry := reflect.ValueOf(list.Index(0).Interface()).MapRange(); entry.Next(); {
		death[fmt.Sprint(entry.Key().Interface())] = entry.Value().Interface()
	}
	Equal(fmt.Sprint(death["queue"]), queue, "queue")
	Equal(fmt.Sprint(death["reason"]), reason, "reason")
	Equal(fmt.Sprint(death["count"]), "1", "count")
	Equal(fmt.Sprint(death["exchange"]), "", "exchange")
	Equal(fmt.Sprint(death["routing-keys"]), "["+queue+"]", "routing-keys")
	for _, which := range []string{"first", "last"} {
		Equal(fmt.Sprint(m.Annotations["x-"+which+"-death-queue"]), queue, which+" death's queue")
		Equal(fmt.Sprint(m.Annotations["x-"+which+"-death-reason"]), reason, which+" death's reason")
	}
}

func dynamic(s *amqp.Session) *amqp.Receiver {
	return receiverWith(s, "", &amqp.ReceiverOptions{
		DynamicAddress: true, Credit: 10, SourceCapabilities: []string{"temporary-queue"},
	})
}

// converse asks three questions, one after another, over a queue and an anonymous link back.
func converse(s *amqp.Session, replies *amqp.Receiver) {
	q := Queue("requests")
	server, answers := receiver(s, AtQueue(q), 1), sender(s, "")
	requests := sender(s, AtQueue(q))
	for i := range 3 {
		id, back := fmt.Sprintf("id%d", i), replies.Address()
		request := durable("question")
		request.Properties = &amqp.MessageProperties{MessageID: id, ReplyTo: &back}
		accepted(put(requests, request))
		asked := next(server)
		answer := durable("answer")
		answer.Properties = &amqp.MessageProperties{To: asked.Properties.ReplyTo, CorrelationID: asked.Properties.MessageID}
		accepted(put(answers, answer))
		accept(server, asked)
		came := next(replies)
		Equal(body(came), "answer", "body")
		Equal(came.Properties.CorrelationID, any(id), "correlation-id")
		accept(replies, came)
	}
}
