/* Connections and sessions. */
#include "session.h"

#include <string.h>

static void login(void) {
  close_client(connect_plain());
  client_t *anonymous = connect_with((options_t){.mechanisms = "ANONYMOUS"});
  begin(anonymous);
  close_client(anonymous);
  client_t *wrong = connect_with((options_t){.user = "guest", .password = "wrong"});
  await_end(wrong);
  is_condition(pn_transport_condition(wrong->driver.transport), "amqp:unauthorized-access", "uthentication failed");
}

static void vhost(void) {
  const char *address = queue("q", "");
  options_t options = {.user = "guest", .password = "guest", .hostname = "vhost:/"};
  client_t *client = connect_with(options);
  client->session = begin(client);
  accepted(sender(client, address), text("here"));
  CHECK(count("q") == 1, "messages");
  options.hostname = "vhost:no such";
  client_t *unknown = connect_with(options);
  await_end(unknown);
  /* RabbitMQ breaks the connection without a word, for which the library makes up an error. */
  pn_condition_t *condition = pn_connection_remote_condition(unknown->connection);
  if (pn_condition_is_set(condition) && !strstr(pn_condition_get_description(condition), "aborted")) {
    is_condition(condition, "amqp:unauthorized-access", "no such");
  }
}

static void sessions(void) {
  client_t *client = connect_plain();
  pn_session_t *of[2];
  pn_link_t *out[2], *in[2];
  for (int i = 0; i < 2; i++) {
    const char *address = queue(i ? "b" : "a", "");
    of[i] = begin(client);
    out[i] = attach(new_sender(of[i], address));
    in[i] = attach(new_receiver(of[i], address));
    pn_link_flow(in[i], 20);
  }
  for (int i = 0; i < 2; i++) {
    for (int n = 0; n < 10; n++) accepted(out[i], text("%d %d", i, n));
  }
  for (int i = 0; i < 2; i++) {
    for (int n = 0; n < 10; n++) settle(take_text(in[i], "%d %d", i, n), PN_ACCEPTED);
  }
  end(of[0]);
  for (int n = 10; n < 20; n++) {
    accepted(out[1], text("%d", n));
    settle(take_text(in[1], "%d", n), PN_ACCEPTED);
  }
}

static void many_links(void) {
  client_t *client = connect_plain();
  pn_link_t *out[50], *in[50];
  for (int i = 0; i < 50; i++) {
    char name[4] = {(char)('0' + i / 10), (char)('0' + i % 10)};
    const char *address = queue(name, "");
    in[i] = receiver(client, address);
    pn_link_flow(in[i], 5);
    out[i] = sender(client, address);
  }
  for (int i = 0; i < 50; i++) accepted(out[i], text("for %d", i));
  for (int i = 0; i < 50; i++) take_text(in[i], "for %d", i);
  end(client->session);
}

static void heartbeats(void) {
  /* The library announces half of this, and closes when nothing comes for all of it. */
  client_t *client = connect_with((options_t){.user = "guest", .password = "guest", .idle_timeout_ms = 2000});
  client->session = begin(client);
  pn_transport_t *transport = client->driver.transport;
  uint64_t before = pn_transport_get_frames_input(transport);
  WAIT(pn_transport_get_frames_input(transport) >= before + 2, "two empty frames");
  const char *address = queue("q", "");
  accepted(sender(client, address), text("awake"));
  CHECK(count("q") == 1, "messages");
}

static void heartbeat_loss(void) {
  client_t *client = connect_plain();
  CHECK(strcmp(ask("mute"), "closed") == 0, "control");
  await_end(client);
  is_condition(pn_connection_remote_condition(client->connection), "amqp:resource-limit-exceeded", "idle");
}

static void reconnect(void) {
  const char *address = queue("q", "");
  client_t *client = connect_plain();
  accepted(sender(client, address), text("before"));
  CHECK(strcmp(ask("ready kill"), "go") == 0, "control");
  await_end(client);
  client = connect_plain();
  CHECK(count("q") == 1, "messages after the restart");
  received_t received = get(client, address);
  CHECK(strcmp(body(received), "before") == 0 && pn_message_is_durable(received.message), "the message");
  accepted(sender(client, address), text("after"));
  CHECK(strcmp(body(get(client, address)), "after") == 0, "a message of the second life");
}

static void stop(void) {
  client_t *client = connect_plain();
  CHECK(strcmp(ask("ready term"), "go") == 0, "control");
  await_end(client);
  pn_condition_t *condition = pn_connection_remote_condition(client->connection);
  CHECK(pn_condition_is_set(condition), "closed without an error");
  const char *name = pn_condition_get_name(condition), *words = pn_condition_get_description(condition);
  CHECK(!strcmp(name, "amqp:connection:forced") || !strcmp(name, "amqp:internal-error"), "%s", name);
  CHECK(strncmp(words, "Connection forced", 17) == 0, "%s", words);
}

const entry_t CONNECTING[] = {
  {"login", login}, {"vhost", vhost}, {"sessions", sessions}, {"many_links", many_links}, {"heartbeats", heartbeats},
  {"heartbeat_loss", heartbeat_loss}, {"reconnect", reconnect}, {"shutdown", stop}, {0}};
