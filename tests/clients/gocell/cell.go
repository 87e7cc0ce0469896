// Package gocell is what the Go programs of the AMQP 1.0 table share: the harness's lines (tests/src/cell.rs), its
// 0-9-1 peer (tests/src/peer.rs), and the words with which a scenario fails.
package gocell

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"
)

// Patience is how long a scenario waits for an event before it calls the event missing.
const Patience = 20 * time.Second

var (
	// Scenario is the one to run.
	Scenario string
	// Scheme is amqp, or amqps for TLS.
	Scheme string
	// Authority is the broker's host and port.
	Authority string
	stdin     = bufio.NewReader(os.Stdin)
)

// failure is what a scenario panics with.
type failure string

// Main runs the scenario that the command line names and says how it ended.
func Main(scenarios map[string]func()) {
	uri, err := url.Parse(os.Args[1])
	if err != nil {
		fmt.Println(err)
		os.Exit(2)
	}
	Scheme, Authority, Scenario = uri.Scheme, uri.Host, os.Args[4]
	run, ok := scenarios[Scenario]
	if !ok {
		fmt.Printf("fail %s: no such scenario\n", Scenario)
		os.Exit(1)
	}
	defer func() {
		if problem := recover(); problem != nil {
			text, ok := problem.(failure)
			if !ok {
				panic(problem)
			}
			fmt.Printf("fail %s: %s\n", Scenario, strings.ReplaceAll(string(text), "\n", " "))
			os.Exit(1)
		}
	}()
	run()
	fmt.Printf("ok %s\n", Scenario)
}

// TLS is what a client trusts; nil without TLS.
func TLS() *tls.Config {
	authority := os.Getenv("LEVERET_TEST_CA")
	if authority == "" {
		return nil
	}
	roots := x509.NewCertPool()
	Check(roots.AppendCertsFromPEM(Got(os.ReadFile(authority))), "no certificate in %s", authority)
	// RabbitMQ's client would take the virtual host's name for the server's.
	host, _, err := net.SplitHostPort(Authority)
	Must(err)
	return &tls.Config{RootCAs: roots, ServerName: host}
}

// Name is the name of an object of this run.
func Name(part string) string { return fmt.Sprintf("cell.%s.%d.%s", Scenario, os.Getpid(), part) }

// Within is a context that ends when the patience does.
func Within() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	context.AfterFunc(ctx, cancel)
	return ctx
}

// Fail ends the scenario.
func Fail(format string, args ...any) { panic(failure(fmt.Sprintf(format, args...))) }

// Must fails on an error.
func Must(err error) {
	if err != nil {
		Fail("%v", err)
	}
}

// Got is the value of a call that mustn't fail.
func Got[T any](value T, err error) T {
	Must(err)
	return value
}

// Check fails unless the condition holds.
func Check(condition bool, format string, args ...any) {
	if !condition {
		Fail(format, args...)
	}
}

// Equal fails unless both are the same.
func Equal[T comparable](received, expected T, what string) {
	if received != expected {
		Fail("%s: %v, expected %v", what, received, expected)
	}
}

// Ask says a line to the harness and expects this answer.
func Ask(line, answer string) { Equal(say(line), answer, "answer to "+line) }

func say(line string) string {
	fmt.Println(line)
	reply, err := stdin.ReadString('\n')
	Must(err)
	return strings.TrimSpace(reply)
}

// Peer asks the 0-9-1 peer; a refusal fails.
func Peer(request map[string]any) map[string]any {
	text := Got(json.Marshal(request))
	var answer map[string]any
	Must(json.Unmarshal([]byte(say("peer "+string(text))), &answer))
	if problem, ok := answer["error"]; ok {
		Fail("peer %s: %v", text, problem)
	}
	return answer
}

// Queue declares a durable queue of this run and returns its name.
func Queue(part string) string { return QueueWith(part, map[string]any{}) }

// QueueWith declares a durable queue with arguments.
func QueueWith(part string, arguments map[string]any) string {
	Peer(map[string]any{"do": "declare", "queue": Name(part), "arguments": arguments})
	return Name(part)
}

// Exchange declares a durable exchange of this run and returns its name.
func Exchange(part, kind string) string {
	Peer(map[string]any{"do": "exchange", "exchange": Name(part), "type": kind})
	return Name(part)
}

// Bind binds a queue.
func Bind(queue, exchange, key string) {
	Peer(map[string]any{"do": "bind", "queue": queue, "exchange": exchange, "key": key})
}

// Ready is the number of ready messages of a queue.
func Ready(queue string) int {
	return int(Peer(map[string]any{"do": "count", "queue": queue})["messages"].(float64))
}

// Delete deletes a queue.
func Delete(queue string) { Peer(map[string]any{"do": "delete", "queue": queue}) }

// Publish sends a persistent message over 0-9-1.
func Publish(queue, body string) {
	Peer(map[string]any{"do": "publish", "exchange": "", "key": queue, "body": body})
}

// Get takes a message over 0-9-1.
func Get(queue string) map[string]any { return Peer(map[string]any{"do": "get", "queue": queue}) }

// Percent encodes a segment of an address (RFC 3986, all but the unreserved characters).
func Percent(segment string) string { return strings.ReplaceAll(url.QueryEscape(segment), "+", "%20") }

// AtQueue is the address of a queue.
func AtQueue(name string) string { return "/queues/" + Percent(name) }

// AtExchange is the address of an exchange and a key.
func AtExchange(name, key string) string { return "/exchanges/" + Percent(name) + "/" + Percent(key) }
