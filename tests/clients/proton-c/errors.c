/* What the broker refuses. */
#include "session.h"

#include <stdio.h>
#include <string.h>

/* The rest of a client's work isn't disturbed. */
static void goes_on(client_t *client) { accepted(sender(client, queue("other", "")), text("x")); }

static void exclusive(void) {
  peer("\"do\":\"declare\",\"queue\":\"%s\",\"exclusive\":true", named("q"));
  char address[TEXT_MAX];
  snprintf(address, sizeof address, "/queues/%.500s", named("q"));
  refused(new_receiver(connect_plain()->session, address), "amqp:resource-locked", named("q"));
}

static void queue_deleted(void) {
  const char *address = queue("q", "");
  client_t *client = connect_plain();
  pn_link_t *in = receiver(client, address), *out = sender(client, address);
  pn_link_flow(in, 1);
  flush(client);
  peer("\"do\":\"delete\",\"queue\":\"%s\"", named("q"));
  refused(in, "amqp:resource-deleted", "");
  refused(out, "amqp:resource-deleted", "");
  goes_on(client);
}

static void not_found(void) {
  client_t *client = connect_plain();
  char address[TEXT_MAX];
  snprintf(address, sizeof address, "/queues/%.500s", named("missing"));
  refused(new_receiver(client->session, address), "amqp:not-found", named("missing"));
  refused(new_sender(client->session, address), "amqp:not-found", named("missing"));
  snprintf(address, sizeof address, "/exchanges/%.500s/k", named("missing"));
  refused(new_sender(client->session, address), "amqp:not-found", named("missing"));
  goes_on(client);
}

static void bad_address(void) {
  static const char *targets[] = {
    "/exchanges//k", "/exchanges/amq.default/k", "/queues/", "/nothing/x", "/queues/a%zz"};
  client_t *client = connect_plain();
  for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
    refused(new_sender(begin(client), targets[i]), "amqp:invalid-field", "");
  }
  refused(new_receiver(begin(client), "/exchanges/amq.direct/k"), "amqp:invalid-field", "");
  goes_on(client);
}

static void unauthorized(void) {
  const char *address = queue("q", "");
  client_t *client = connect_plain();
  refused(new_sender(begin(client), "/exchanges/amq.direct/k"), "amqp:unauthorized-access", "amq.direct");
  refused(new_receiver(begin(client), address), "amqp:unauthorized-access", named("q"));
  begin(client);
}

static void sends_in_vain(pn_message_t *message, const char *condition, const char *words) {
  const char *address = queue("q", "");
  client_t *client = connect_plain();
  pn_link_t *link = attach(new_sender(begin(client), address));
  start(link, message);
  refused(link, condition, words);
  message = text("x");
  pn_message_set_user_id(message, pn_bytes(5, "guest"));
  accepted(sender(client, address), message);
  CHECK(count("q") == 1, "messages");
}

static void user_id(void) {
  pn_message_t *message = text("x");
  pn_message_set_user_id(message, pn_bytes(8, "somebody"));
  sends_in_vain(message, "amqp:unauthorized-access", "somebody");
}

static void message_too_large(void) {
  sends_in_vain(text("%100001s", "x"), "amqp:link:message-size-exceeded", "");
}

static void bad_annotation(void) {
  pn_message_t *message = text("x");
  pn_data_fill(pn_message_annotations(message), "{si}", "y", 1);
  sends_in_vain(message, "amqp:decode-error", "");
}

static void settle_mode_second(void) {
  const char *address = queue("q", "");
  pn_link_t *link = new_receiver(connect_plain()->session, address);
  pn_link_set_rcv_settle_mode(link, PN_RCV_SECOND);
  refused(link, "amqp:not-implemented", "");
}

static void framing_error(void) {
  client_t *client = connect_plain();
  CHECK(strcmp(ask("inject 0000000302000000"), "done") == 0, "control");
  await_end(client);
  is_condition(pn_connection_remote_condition(client->connection), "amqp:connection:framing-error", "");
  close_client(connect_plain());
}

static void session_errors(void) {
  client_t *client = connect_plain();
  /* transfer: handle 77, delivery-id 0, delivery-tag "t", message-format 0, settled */
  CHECK(strcmp(ask("inject 0000001602000000005314c00905524d43a001744341"), "done") == 0, "control");
  WAIT(pn_session_state(client->session) & PN_REMOTE_CLOSED, "the end of the session");
  is_condition(pn_session_remote_condition(client->session), "amqp:session:unattached-handle", "");
  client = connect_plain();
  sender(client, queue("q", ""));
  /* attach: name "again", handle 0, role sender */
  CHECK(strcmp(ask("inject 0000001702000000005312c00a03a105616761696e4342"), "done") == 0, "control");
  WAIT(pn_session_state(client->session) & PN_REMOTE_CLOSED, "the end of the session");
  is_condition(pn_session_remote_condition(client->session), "amqp:session:handle-in-use", "");
}

const entry_t ERRORS[] = {
  {"exclusive", exclusive}, {"queue_deleted", queue_deleted}, {"not_found", not_found}, {"bad_address", bad_address},
  {"unauthorized", unauthorized}, {"user_id", user_id}, {"message_too_large", message_too_large},
  {"bad_annotation", bad_annotation}, {"settle_mode_second", settle_mode_second}, {"framing_error", framing_error},
  {"session_errors", session_errors}, {0}};
