/* Receivers: outcomes, credit, and what becomes of a message that isn't accepted. */
#include "session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void send_numbers(client_t *client, const char *address, int first, int last) {
  pn_link_t *link = sender(client, address);
  for (int n = first; n < last; n++) accepted(link, text("%d", n));
  detach(link);
}

static void modify(received_t received, bool failed, bool undeliverable) {
  pn_disposition_t *local = pn_delivery_local(received.delivery);
  pn_disposition_set_failed(local, failed);
  pn_disposition_set_undeliverable(local, undeliverable);
  settle(received, PN_MODIFIED);
}

/* Grants one credit for a message with this text and these counts. */
static received_t next(client_t *client, pn_link_t *link, const char *words, unsigned failures, bool first) {
  /* The library writes flows before dispositions, which must come first here. */
  flush(client);
  pn_link_flow(link, 1);
  received_t received = take_text(link, "%s", words);
  CHECK(pn_message_get_delivery_count(received.message) == failures, "delivery-count of %s", words);
  CHECK(pn_message_is_first_acquirer(received.message) == first, "first-acquirer of %s", words);
  return received;
}

static void outcomes(void) {
  const char *address = queue("q", "");
  client_t *client = connect_plain();
  send_numbers(client, address, 1, 6);
  pn_link_t *link = receiver(client, address);
  settle(next(client, link, "1", 0, true), PN_ACCEPTED);
  settle(next(client, link, "2", 0, true), PN_REJECTED);
  settle(next(client, link, "3", 0, true), PN_RELEASED);
  modify(next(client, link, "3", 0, false), true, false);
  settle(next(client, link, "3", 1, false), PN_ACCEPTED);
  modify(next(client, link, "4", 0, true), true, true);
  settle(next(client, link, "5", 0, true), PN_ACCEPTED);
  flush(client);
  drain(link, 1);
  CHECK(waiting(link) == 0 && count("q") == 0, "messages are left");
}

static const char *dead_letter_to(const char *dead) {
  static char arguments[TEXT_MAX];
  snprintf(arguments, sizeof arguments, "\"x-dead-letter-exchange\":\"\",\"x-dead-letter-routing-key\":\"%.500s\"",
           named(dead));
  return queue("q", arguments);
}

static void is_dead_letter(received_t received, const char *because) {
  CHECK(strcmp(annotation(received, "x-first-death-queue"), named("q")) == 0, "x-first-death-queue");
  CHECK(strcmp(annotation(received, "x-first-death-reason"), because) == 0, "x-first-death-reason");
  CHECK(strcmp(annotation(received, "x-last-death-reason"), because) == 0, "x-last-death-reason");
  const char *deaths = shown(pn_message_annotations(received.message));
  CHECK(strstr(deaths, "x-opt-deaths") && strstr(deaths, "routing-keys") && strstr(deaths, "count"), "%s", deaths);
}

static void dead_letter(void) {
  const char *dead = queue("dead", ""), *address = dead_letter_to("dead");
  client_t *client = connect_plain();
  send_numbers(client, address, 0, 2);
  pn_link_t *link = receiver(client, address);
  pn_link_flow(link, 2);
  settle(take_text(link, "0"), PN_REJECTED);
  modify(take_text(link, "1"), false, true);
  for (int n = 0; n < 2; n++) {
    received_t received = get(client, dead);
    CHECK(body(received)[0] == '0' + n, "dead letter %d is %s", n, body(received));
    is_dead_letter(received, "rejected");
  }
  CHECK(count("q") == 0, "messages");
}

static void ttl(void) {
  const char *dead = queue("dead", ""), *address = dead_letter_to("dead");
  client_t *client = connect_plain();
  pn_link_t *link = sender(client, address);
  pn_message_t *message = text("short");
  pn_message_set_ttl(message, 1);
  accepted(link, message);
  received_t received = get(client, dead);
  is_dead_letter(received, "expired");
  CHECK(pn_message_get_ttl(received.message) == 0, "a dead letter with ttl");
  message = text("long");
  pn_message_set_ttl(message, 600000);
  accepted(link, message);
  message = text("plain");
  pn_message_set_durable(message, false);
  accepted(link, message);
  message = text("high");
  pn_message_set_priority(message, 9);
  accepted(link, message);
  received = get(client, address);
  CHECK(pn_message_get_ttl(received.message) > 0 && pn_message_get_ttl(received.message) <= 600000, "ttl");
  received = get(client, address);
  CHECK(!pn_message_is_durable(received.message) && pn_message_get_priority(received.message) == 4, "plain");
  CHECK(pn_message_get_priority(get(client, address).message) == 9, "priority");
}

static pn_link_t *ten(pn_session_t *session, const char *address) {
  pn_link_t *link = attach(new_receiver(session, address));
  pn_link_flow(link, 10);
  for (int n = 0; n < 10; n++) take_text(link, "%d", n);
  return link;
}

static void detach_requeues(void) {
  const char *address = queue("q", "");
  client_t *client = connect_plain();
  send_numbers(client, address, 0, 10);
  detach(ten(client->session, address));
  pn_session_t *session = begin(client);
  ten(session, address);
  end(session);
  client_t *other = connect_plain();
  ten(other->session, address);
  close_client(other);
  ten(client->session, address);
}

static void credit(void) {
  const char *address = queue("q", "");
  client_t *client = connect_plain();
  send_numbers(client, address, 0, 20);
  pn_link_t *link = receiver(client, address);
  pn_link_flow(link, 1);
  settle(take_text(link, "0"), PN_ACCEPTED);
  /* The queue takes this in after the settlement: had that granted anything, it would show. */
  send_numbers(client, address, 20, 21);
  CHECK(waiting(link) == 0 && count("q") == 20, "after settling");
  pn_link_flow(link, 10);
  for (int n = 1; n < 11; n++) settle(take_text(link, "%d", n), PN_ACCEPTED);
  send_numbers(client, address, 21, 22);
  CHECK(waiting(link) == 0 && count("q") == 11, "after settling ten");
  pn_link_flow(link, 20);
  for (int n = 11; n < 22; n++) take_text(link, "%d", n);
  send_numbers(client, address, 22, 23);
  take_text(link, "22");
}

static void drain_scenario(void) {
  const char *address = queue("q", "");
  client_t *client = connect_plain();
  send_numbers(client, address, 0, 3);
  pn_link_t *link = receiver(client, address);
  drain(link, 10);
  for (int n = 0; n < 3; n++) take_text(link, "%d", n);
  CHECK(waiting(link) == 0 && pn_link_credit(link) == 0, "after a drain");
  drain(link, 5);
  CHECK(waiting(link) == 0 && pn_link_credit(link) == 0, "after the drain of an empty queue");
  send_numbers(client, address, 3, 4);
  CHECK(waiting(link) == 0, "a delivery without credit");
  pn_link_set_drain(link, false);
  pn_link_flow(link, 1);
  take_text(link, "3");
}

static void settled_receive(void) {
  const char *address = queue("q", "");
  client_t *client = connect_plain();
  send_numbers(client, address, 0, 10);
  pn_link_t *link = new_receiver(client->session, address);
  pn_link_set_snd_settle_mode(link, PN_SND_SETTLED);
  attach(link);
  CHECK(pn_link_remote_snd_settle_mode(link) == PN_SND_SETTLED, "settle mode of the answer");
  pn_link_flow(link, 11);
  for (int n = 0; n < 10; n++) {
    CHECK(pn_delivery_settled(take_text(link, "%d", n).delivery), "a delivery isn't settled");
  }
  detach(link);
  CHECK(count("q") == 0, "messages");
}

static void two_receivers(void) {
  client_t *client = connect_plain();
  pn_link_t *in[2];
  for (int i = 0; i < 2; i++) {
    const char *address = queue(i ? "b" : "a", "");
    in[i] = receiver(client, address);
    pn_link_flow(in[i], 10);
    send_numbers(client, address, 0, 200);
  }
  for (int n = 0; n < 200; n++) {
    for (int i = 0; i < 2; i++) {
      CHECK(waiting(in[i]) <= 10, "more than the credit");
      settle(take_text(in[i], "%d", n), PN_ACCEPTED);
      pn_link_flow(in[i], 1);
    }
  }
  const char *address = queue("both", "");
  for (int i = 0; i < 2; i++) {
    in[i] = receiver(client, address);
    pn_link_flow(in[i], 10);
  }
  flush(client);
  send_numbers(client, address, 0, 20);
  int sum = 0;
  for (int n = 0; n < 20; n++) sum += atoi(body(take(in[n % 2])));
  CHECK(sum == 190, "not each of the shared messages once");
}

static void consumer_priority(void) {
  const char *address = queue("q", "");
  client_t *client = connect_plain();
  pn_link_t *low = receiver(client, address), *high = new_receiver(client->session, address);
  pn_data_fill(pn_link_properties(high), "{si}", "rabbitmq:priority", 5);
  attach(high);
  pn_link_flow(low, 10);
  pn_link_flow(high, 10);
  flush(client);
  send_numbers(client, address, 0, 10);
  for (int n = 0; n < 10; n++) take_text(high, "%d", n);
  CHECK(waiting(low) == 0, "deliveries to the lower priority");
  send_numbers(client, address, 10, 15);
  for (int n = 10; n < 15; n++) take_text(low, "%d", n);
}

static void backlog(void) {
  enum { NUMBER = 20000 };
  const char *address = queue("q", "");
  client_t *client = connect_plain();
  pn_link_t *out = sender(client, address);
  static pn_delivery_t *sent[NUMBER];
  for (int done = 0, started = 0; done < NUMBER;) {
    while (started < NUMBER && (pn_link_credit(out) > 0 || started == done)) {
      sent[started] = start(out, text("%d", started));
      started++;
    }
    CHECK(state_of(sent[done]) == PN_ACCEPTED, "outcome of %d", done);
    pn_delivery_settle(sent[done++]);
  }
  CHECK(count("q") == NUMBER, "messages");
  pn_link_t *in = receiver(client, address);
  pn_link_flow(in, 100);
  for (int n = 0; n < NUMBER; n++) {
    received_t received = take_text(in, "%d", n);
    settle(received, PN_ACCEPTED);
    pn_message_free(received.message);
    free(received.data);
    if (n % 50 == 49) pn_link_flow(in, 50);
  }
  flush(client);
  drain(in, 0);
  CHECK(waiting(in) == 0 && count("q") == 0, "messages are left");
}

const entry_t RECEIVING[] = {
  {"outcomes", outcomes}, {"dead_letter", dead_letter}, {"ttl", ttl}, {"detach_requeues", detach_requeues},
  {"credit", credit}, {"drain", drain_scenario}, {"settled_receive", settled_receive},
  {"two_receivers", two_receivers}, {"consumer_priority", consumer_priority}, {"backlog", backlog}, {0}};
