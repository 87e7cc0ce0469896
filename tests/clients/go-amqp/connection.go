package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	amqp "github.com/Azure/go-amqp"
	. "leveret/tests/gocell"
)

var connection = map[string]func(){
	"login": func() {
		Must(connect().Close())
		anonymous := Got(dial("", &amqp.ConnOptions{SASLType: amqp.SASLTypeAnonymous()}))
		session(anonymous)
		Must(anonymous.Close())
		_, err := connectWith("guest", "wrong", nil)
		Check(err != nil && strings.Contains(err.Error(), "auth failed"), "a wrong password: %v", err)
	},
	"vhost": func() {
		q := Queue("q")
		c := Got(connectWith("guest", "guest", &amqp.ConnOptions{HostName: "vhost:/"}))
		send(sender(session(c), AtQueue(q)), "one")
		Equal(Ready(q), 1, "messages")
		c, err := connectWith("guest", "guest", &amqp.ConnOptions{HostName: "vhost:no such"})
		if err == nil {
			_, err = c.NewSession(Within(), nil)
		}
		is(err, amqp.ErrCondUnauthorizedAccess, "no such")
	},
	"sessions": func() {
		c := connect()
		a, b := Queue("a"), Queue("b")
		first, second := session(c), session(c)
		toA, fromA := sender(first, AtQueue(a)), receiver(first, AtQueue(a), 10)
		toB, fromB := sender(second, AtQueue(b)), receiver(second, AtQueue(b), 10)
		send(toA, numbered(0, 10)...)
		send(toB, numbered(100, 110)...)
		bodies(fromB, numbered(100, 110)...)
		bodies(fromA, numbered(0, 10)...)
		Must(first.Close(Within()))
		send(toB, numbered(110, 120)...)
		bodies(fromB, numbered(110, 120)...)
	},
	"many_links": func() {
		const links = 50
		s := begin()
		var senders []*amqp.Sender
		var receivers []*amqp.Receiver
		for i := range links {
			q := Queue(fmt.Sprint(i))
			senders = append(senders, sender(s, AtQueue(q)))
			receivers = append(receivers, receiver(s, AtQueue(q), 1))
		}
		for i, link := range senders {
			send(link, fmt.Sprint(i))
		}
		for i, link := range receivers {
			bodies(link, fmt.Sprint(i))
		}
	},
	"heartbeats": func() {
		const idle = 2 * time.Second
		q := Queue("q")
		c := Got(connectWith("guest", "guest", &amqp.ConnOptions{IdleTimeout: idle}))
		s := session(c)
		// The library tells the broker half of it, and closes a connection on which nothing came for all of it.
		select {
		case <-c.Done():
			Fail("the library missed the heartbeats: %v", c.Err())
		case <-time.After(3 * idle / 2):
		}
		send(sender(s, AtQueue(q)), "one")
	},
	"heartbeat_loss": func() {
		c := connect()
		session(c)
		Ask("mute", "closed")
		gone(c)
	},
	"reconnect": func() {
		q := Queue("q")
		c := connect()
		s := session(c)
		send(sender(s, AtQueue(q)), "kept")
		Ask("ready kill", "go")
		gone(c)
		s = begin()
		r := manual(s, AtQueue(q))
		Must(r.IssueCredit(2))
		m := next(r)
		Equal(body(m), "kept", "body")
		Check(m.Header != nil && m.Header.Durable, "not durable")
		accept(r, m)
		send(sender(s, AtQueue(q)), "another")
		bodies(r, "another")
	},
	"shutdown": func() {
		c := connect()
		session(c)
		Ask("ready term", "go")
		gone(c)
		problem := remote(c.Err())
		Check(problem != nil, "closed without an error: %v", c.Err())
		Check(strings.HasPrefix(problem.Description, "Connection forced"), "%q", problem.Description)
		forced := problem.Condition == amqp.ErrCondConnectionForced || problem.Condition == amqp.ErrCondInternalError
		Check(forced, "condition %s", problem.Condition)
	},
}

// gone: the library has seen the connection break.
func gone(c *amqp.Conn) {
	select {
	case <-c.Done():
	case <-time.After(Patience):
		Fail("the connection is still there")
	}
	var broken *amqp.ConnError
	Check(errors.As(c.Err(), &broken), "%v", c.Err())
}
