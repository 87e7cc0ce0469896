// The scenarios of the client table, with amqp091-go. See tests/src/cell.rs for the lines it speaks.
package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

var (
	uri, scenario string
	prefix        string
	stdin         = bufio.NewReader(os.Stdin)
)

const patience = 20 * time.Second

// usual is what the library connects with if nothing is asked for.
var usual = amqp.Config{Locale: "en_US"}

// failure is what a scenario panics with.
type failure string

func fail(format string, args ...any) { panic(failure(fmt.Sprintf(format, args...))) }

func must(err error) {
	if err != nil {
		fail("%v", err)
	}
}

func check(condition bool, format string, args ...any) {
	if !condition {
		fail(format, args...)
	}
}

func equal[T comparable](received, expected T, what string) {
	if received != expected {
		fail("%s: %v, expected %v", what, received, expected)
	}
}

func ask(line, answer string) {
	fmt.Println(line)
	reply, err := stdin.ReadString('\n')
	must(err)
	equal(strings.TrimSpace(reply), answer, "control")
}

// dial connects, over TLS where there is an authority to trust.
func dial(uri string, config amqp.Config) (*amqp.Connection, error) {
	if authority := os.Getenv("LEVERET_TEST_CA"); authority != "" {
		pem, err := os.ReadFile(authority)
		must(err)
		config.TLSClientConfig = &tls.Config{RootCAs: x509.NewCertPool()}
		check(config.TLSClientConfig.RootCAs.AppendCertsFromPEM(pem), "no certificate in %s", authority)
	}
	return amqp.DialConfig(uri, config)
}

func connect() *amqp.Connection {
	c, err := dial(uri, usual)
	must(err)
	return c
}

func channel(c *amqp.Connection) *amqp.Channel {
	ch, err := c.Channel()
	must(err)
	return ch
}

func confirming(c *amqp.Connection) *amqp.Channel {
	ch := channel(c)
	must(ch.Confirm(false))
	return ch
}

func queue(ch *amqp.Channel, name string) string {
	name = prefix + "." + name
	_, err := ch.QueueDeclare(name, true, false, false, false, nil)
	must(err)
	return name
}

func exclusiveQueue(ch *amqp.Channel, name string) string {
	name = prefix + "." + name
	_, err := ch.QueueDeclare(name, false, false, true, false, nil)
	must(err)
	return name
}

func count(ch *amqp.Channel, name string) int {
	q, err := ch.QueueDeclarePassive(name, true, false, false, false, nil)
	must(err)
	return q.Messages
}

func persistent(body string) amqp.Publishing {
	return amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte(body)}
}

func publish(ch *amqp.Channel, exchange, key string, mandatory bool, message amqp.Publishing) {
	confirmation, err := ch.PublishWithDeferredConfirm(exchange, key, mandatory, false, message)
	must(err)
	select {
	case <-confirmation.Done():
		check(confirmation.Acked(), "a publish was refused")
	case <-time.After(patience):
		fail("no confirm")
	}
}

func send(ch *amqp.Channel, name string, bodies ...string) {
	for _, body := range bodies {
		publish(ch, "", name, true, persistent(body))
	}
}

func get(ch *amqp.Channel, name string, autoAck bool) amqp.Delivery {
	d, ok, err := ch.Get(name, autoAck)
	must(err)
	check(ok, "the queue is empty")
	return d
}

func empty(ch *amqp.Channel, name string) {
	_, ok, err := ch.Get(name, true)
	must(err)
	check(!ok, "the queue isn't empty")
}

func next(deliveries <-chan amqp.Delivery) amqp.Delivery {
	select {
	case d, ok := <-deliveries:
		check(ok, "the deliveries ended")
		return d
	case <-time.After(patience):
		fail("no delivery")
	}
	panic("unreachable")
}

func is(err error, code int, words string) {
	var problem *amqp.Error
	if !errors.As(err, &problem) {
		fail("%d expected, got %v", code, err)
	}
	equal(problem.Code, code, "code ("+problem.Reason+")")
	check(strings.HasPrefix(problem.Reason, words), "text %q doesn't start with %q", problem.Reason, words)
}

// fails: act on a channel of its own ends with this code and these first words.
func fails(c *amqp.Connection, code int, words string, act func(*amqp.Channel) error) {
	failsOn(c, channel(c), code, words, act)
}

func failsOn(c *amqp.Connection, ch *amqp.Channel, code int, words string, act func(*amqp.Channel) error) {
	channelClosed := ch.NotifyClose(make(chan *amqp.Error, 1))
	connectionClosed := c.NotifyClose(make(chan *amqp.Error, 1))
	_ = act(ch)
	var reason *amqp.Error
	select {
	case reason = <-channelClosed:
	case reason = <-connectionClosed:
	case <-time.After(patience):
	}
	if reason == nil {
		fail("%d expected, nothing happened", code)
	}
	is(reason, code, words)
}

func barrier(c *amqp.Connection) {
	_, err := channel(c).QueueDeclare("", false, true, true, false, nil)
	must(err)
}

var kinds = []string{"direct", "fanout", "topic", "headers"}

func declare() {
	c := connect()
	ch := confirming(c)
	name := queue(ch, "q")
	q, err := ch.QueueDeclare(name, true, false, false, false, nil)
	must(err)
	equal(q, amqp.Queue{Name: name}, "declare-ok")
	equal(count(ch, name), 0, "passive declare")
	returns := ch.NotifyReturn(make(chan amqp.Return, 1))
	for _, kind := range kinds {
		x := prefix + "." + kind
		must(ch.ExchangeDeclare(x, kind, true, false, false, false, nil))
		must(ch.ExchangeDeclare(x, kind, true, false, false, false, nil))
		must(ch.ExchangeDeclarePassive(x, kind, true, false, false, false, nil))
		args := amqp.Table{}
		if kind == "headers" {
			args = amqp.Table{"x-match": "all", "k": int32(1)}
		}
		must(ch.QueueBind(name, "a.b", x, false, args))
		publish(ch, x, "a.b", true, amqp.Publishing{Headers: amqp.Table{"k": int32(1)}, Body: []byte(kind)})
	}
	equal(count(ch, name), 4, "messages through four exchanges")
	must(ch.QueueUnbind(name, "a.b", prefix+".direct", nil))
	publish(ch, prefix+".direct", "a.b", true, persistent("x"))
	equal((<-returns).ReplyCode, 312, "an unbound key")
	purged, err := ch.QueuePurge(name, false)
	must(err)
	equal(purged, 4, "purge")
	own, err := ch.QueueDeclare("", false, false, true, false, nil)
	must(err)
	check(strings.HasPrefix(own.Name, "amq.gen-"), "server-named queue %s", own.Name)
	fails(c, 406, "PRECONDITION_FAILED - inequivalent arg 'durable' for queue", func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(name, false, false, false, false, nil)
		return err
	})
	fails(c, 406, "PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue", func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(name, true, false, false, false, amqp.Table{"x-max-length": int32(5)})
		return err
	})
	fails(c, 406, "PRECONDITION_FAILED - inequivalent arg 'type' for exchange", func(ch *amqp.Channel) error {
		return ch.ExchangeDeclare(prefix+".direct", "fanout", true, false, false, false, nil)
	})
	fails(c, 404, "NOT_FOUND - no queue", func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclarePassive(prefix+".missing", true, false, false, false, nil)
		return err
	})
	for _, kind := range kinds {
		must(ch.ExchangeDelete(prefix+"."+kind, false, false))
	}
	_, err = ch.QueueDelete(own.Name, false, false, false)
	must(err)
	fails(c, 404, "NOT_FOUND - no queue", func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclarePassive(own.Name, false, false, true, false, nil)
		return err
	})
}

func publishConfirm() {
	ch := confirming(connect())
	name := queue(ch, "q")
	var confirmations []*amqp.DeferredConfirmation
	for i := range 100 {
		confirmation, err := ch.PublishWithDeferredConfirm("", name, true, false, persistent(fmt.Sprint(i)))
		must(err)
		confirmations = append(confirmations, confirmation)
	}
	for i, confirmation := range confirmations {
		select {
		case <-confirmation.Done():
			check(confirmation.Acked(), "publish %d was refused", i)
			equal(confirmation.DeliveryTag, uint64(i+1), "tag")
		case <-time.After(patience):
			fail("no confirm for %d", i)
		}
	}
	equal(count(ch, name), 100, "messages")
	for i := range 100 {
		d := get(ch, name, true)
		equal(string(d.Body), fmt.Sprint(i), "body in order")
		equal(d.DeliveryMode, amqp.Persistent, "delivery mode")
	}
}

func mandatoryReturn() {
	ch := confirming(connect())
	returns := ch.NotifyReturn(make(chan amqp.Return, 1))
	key := prefix + ".nowhere"
	publish(ch, "amq.direct", key, true, amqp.Publishing{MessageId: "m", Body: []byte("back")})
	select {
	case r := <-returns: // already there: the return comes before the confirm
		equal(r.ReplyCode, 312, "code")
		equal(r.ReplyText, "NO_ROUTE", "text")
		equal(r.Exchange+" "+r.RoutingKey+" "+r.MessageId+" "+string(r.Body), "amq.direct "+key+" m back", "message")
	default:
		fail("the confirm came without a return before it")
	}
	publish(ch, "amq.direct", key, false, persistent("dropped"))
	select {
	case r := <-returns:
		fail("a return without mandatory: %v", r)
	default:
	}
}

func directReplyTo() {
	const pseudo = "amq.rabbitmq.reply-to"
	requester, responder := channel(connect()), confirming(connect())
	name := queue(responder, "q")
	answers, err := requester.Consume(pseudo, "tag", true, false, false, false, nil)
	must(err)
	asked := amqp.Publishing{ReplyTo: pseudo, CorrelationId: "7", Body: []byte("ask")}
	requests, err := responder.Consume(name, "", true, false, false, false, nil)
	must(err)
	must(requester.Publish("", name, true, false, asked))
	request := next(requests)
	equal(string(request.Body)+" "+request.CorrelationId, "ask 7", "request")
	check(strings.HasPrefix(request.ReplyTo, pseudo+"."), "reply-to %q", request.ReplyTo)
	publish(responder, "", request.ReplyTo, true, amqp.Publishing{CorrelationId: "7", Body: []byte("answer")})
	answer := next(answers)
	equal(string(answer.Body)+" "+answer.CorrelationId+" "+answer.ConsumerTag, "answer 7 tag", "answer")
	fails(connect(), 406, "PRECONDITION_FAILED - reply consumer cannot acknowledge", func(ch *amqp.Channel) error {
		_, err := ch.Consume(pseudo, "", false, false, false, false, nil)
		return err
	})
	fails(connect(), 406, "PRECONDITION_FAILED - fast reply consumer does not exist", func(ch *amqp.Channel) error {
		return ch.Publish("", name, true, false, asked)
	})
	fails(connect(), 403, "ACCESS_REFUSED", func(ch *amqp.Channel) error {
		return ch.QueueBind(request.ReplyTo, "k", "amq.direct", false, nil)
	})
}

func ack() {
	c := connect()
	ch := confirming(c)
	name := queue(ch, "q")
	send(ch, name, "1", "2", "3", "4", "5")
	consumer := channel(c)
	deliveries, err := consumer.Consume(name, "", false, false, false, false, nil)
	must(err)
	for i := 1; i <= 5; i++ {
		d := next(deliveries)
		equal(fmt.Sprint(d.DeliveryTag, d.Redelivered, string(d.Body)), fmt.Sprint(uint64(i), false, fmt.Sprint(i)), "delivery")
	}
	must(consumer.Ack(1, false))
	must(consumer.Ack(3, true))
	must(consumer.Close())
	again := channel(c)
	for _, body := range []string{"4", "5"} {
		d := get(again, name, false)
		check(d.Redelivered, "%s isn't redelivered", body)
		equal(string(d.Body), body, "redelivery")
		must(d.Ack(false))
	}
	empty(again, name)
	must(again.Close())
	equal(count(ch, name), 0, "messages")
}

func nackRequeue() {
	ch := confirming(connect())
	name := queue(ch, "q")
	send(ch, name, "1", "2", "3", "4")
	get(ch, name, false)
	second := get(ch, name, false)
	get(ch, name, false)
	must(second.Nack(false, true))
	d := get(ch, name, false)
	equal(string(d.Body), "2", "the place of 2 is before 4")
	check(d.Redelivered, "2 isn't redelivered")
	must(d.Nack(true, true))
	var order string
	for range 4 {
		d := get(ch, name, false)
		order += fmt.Sprint(string(d.Body), d.Redelivered, " ")
		must(d.Ack(false))
	}
	equal(order, "1true 2true 3true 4false ", "order after nack multiple")
	send(ch, name, "5")
	must(get(ch, name, false).Nack(false, false))
	empty(ch, name)
}

func reject() {
	ch := confirming(connect())
	name := queue(ch, "q")
	send(ch, name, "1", "2")
	must(get(ch, name, false).Reject(true))
	d := get(ch, name, false)
	check(d.Redelivered && string(d.Body) == "1", "requeued: %s", d.Body)
	must(d.Reject(false))
	d = get(ch, name, true)
	check(!d.Redelivered && string(d.Body) == "2", "next: %s", d.Body)
	empty(ch, name)
}

func prefetch() {
	c := connect()
	publisher := confirming(c)
	name := queue(publisher, "q")
	for i := range 10 {
		send(publisher, name, fmt.Sprint(i))
	}
	ch := channel(c)
	must(ch.Qos(3, 0, false))
	deliveries, err := ch.Consume(name, "", false, false, false, false, nil)
	must(err)
	for i := range 3 {
		equal(string(next(deliveries).Body), fmt.Sprint(i), "order")
	}
	equal(count(ch, name), 7, "ready while 3 are unacknowledged")
	select {
	case d := <-deliveries:
		fail("a fourth delivery: %s", d.Body)
	default:
	}
	must(ch.Ack(2, true))
	for i := 3; i < 5; i++ {
		equal(string(next(deliveries).Body), fmt.Sprint(i), "order")
	}
	equal(count(ch, name), 5, "ready after 2 acks")
}

func getScenario() {
	ch := confirming(connect())
	name := queue(ch, "q")
	empty(ch, name)
	send(ch, name, "1", "2")
	d := get(ch, name, false)
	equal(fmt.Sprint(d.MessageCount, d.Redelivered, d.Exchange, d.RoutingKey, string(d.Body)),
		fmt.Sprint(1, false, "", name, "1"), "get-ok")
	must(d.Ack(false))
	d = get(ch, name, true)
	equal(fmt.Sprintln(d.MessageCount, string(d.Body)), "0 2\n", "the last")
	empty(ch, name)
}

func bigBody() {
	ch := confirming(connect())
	name := queue(ch, "q")
	bytes := make([]byte, 5*1024*1024)
	for i := range bytes {
		bytes[i] = byte(i*7 + i/251)
	}
	body := string(bytes)
	send(ch, name, body, "after", body)
	for _, expected := range []string{body, "after", body} {
		d := get(ch, name, false)
		check(string(d.Body) == expected, "a body of %d bytes differs", len(d.Body))
		must(d.Ack(false))
	}
}

func headers() {
	ch := confirming(connect())
	name := queue(ch, "q")
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	sent := amqp.Table{
		"unicode ключ": "wert ✓ 𝄞",
		"binary":       every,
		"true":         true,
		"false":        false,
		"int8":         int8(-128),
		"uint8":        byte(255),
		"int16":        int16(-32768),
		"uint16":       uint16(65535),
		"int32":        int32(-2147483648),
		"uint32":       uint32(4294967295),
		"int64":        int64(-9223372036854775808),
		"float32":      float32(2.5),
		"float64":      float64(1) / 3,
		"decimal":      amqp.Decimal{Scale: 2, Value: 314},
		"time":         at,
		"nil":          nil,
		"list":         []any{int32(1), "zwei ✓", []byte{255, 0}, []any{true, nil}, amqp.Table{"in": int32(1)}},
		"table":        amqp.Table{"a": amqp.Table{"b": "tief"}},
		"empty":        "",
		"long":         strings.Repeat("x", 70_000),
	}
	message := amqp.Publishing{
		Headers: sent, ContentType: "text/plain", ContentEncoding: "utf-8", DeliveryMode: 2, Priority: 9,
		CorrelationId: "korrelation ✓", ReplyTo: "antwort", MessageId: "id", Timestamp: at,
		Type: "art", UserId: "guest", AppId: "app ✓", Body: []byte("inhalt ✓"),
	}
	publish(ch, "", name, true, message)
	d := get(ch, name, false)
	for key, value := range sent {
		if when, ok := value.(time.Time); ok {
			check(d.Headers[key].(time.Time).Equal(when), "header %s: %v", key, d.Headers[key])
			continue
		}
		equal(fmt.Sprintf("%T %v", d.Headers[key], d.Headers[key]), fmt.Sprintf("%T %v", value, value), "header "+key)
	}
	equal(len(d.Headers), len(sent), "number of headers")
	check(d.Timestamp.Equal(at), "timestamp %v", d.Timestamp)
	equal(fmt.Sprint(d.ContentType, d.ContentEncoding, d.DeliveryMode, d.Priority, d.CorrelationId, d.ReplyTo,
		d.MessageId, d.Type, d.UserId, d.AppId, string(d.Body)),
		fmt.Sprint(message.ContentType, message.ContentEncoding, message.DeliveryMode, message.Priority, message.CorrelationId,
			message.ReplyTo, message.MessageId, message.Type, message.UserId, message.AppId,
			string(message.Body)), "properties")
	must(d.Ack(false))
}

func exclusive() {
	owner, other := connect(), connect()
	name := exclusiveQueue(channel(owner), "q")
	words := "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue"
	passive := func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclarePassive(name, false, false, true, false, nil)
		return err
	}
	fails(other, 405, words, passive)
	fails(other, 405, words, func(ch *amqp.Channel) error { _, _, err := ch.Get(name, true); return err })
	fails(other, 405, words, func(ch *amqp.Channel) error { _, err := ch.QueuePurge(name, false); return err })
	must(passive(channel(owner)))
	must(owner.Close())
	fails(other, 404, "NOT_FOUND - no queue", passive)
	exclusiveQueue(channel(other), "q")
}

func reconnect() {
	c := connect()
	ch := confirming(c)
	name := queue(ch, "q")
	transient := exclusiveQueue(ch, "transient")
	send(ch, name, "before")
	send(ch, transient, "lost")
	closed := c.NotifyClose(make(chan *amqp.Error, 1))
	ask("ready kill", "go")
	select {
	case <-closed:
	case <-time.After(patience):
		fail("the connection survived a kill")
	}
	c = connect()
	ch = confirming(c)
	equal(count(ch, name), 1, "messages after the restart")
	d := get(ch, name, false)
	equal(string(d.Body), "before", "the message")
	must(d.Ack(false))
	send(ch, name, "after")
	equal(string(get(ch, name, true).Body), "after", "a message of the second life")
	fails(c, 404, "NOT_FOUND - no queue", func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclarePassive(transient, false, false, true, false, nil)
		return err
	})
}

func heartbeatLoss() {
	c, err := dial(uri, amqp.Config{Heartbeat: time.Second})
	must(err)
	barrier(c)
	closed := c.NotifyClose(make(chan *amqp.Error, 1))
	ask("mute", "closed")
	select {
	case <-closed:
	case <-time.After(patience):
		fail("the client didn't see the connection close")
	}
}

func error320() {
	c := connect()
	barrier(c)
	closed := c.NotifyClose(make(chan *amqp.Error, 1))
	ask("ready term", "go")
	select {
	case reason := <-closed:
		is(reason, 320, "CONNECTION_FORCED")
	case <-time.After(patience):
		fail("the connection is still open")
	}
}

func error403() {
	c := connect()
	holder := confirming(c)
	name := queue(holder, "q")
	fails(c, 403, "ACCESS_REFUSED - queue name 'amq.own' contains reserved prefix 'amq.*'", func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare("amq.own", false, false, false, false, nil)
		return err
	})
	fails(c, 403, "ACCESS_REFUSED - exchange name 'amq.own' contains reserved prefix 'amq.*'", func(ch *amqp.Channel) error {
		return ch.ExchangeDeclare("amq.own", "direct", true, false, false, false, nil)
	})
	fails(c, 403, "ACCESS_REFUSED - operation not permitted on the default exchange", func(ch *amqp.Channel) error {
		return ch.QueueBind(name, "key", "", false, nil)
	})
	_, err := holder.Consume(name, "", false, true, false, false, nil)
	must(err)
	fails(c, 403, "ACCESS_REFUSED - queue '"+name+"' in vhost '/' in exclusive use", func(ch *amqp.Channel) error {
		_, err := ch.Consume(name, "", false, false, false, false, nil)
		return err
	})
	must(holder.ExchangeDeclare(prefix+".internal", "direct", true, false, true, false, nil))
	fails(c, 403, "ACCESS_REFUSED - cannot publish to internal exchange", func(ch *amqp.Channel) error {
		return ch.Publish(prefix+".internal", "", false, false, persistent("x"))
	})
	must(holder.ExchangeDelete(prefix+".internal", false, false))
	_, err = dial(strings.Replace(uri, "guest:guest@", "guest:wrong@", 1), usual)
	is(err, 403, "username or password not allowed") // the client's own words
}

func error404() {
	c := connect()
	missing := prefix + ".missing"
	noQueue, noExchange := "NOT_FOUND - no queue '"+missing+"' in vhost '/'", "NOT_FOUND - no exchange '"+missing+"' in vhost '/'"
	fails(c, 404, noQueue, func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclarePassive(missing, true, false, false, false, nil)
		return err
	})
	fails(c, 404, noQueue, func(ch *amqp.Channel) error { _, _, err := ch.Get(missing, true); return err })
	fails(c, 404, noQueue, func(ch *amqp.Channel) error {
		_, err := ch.Consume(missing, "", false, false, false, false, nil)
		return err
	})
	fails(c, 404, noQueue, func(ch *amqp.Channel) error { return ch.QueueBind(missing, "k", "amq.direct", false, nil) })
	fails(c, 404, noExchange, func(ch *amqp.Channel) error {
		return ch.ExchangeDeclarePassive(missing, "direct", true, false, false, false, nil)
	})
	fails(c, 404, noExchange, func(ch *amqp.Channel) error { return ch.Publish(missing, "k", false, false, persistent("x")) })
	name := queue(channel(c), "q")
	fails(c, 404, noExchange, func(ch *amqp.Channel) error { return ch.QueueBind(name, "k", missing, false, nil) })
	_, err := channel(c).QueueDelete(missing, false, false, false)
	must(err)
}

func error405() {
	owner, other := connect(), connect()
	name := exclusiveQueue(channel(owner), "q")
	words := "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '" + name + "' in vhost '/'"
	fails(other, 405, words, func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(name, false, false, true, false, nil)
		return err
	})
	fails(other, 405, words, func(ch *amqp.Channel) error {
		_, err := ch.Consume(name, "", false, false, false, false, nil)
		return err
	})
	fails(other, 405, words, func(ch *amqp.Channel) error { _, err := ch.QueueDelete(name, false, false, false); return err })
}

func error406() {
	c := connect()
	ch := confirming(c)
	name := queue(ch, "q")
	fails(c, 406, "PRECONDITION_FAILED - unknown delivery tag 7", func(ch *amqp.Channel) error { return ch.Ack(7, false) })
	fails(c, 406, "PRECONDITION_FAILED - unknown delivery tag 7", func(ch *amqp.Channel) error { return ch.Reject(7, false) })
	send(ch, name, "1")
	fails(c, 406, "PRECONDITION_FAILED - unknown delivery tag 1", func(ch *amqp.Channel) error {
		d := get(ch, name, false)
		must(ch.Ack(d.DeliveryTag, false))
		return ch.Ack(d.DeliveryTag, false)
	})
	fails(c, 406, "PRECONDITION_FAILED - invalid expiration", func(ch *amqp.Channel) error {
		return ch.Publish("", name, false, false, amqp.Publishing{Expiration: "soon"})
	})
	fails(c, 406, "PRECONDITION_FAILED - invalid arg 'x-max-length' for queue", func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(prefix+".bad", true, false, false, false, amqp.Table{"x-max-length": int32(-1)})
		return err
	})
	fails(c, 406, "PRECONDITION_FAILED - unknown exchange type 'x-nowhere-known'", func(ch *amqp.Channel) error {
		return ch.ExchangeDeclare(prefix+".x", "x-nowhere-known", true, false, false, false, nil)
	})
	send(ch, name, "2")
	fails(c, 406, "PRECONDITION_FAILED - queue '"+name+"' in vhost '/' not empty", func(ch *amqp.Channel) error {
		_, err := ch.QueueDelete(name, false, true, false)
		return err
	})
	_, err := channel(c).Consume(name, "", false, false, false, false, nil)
	must(err)
	fails(c, 406, "PRECONDITION_FAILED - queue '"+name+"' in vhost '/' in use", func(ch *amqp.Channel) error {
		_, err := ch.QueueDelete(name, true, false, false)
		return err
	})
}

func injected(code int, words, frame string) {
	c := connect()
	failsOn(c, channel(c), code, words, func(*amqp.Channel) error { ask("inject "+frame, "done"); return nil })
	barrier(connect()) // another connection doesn't notice
}

// queue.declare on channel 1, with 00 where the end mark belongs.
func error501() {
	injected(501, "FRAME_ERROR", "0100010000000c"+"0032000a"+"0000"+"00"+"00"+"00000000"+"00")
}

// queue.declare whose name claims more bytes than the frame has; RabbitMQ says 501 where the specification has 502.
func error502() {
	injected(501, "FRAME_ERROR - cannot decode", "01000100000008"+"0032000a"+"0000"+"ff61"+"ce")
}

// queue.declare-ok, which only a broker sends.
func error503() {
	injected(503, "COMMAND_INVALID", "0100010000000e"+"0032000b"+"0161"+"0000000000000000"+"ce")
}

// channel.open on channel 1, which is open.
func error504() {
	injected(504, "CHANNEL_ERROR - second 'channel.open' seen", "01000100000005"+"0014000a"+"00"+"ce")
}

// A content header on channel 1 without a method before it.
func error505() {
	injected(505, "UNEXPECTED_FRAME", "0200010000000e"+"003c0000"+"0000000000000000"+"0000"+"ce")
}

func error530() {
	c := connect()
	ch := channel(c)
	name := queue(ch, "q")
	// The client keeps consumer tags of a channel in a map and sends a second one all the same.
	fails(c, 530, "NOT_ALLOWED - attempt to reuse consumer tag 'tag'", func(ch *amqp.Channel) error {
		_, err := ch.Consume(name, "tag", false, false, false, false, nil)
		must(err)
		_, err = ch.Consume(name, "tag", false, false, false, false, nil)
		return err
	})
	_, err := dial(strings.TrimSuffix(uri, "%2F") + "no%20such", usual)
	is(err, 530, "NOT_ALLOWED - vhost no such not found")
}

func error540() {
	c := connect()
	name := queue(channel(c), "q")
	fails(c, 540, "NOT_IMPLEMENTED - immediate=true", func(ch *amqp.Channel) error {
		return ch.Publish("", name, false, true, persistent("x"))
	})
	fails(connect(), 540, "NOT_IMPLEMENTED", func(ch *amqp.Channel) error { return ch.Qos(0, 10, false) })
	fails(connect(), 540, "NOT_IMPLEMENTED", func(ch *amqp.Channel) error { return ch.Recover(false) })
}

var scenarios = map[string]func(){
	"declare": declare, "publish_confirm": publishConfirm, "mandatory_return": mandatoryReturn, "ack": ack,
	"nack_requeue": nackRequeue, "reject": reject, "prefetch": prefetch, "get": getScenario, "big_body": bigBody,
	"headers": headers, "exclusive": exclusive, "reconnect": reconnect, "heartbeat_loss": heartbeatLoss,
	"error_320": error320, "error_403": error403, "error_404": error404, "error_405": error405, "error_406": error406,
	"error_501": error501, "error_502": error502, "error_503": error503, "error_504": error504, "error_505": error505,
	"error_530": error530, "error_540": error540, "direct_reply_to": directReplyTo,
}

func main() {
	uri, scenario = os.Args[1], os.Args[4]
	prefix = fmt.Sprintf("cell.%s.%d", scenario, os.Getpid())
	defer func() {
		if problem := recover(); problem != nil {
			fmt.Printf("fail %s: %s\n", scenario, strings.ReplaceAll(fmt.Sprint(problem), "\n", " "))
			os.Exit(1)
		}
	}()
	run, known := scenarios[scenario]
	check(known, "no such scenario")
	run()
	fmt.Printf("ok %s\n", scenario)
}
