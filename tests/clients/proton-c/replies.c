/* Dynamic nodes, browsing, transactions, and requests to /management. */
#include "session.h"

#include <stdio.h>
#include <string.h>

static void make_dynamic(pn_link_t *link, const char *capability) {
  pn_terminus_t *source = pn_link_source(link);
  pn_terminus_set_dynamic(source, true);
  pn_terminus_set_expiry_policy(source, PN_EXPIRE_WITH_LINK);
  /* An array: RabbitMQ doesn't take the single symbol that the specification allows as well. */
  pn_data_fill(pn_terminus_capabilities(source), "@T[s]", PN_SYMBOL, capability);
}

static pn_link_t *temporary_queue(client_t *client) {
  pn_link_t *link = new_receiver(client->session, NULL);
  make_dynamic(link, "temporary-queue");
  pn_data_fill(pn_terminus_properties(pn_link_source(link)), "{sDL[]}", "lifetime-policy", (uint64_t)0x2b);
  return attach(link);
}

static pn_link_t *volatile_queue(client_t *client) {
  pn_link_t *link = new_receiver(client->session, NULL);
  pn_link_set_snd_settle_mode(link, PN_SND_SETTLED);
  make_dynamic(link, "rabbitmq:volatile-queue");
  return attach(link);
}

static const char *address_of(pn_link_t *link) { return pn_terminus_get_address(pn_link_remote_source(link)); }

static void dynamic_node(void) {
  client_t *client = connect_plain(), *other = connect_plain();
  pn_link_t *link = temporary_queue(client);
  char address[TEXT_MAX];
  snprintf(address, sizeof address, "%s", address_of(link));
  CHECK(strncmp(address, "/queues/", 8) == 0, "address %s", address);
  pn_link_flow(link, 1);
  accepted(sender(other, address), text("hello"));
  take_text(link, "hello");
  refused(new_receiver(begin(other), address), "amqp:resource-locked", "");
  detach(link);
  refused(new_receiver(connect_plain()->session, address), "amqp:not-found", "");
}

static void exchange_requests(pn_link_t *(*answers_of)(client_t *), bool settled) {
  const char *requests = queue("requests", "");
  client_t *client = connect_plain(), *server = connect_plain();
  pn_link_t *answers = answers_of(client), *asking = sender(client, requests);
  pn_link_t *asked = receiver(server, requests), *answering = sender(server, NULL);
  pn_link_flow(answers, 3);
  pn_link_flow(asked, 3);
  for (int n = 0; n < 3; n++) {
    char id[8];
    snprintf(id, sizeof id, "m%d", n);
    pn_message_t *question = text("question %d", n);
    pn_message_set_id(question, (pn_atom_t){.type = PN_STRING, .u.as_bytes = pn_bytes(strlen(id), id)});
    pn_message_set_reply_to(question, address_of(answers));
    accepted(asking, question);
    received_t received = take_text(asked, "question %d", n);
    pn_message_t *answer = text("answer %d", n);
    pn_message_set_address(answer, pn_message_get_reply_to(received.message));
    pn_message_set_correlation_id(answer, pn_message_get_id(received.message));
    accepted(answering, answer);
    settle(received, PN_ACCEPTED);
    received = take_text(answers, "answer %d", n);
    CHECK(id_is(pn_message_get_correlation_id(received.message), id), "correlation-id");
    CHECK(pn_delivery_settled(received.delivery) == settled, "settled");
    if (!settled) settle(received, PN_ACCEPTED);
  }
}

static void request_reply(void) { exchange_requests(temporary_queue, false); }
static void direct_reply_to(void) { exchange_requests(volatile_queue, true); }

static void browse(void) {
  const char *address = queue("q", "");
  client_t *client = connect_plain();
  pn_link_t *out = sender(client, address);
  for (int n = 0; n < 5; n++) accepted(out, text("%d", n));
  for (int round = 0; round < 2; round++) {
    pn_link_t *browser = new_receiver(client->session, address);
    pn_terminus_set_distribution_mode(pn_link_source(browser), PN_DIST_MODE_COPY);
    attach(browser);
    CHECK(pn_terminus_get_distribution_mode(pn_link_remote_source(browser)) == PN_DIST_MODE_COPY, "distribution mode");
    drain(browser, 10);
    for (int n = 0; n < 5; n++) settle(take_text(browser, "%d", n), PN_ACCEPTED);
    CHECK(waiting(browser) == 0, "more than five were browsed");
    detach(browser);
  }
  CHECK(count("q") == 5, "messages after browsing");
  for (int n = 0; n < 5; n++) {
    received_t received = get(client, address);
    CHECK(body(received)[0] == '0' + n, "order");
    CHECK(pn_message_get_delivery_count(received.message) == 0, "delivery-count");
    CHECK(pn_message_is_first_acquirer(received.message), "first-acquirer");
  }
}

enum { DECLARED = 0x33, TRANSACTIONAL = 0x34 };

static pn_bytes_t declare(pn_link_t *control) {
  pn_message_t *message = pn_message();
  pn_data_fill(pn_message_body(message), "DL[n]", (uint64_t)0x31);
  pn_delivery_t *delivery = start(control, message);
  CHECK(state_of(delivery) == DECLARED, "the outcome of declare is 0x%x", (unsigned)state_of(delivery));
  static char id[TEXT_MAX];
  pn_data_t *data = pn_disposition_data(pn_delivery_remote(delivery));
  pn_data_rewind(data);
  pn_data_next(data);
  pn_data_enter(data);
  pn_data_next(data);
  pn_bytes_t found = pn_data_get_binary(data);
  memcpy(id, found.start, found.size);
  pn_delivery_settle(delivery);
  return pn_bytes(found.size, id);
}

static void discharge(pn_link_t *control, pn_bytes_t id, bool failed) {
  pn_message_t *message = pn_message();
  pn_data_fill(pn_message_body(message), "DL[zo]", (uint64_t)0x32, id.size, id.start, failed);
  accepted(control, message);
}

static void transactions(void) {
  const char *address = queue("q", "");
  client_t *client = connect_plain();
  pn_link_t *control = new_sender(client->session, NULL), *out = sender(client, address);
  pn_terminus_set_type(pn_link_target(control), PN_COORDINATOR);
  pn_data_put_symbol(pn_terminus_capabilities(pn_link_target(control)), pn_bytes(23, "amqp:local-transactions"));
  attach(control);
  for (int failed = 1; failed >= 0; failed--) {
    pn_bytes_t id = declare(control);
    for (int n = 1; n <= 2; n++) {
      pn_delivery_t *delivery = start(out, text("%d", n));
      pn_data_fill(pn_disposition_data(pn_delivery_local(delivery)), "[z]", id.size, id.start);
      pn_delivery_update(delivery, TRANSACTIONAL);
      CHECK(state_of(delivery) == TRANSACTIONAL, "state 0x%x", (unsigned)state_of(delivery));
      pn_delivery_settle(delivery);
    }
    pn_link_t *in = receiver(client, address);
    drain(in, 5);
    CHECK(waiting(in) == 0, "a message before the discharge");
    detach(in);
    discharge(control, id, failed);
    CHECK(count("q") == (failed ? 0 : 2), "messages after the discharge");
  }
  for (int failed = 1; failed >= 0; failed--) {
    pn_link_t *in = receiver(client, address);
    pn_link_flow(in, 1);
    received_t received = take_text(in, "1");
    pn_bytes_t id = declare(control);
    pn_data_fill(pn_disposition_data(pn_delivery_local(received.delivery)), "[zDL[]]", id.size, id.start,
                 (uint64_t)PN_ACCEPTED);
    pn_delivery_update(received.delivery, TRANSACTIONAL);
    discharge(control, id, failed);
    detach(in);
    CHECK(count("q") == (failed ? 2 : 1), "messages after the discharge of an acceptance");
  }
}

static pn_link_t *requests, *answers;

static void open_pair(client_t *client) {
  requests = pn_sender(client->session, "pair");
  answers = new_receiver(client->session, "/management");
  pn_link_t *named_alike = pn_receiver(client->session, "pair");
  pn_link_set_context(named_alike, pn_link_get_context(answers));
  pn_link_free(answers);
  answers = named_alike;
  pn_link_t *both[] = {requests, answers};
  for (int i = 0; i < 2; i++) {
    pn_terminus_set_address(pn_link_source(both[i]), "/management");
    pn_terminus_set_address(pn_link_target(both[i]), "/management");
    pn_link_set_snd_settle_mode(both[i], PN_SND_SETTLED);
    pn_data_fill(pn_link_properties(both[i]), "{so}", "paired", true);
    attach(both[i]);
  }
}

/* A request whose body the caller has filled; the answer, whose status must be this. */
static received_t call(pn_message_t *request, const char *method, const char *path, int status) {
  static int number;
  char id[16];
  snprintf(id, sizeof id, "r%d", number++);
  pn_message_set_id(request, (pn_atom_t){.type = PN_STRING, .u.as_bytes = pn_bytes(strlen(id), id)});
  pn_message_set_address(request, path);
  pn_message_set_subject(request, method);
  pn_message_set_reply_to(request, "$me");
  pn_link_flow(answers, 1);
  pump();
  pn_delivery_settle(start(requests, request));
  received_t answer = take(answers);
  CHECK(id_is(pn_message_get_correlation_id(answer.message), id), "correlation-id");
  char expected[8];
  snprintf(expected, sizeof expected, "%d", status);
  CHECK(strcmp(pn_message_get_subject(answer.message), expected) == 0, "%s %s: %s (%s), expected %d", method, path,
        pn_message_get_subject(answer.message), shown(pn_message_body(answer.message)), status);
  return answer;
}

static pn_message_t *nothing(void) {
  pn_message_t *request = pn_message();
  pn_data_put_null(pn_message_body(request));
  return request;
}

static pn_message_t *queue_of(bool durable) {
  pn_message_t *request = pn_message();
  pn_data_fill(pn_message_body(request), "{SoSoSoS{}}", "durable", durable, "exclusive", false, "auto_delete", false,
               "arguments");
  return request;
}

static pn_message_t *exchange_of(const char *type) {
  pn_message_t *request = pn_message();
  pn_data_fill(pn_message_body(request), "{SSSoSoSoS{}}", "type", type, "durable", true, "auto_delete", false,
               "internal", false, "arguments");
  return request;
}

static bool has(received_t answer, const char *words) {
  return strstr(shown(pn_message_body(answer.message)), words) != NULL;
}

static void management(void) {
  client_t *client = connect_plain();
  open_pair(client);
  char queue_path[TEXT_MAX], purge_path[TEXT_MAX], exchange_path[TEXT_MAX], query[TEXT_MAX], target[TEXT_MAX];
  const char *name = named("q"), *exchange = named("x");
  snprintf(queue_path, sizeof queue_path, "/queues/%.500s", name);
  snprintf(purge_path, sizeof purge_path, "/queues/%.500s/messages", name);
  snprintf(exchange_path, sizeof exchange_path, "/exchanges/%.500s", exchange);
  snprintf(query, sizeof query, "/bindings?src=%.300s&dstq=%.300s&key=k", exchange, name);
  snprintf(target, sizeof target, "/exchanges/%.500s/k", exchange);
  call(queue_of(true), "PUT", queue_path, 201);
  call(queue_of(true), "PUT", queue_path, 200);
  received_t info = call(nothing(), "GET", queue_path, 200);
  CHECK(has(info, name) && has(info, "classic"), "%s", shown(pn_message_body(info.message)));
  call(exchange_of("direct"), "PUT", exchange_path, 204);
  pn_message_t *binding = pn_message();
  pn_data_fill(pn_message_body(binding), "{SSSSSSS{}}", "source", exchange, "destination_queue", name, "binding_key",
               "k", "arguments");
  call(binding, "POST", "/bindings", 204);
  CHECK(has(call(nothing(), "GET", query, 200), "location"), "no binding is listed");
  pn_link_t *link = sender(client, target);
  accepted(link, text("x"));
  CHECK(has(call(nothing(), "DELETE", purge_path, 200), "message_count\"=1"), "purge");
  char location[TEXT_MAX];
  snprintf(location, sizeof location, "/bindings/src=%.300s;dstq=%.300s;key=k;args=", exchange, name);
  call(nothing(), "DELETE", location, 204);
  call(nothing(), "DELETE", location, 204);
  CHECK(deliver(link, text("x")) == PN_RELEASED, "outcome of an unbound key");
  detach(link);
  call(nothing(), "DELETE", exchange_path, 204);
  CHECK(has(call(nothing(), "DELETE", queue_path, 200), "message_count\"=0"), "delete");
  call(nothing(), "GET", queue_path, 404);
}

static void management_errors(void) {
  client_t *client = connect_plain();
  open_pair(client);
  const char *path = queue("q", "");
  char exchange_path[TEXT_MAX], missing[TEXT_MAX], purge[TEXT_MAX];
  snprintf(exchange_path, sizeof exchange_path, "/exchanges/%.500s", named("x"));
  snprintf(missing, sizeof missing, "/queues/%.500s", named("missing"));
  snprintf(purge, sizeof purge, "/queues/%.500s/messages", named("missing"));
  call(exchange_of("direct"), "PUT", exchange_path, 204);
  CHECK(has(call(queue_of(false), "PUT", path, 409), "durable"), "words of 409");
  CHECK(has(call(exchange_of("fanout"), "PUT", exchange_path, 409), "type"), "words of 409");
  CHECK(has(call(nothing(), "GET", missing, 404), named("missing")), "words of 404");
  call(nothing(), "DELETE", purge, 404);
  pn_message_t *request = pn_message();
  pn_data_fill(pn_message_body(request), "{SoS{Sl}}", "durable", true, "arguments", "x-max-length", (int64_t)-1);
  CHECK(has(call(request, "PUT", missing, 409), "x-max-length"), "words of 409");
  call(queue_of(true), "PUT", "/queues/amq.mine", 403);
  call(nothing(), "DELETE", "/exchanges/amq.default", 403);
  pn_link_t *unpaired = new_sender(begin(client), "/management");
  pn_link_set_snd_settle_mode(unpaired, PN_SND_SETTLED);
  refused(unpaired, "amqp:invalid-field", "");
  call(nothing(), "GET", path, 200);
}

const entry_t REPLIES[] = {
  {"dynamic_node", dynamic_node}, {"request_reply", request_reply}, {"direct_reply_to", direct_reply_to},
  {"browse", browse}, {"transactions", transactions}, {"management", management},
  {"management_errors", management_errors}, {0}};
