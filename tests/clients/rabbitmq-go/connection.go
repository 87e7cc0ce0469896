package main

import (
	"fmt"
	"strings"
	"time"

	amqp "github.com/Azure/go-amqp"
	rabbit "github.com/rabbitmq/rabbitmq-amqp-go-client/pkg/rabbitmqamqp"
	. "leveret/tests/gocell"
)

var connection = map[string]func(){
	"login": func() {
		Must(connect().Close(Within()))
		options := &rabbit.AmqpConnOptions{SASLType: amqp.SASLTypeAnonymous(), RecoveryConfiguration: once}
		Must(Got(connectWith("", "", options)).Close(Within()))
		_, err := connectWith("guest:wrong@", "", &rabbit.AmqpConnOptions{RecoveryConfiguration: once})
		Check(err != nil && strings.Contains(err.Error(), "auth failed"), "a wrong password: %v", err)
	},
	"vhost": func() {
		q := Queue("q")
		c := Got(connectWith("guest:guest@", "%2F", nil))
		send(toQueue(c, q), "one")
		Equal(Ready(q), 1, "messages")
		_, err := connectWith("guest:guest@", "no%20such", &rabbit.AmqpConnOptions{RecoveryConfiguration: once})
		is(err, amqp.ErrCondUnauthorizedAccess, "no such")
	},
	"many_links": func() {
		// The library opens a session for each: so many as a connection may have, one being the management's.
		const links = 50
		c := connect()
		var consumers []*rabbit.Consumer
		for i := range links / 2 {
			q := Queue(fmt.Sprint(i))
			consumers = append(consumers, consumer(c, q, 1))
			send(toQueue(c, q), fmt.Sprint(i))
		}
		for i, link := range consumers {
			bodies(link, fmt.Sprint(i))
		}
	},
	"heartbeats": func() {
		const idle = 2 * time.Second
		q := Queue("q")
		c := Got(connectWith("guest:guest@", "", &rabbit.AmqpConnOptions{IdleTimeout: idle, RecoveryConfiguration: once}))
		// The library below tells the broker half of it, and closes a connection on which nothing came for all of it.
		select {
		case change := <-watch(c):
			Fail("the library missed the heartbeats: %v", change)
		case <-time.After(3 * idle / 2):
		}
		send(toQueue(c, q), "one")
	},
	"heartbeat_loss": func() {
		c := connect()
		changes := watch(c)
		Ask("mute", "closed")
		closed(changes)
	},
	"reconnect": func() {
		q := Queue("q")
		options := &rabbit.AmqpConnOptions{RecoveryConfiguration: &rabbit.RecoveryConfiguration{
			ActiveRecovery: true, BackOffReconnectInterval: 1100 * time.Millisecond, MaxReconnectAttempts: 20,
		}}
		c := Got(connectWith("guest:guest@", "", options))
		changes := watch(c)
		p := toQueue(c, q)
		send(p, "kept")
		Ask("ready kill", "go")
		// The library comes again by itself, and its publisher goes on.
		for open := false; !open; {
			select {
			case change := <-changes:
				_, open = change.To.(*rabbit.StateOpen)
			case <-time.After(Patience):
				Fail("the library didn't connect again")
			}
		}
		r := consumer(c, q, 2)
		d := next(r)
		Equal(body(d), "kept", "body")
		Check(d.Message().Header != nil && d.Message().Header.Durable, "not durable")
		Must(d.Accept(Within()))
		send(p, "another")
		bodies(r, "another")
	},
	"shutdown": func() {
		c := connect()
		changes := watch(c)
		Ask("ready term", "go")
		problem := remote(closed(changes))
		Check(problem != nil, "closed without an error")
		Check(strings.HasPrefix(problem.Description, "Connection forced"), "%q", problem.Description)
		forced := problem.Condition == amqp.ErrCondConnectionForced || problem.Condition == amqp.ErrCondInternalError
		Check(forced, "condition %s", problem.Condition)
	},
	"framing_error": func() {
		q := Queue("q")
		other := toQueue(connect(), q)
		changes := watch(connect())
		Ask("inject 0000000302000000", "done")
		is(closed(changes), amqp.ErrCondFramingError, "")
		send(other, "one")
	},
}

// closed waits for the close and returns its error.
func closed(changes chan *rabbit.StateChanged) error {
	for {
		select {
		case change := <-changes:
			if state, ok := change.To.(*rabbit.StateClosed); ok {
				return state.GetError()
			}
		case <-time.After(Patience):
			Fail("the connection is still there")
		}
	}
}
