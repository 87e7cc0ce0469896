#include "session.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <proton/sasl.h>
#include <proton/ssl.h>
#include <proton/transport.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CLIENTS_MAX 16
#define PATIENCE_MS 30000

const char *scenario;
char prefix[TEXT_MAX], folder[TEXT_MAX];

static char host[TEXT_MAX], port[TEXT_MAX];
/* What is trusted over TLS; NULL without it. */
static pn_ssl_domain_t *trusted;
static client_t *clients[CLIENTS_MAX];
static size_t clients_count;

void setup(int argc, char **argv) {
  if (argc != 5) fail("usage: proton-c URI HTTP_URI CONTROL SCENARIO");
  scenario = argv[4];
  const char *authority = strchr(argv[1], '@');
  if (!authority || sscanf(authority, "@%1000[^:]:%1000[0-9]", host, port) != 2) fail("no host and port in %s", argv[1]);
  const char *authority_file = getenv("LEVERET_TEST_CA");
  if (authority_file) {
    trusted = pn_ssl_domain(PN_SSL_MODE_CLIENT);
    CHECK(trusted && pn_ssl_domain_set_trusted_ca_db(trusted, authority_file) == 0 &&
          pn_ssl_domain_set_peer_authentication(trusted, PN_SSL_VERIFY_PEER_NAME, NULL) == 0, "no TLS");
  }
  const char *slash = strrchr(argv[0], '/');
  snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - argv[0]) : 1, slash ? argv[0] : ".");
  snprintf(prefix, sizeof prefix, "cell.%s.%d", scenario, (int)getpid());
}

bool over_tls(void) { return trusted; }

void where(char *to_host, char *to_port) {
  strcpy(to_host, host);
  strcpy(to_port, port);
}

void fail(const char *format, ...) {
  char reason[4096];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(reason, sizeof reason, format, arguments);
  va_end(arguments);
  for (char *c = reason; *c; c++) {
    if (*c == '\n') *c = ' ';
  }
  printf("fail %s: %s\n", scenario, reason);
  fflush(stdout);
  _exit(1);
}

/* Texts that stand for a while: a ring of buffers. */
static char *scratch(void) {
  static char ring[64][TEXT_MAX];
  static size_t next;
  return ring[next++ % 64];
}

const char *ask(const char *format, ...) {
  static char answer[65536];
  va_list arguments;
  va_start(arguments, format);
  vprintf(format, arguments);
  va_end(arguments);
  printf("\n");
  fflush(stdout);
  CHECK(fgets(answer, sizeof answer, stdin), "the harness doesn't answer");
  answer[strcspn(answer, "\n")] = 0;
  return answer;
}

const char *peer(const char *format, ...) {
  char request[8192];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(request, sizeof request, format, arguments);
  va_end(arguments);
  const char *answer = ask("peer {%s}", request);
  CHECK(!strstr(answer, "\"error\""), "peer {%s}: %s", request, answer);
  return answer;
}

/* Names and addresses stand to the end. */
static char *kept(const char *before, const char *name) {
  char *text = malloc(TEXT_MAX);
  snprintf(text, TEXT_MAX, "%s%.500s.%.500s", before, prefix, name);
  return text;
}

const char *named(const char *name) { return kept("", name); }

const char *queue(const char *name, const char *arguments) {
  peer("\"do\":\"declare\",\"queue\":\"%s\",\"arguments\":{%s}", named(name), arguments);
  return kept("/queues/", name);
}

int count(const char *name) {
  const char *answer = peer("\"do\":\"count\",\"queue\":\"%s\"", named(name));
  const char *number = strstr(answer, "\"messages\":");
  CHECK(number, "%s", answer);
  return atoi(number + strlen("\"messages\":"));
}

static int64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

client_t *connect_with(options_t options) {
  client_t *client = calloc(1, sizeof *client);
  CHECK(client && clients_count < CLIENTS_MAX, "too many connections");
  pn_connection_driver_init(&client->driver, NULL, NULL);
  client->connection = client->driver.connection;
  char container[TEXT_MAX];
  snprintf(container, sizeof container, "%.500s.%zu", prefix, clients_count);
  pn_connection_set_container(client->connection, container);
  pn_connection_set_hostname(client->connection, options.hostname ? options.hostname : "localhost");
  if (options.user) pn_connection_set_user(client->connection, options.user);
  if (options.password) pn_connection_set_password(client->connection, options.password);
  pn_transport_t *transport = client->driver.transport;
  if (options.max_frame_size) pn_transport_set_max_frame(transport, options.max_frame_size);
  if (options.idle_timeout_ms) pn_transport_set_idle_timeout(transport, options.idle_timeout_ms);
  if (trusted) {
    pn_ssl_t *ssl = pn_ssl(transport);
    CHECK(ssl && pn_ssl_init(ssl, trusted, NULL) == 0, "no TLS");
    pn_ssl_set_peer_hostname(ssl, host);
  }
  pn_sasl_t *sasl = pn_sasl(transport);
  pn_sasl_set_allow_insecure_mechs(sasl, true);
  pn_sasl_allowed_mechs(sasl, options.mechanisms ? options.mechanisms : "PLAIN");
  struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found;
  CHECK(getaddrinfo(host, port, &hints, &found) == 0, "no address for %s", host);
  client->socket = socket(found->ai_family, found->ai_socktype, 0);
  CHECK(connect(client->socket, found->ai_addr, found->ai_addrlen) == 0, "connect: %s", strerror(errno));
  freeaddrinfo(found);
  int one = 1;
  setsockopt(client->socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  clients[clients_count++] = client;
  pn_connection_open(client->connection);
  return client;
}

client_t *connect_plain(void) {
  client_t *client = connect_with((options_t){.user = "guest", .password = "guest"});
  WAIT(!(pn_connection_state(client->connection) & PN_REMOTE_UNINIT) || client->gone, "open");
  CHECK(!client->gone, "the connection wasn't opened");
  client->session = begin(client);
  return client;
}

void await_end(client_t *client) { WAIT(client->gone, "the end of the connection"); }

void close_client(client_t *client) {
  pn_connection_close(client->connection);
  await_end(client);
}

pn_session_t *begin(client_t *client) {
  pn_session_t *session = pn_session(client->connection);
  pn_session_open(session);
  WAIT(!(pn_session_state(session) & PN_REMOTE_UNINIT) || client->gone, "begin");
  CHECK(!client->gone, "the connection ended instead of a begin");
  return session;
}

static void keep(pn_delivery_t *delivery) {
  pn_link_t *link = pn_delivery_link(delivery);
  if (!pn_link_is_receiver(link) || !pn_delivery_readable(delivery) || pn_delivery_partial(delivery)) return;
  inbox_t *inbox = pn_link_get_context(link);
  if (inbox->count == inbox->room) {
    inbox->room = inbox->room ? inbox->room * 2 : 16;
    inbox->items = realloc(inbox->items, inbox->room * sizeof *inbox->items);
  }
  received_t received = {.delivery = delivery, .size = pn_delivery_pending(delivery)};
  received.data = malloc(received.size + 1);
  pn_link_recv(link, received.data, received.size);
  pn_link_advance(link);
  received.message = pn_message();
  CHECK(pn_message_decode(received.message, received.data, received.size) == 0, "a message can't be decoded");
  inbox->items[inbox->count++] = received;
}

static void handle(client_t *client, pn_event_t *event) {
  switch (pn_event_type(event)) {
    case PN_CONNECTION_REMOTE_CLOSE:
      client->gone = true;
      pn_connection_close(client->connection);
      break;
    case PN_TRANSPORT_CLOSED:
      client->gone = true;
      break;
    case PN_SESSION_REMOTE_CLOSE:
      pn_session_close(pn_event_session(event));
      break;
    case PN_LINK_REMOTE_CLOSE:
      pn_link_close(pn_event_link(event));
      break;
    case PN_DELIVERY:
      keep(pn_event_delivery(event));
      break;
    default:
      break;
  }
}

static void dispatch(client_t *client) {
  pn_event_t *event;
  while ((event = pn_connection_driver_next_event(&client->driver))) handle(client, event);
}

static void write_all(client_t *client) {
  for (;;) {
    pn_bytes_t bytes = pn_connection_driver_write_buffer(&client->driver);
    if (!bytes.size) return;
    ssize_t sent = send(client->socket, bytes.start, bytes.size, MSG_NOSIGNAL);
    if (sent < 0) {
      pn_connection_driver_write_close(&client->driver);
      return;
    }
    pn_connection_driver_write_done(&client->driver, (size_t)sent);
  }
}

/* One round: what is to be written, then what has come, or comes within a moment. */
void pump(void) {
  struct pollfd polls[CLIENTS_MAX];
  for (size_t i = 0; i < clients_count; i++) {
    client_t *client = clients[i];
    dispatch(client);
    pn_transport_tick(client->driver.transport, now_ms());
    write_all(client);
    dispatch(client);
    bool open = pn_connection_driver_read_buffer(&client->driver).size > 0;
    polls[i] = (struct pollfd){.fd = open ? client->socket : -1, .events = POLLIN};
  }
  poll(polls, clients_count, 100);
  for (size_t i = 0; i < clients_count; i++) {
    client_t *client = clients[i];
    if (!polls[i].revents) continue;
    pn_rwbytes_t room = pn_connection_driver_read_buffer(&client->driver);
    ssize_t came = recv(client->socket, room.start, room.size, 0);
    if (came > 0) {
      pn_connection_driver_read_done(&client->driver, (size_t)came);
    } else {
      pn_connection_driver_read_close(&client->driver);
    }
    dispatch(client);
    if (came <= 0) client->gone = true;
  }
}

deadline_t patience(void) { return now_ms() + PATIENCE_MS; }

void pump_until(deadline_t at, const char *what) {
  CHECK(now_ms() < at, "%s: nothing came", what);
  pump();
}

void flush(client_t *client) {
  do {
    dispatch(client);
    write_all(client);
  } while (pn_connection_driver_write_buffer(&client->driver).size > 0);
}

static const char *unique(void) {
  static int number;
  char *text = scratch();
  snprintf(text, TEXT_MAX, "link-%d", number++);
  return text;
}

pn_link_t *new_sender(pn_session_t *session, const char *target) {
  pn_link_t *link = pn_sender(session, unique());
  if (target) {
    pn_terminus_set_address(pn_link_target(link), target);
  } else {
    pn_terminus_set_type(pn_link_target(link), PN_TARGET);
  }
  return link;
}

pn_link_t *new_receiver(pn_session_t *session, const char *source) {
  pn_link_t *link = pn_receiver(session, unique());
  if (source) pn_terminus_set_address(pn_link_source(link), source);
  pn_link_set_context(link, calloc(1, sizeof(inbox_t)));
  return link;
}

bool ended(pn_link_t *link) {
  return pn_link_state(link) & PN_REMOTE_CLOSED || pn_session_state(pn_link_session(link)) & PN_REMOTE_CLOSED ||
         pn_connection_state(pn_session_connection(pn_link_session(link))) & PN_REMOTE_CLOSED;
}

static pn_condition_t *why(pn_link_t *link) {
  pn_session_t *session = pn_link_session(link);
  if (pn_condition_is_set(pn_link_remote_condition(link))) return pn_link_remote_condition(link);
  if (pn_condition_is_set(pn_session_remote_condition(session))) return pn_session_remote_condition(session);
  return pn_connection_remote_condition(pn_session_connection(session));
}

static const char *reason(pn_link_t *link) {
  const char *text = pn_condition_get_description(why(link));
  return text ? text : "no reason";
}

/* A refusal is an attach without terminus, followed by a detach with the reason. */
static void open_link(pn_link_t *link) {
  pn_link_open(link);
  pn_terminus_t *terminus = pn_link_is_receiver(link) ? pn_link_remote_source(link) : pn_link_remote_target(link);
  WAIT(ended(link) || (!(pn_link_state(link) & PN_REMOTE_UNINIT) && pn_terminus_get_type(terminus) != PN_UNSPECIFIED),
       "attach");
}

pn_link_t *attach(pn_link_t *link) {
  open_link(link);
  CHECK(!ended(link), "attach was refused: %s", reason(link));
  return link;
}

void is_condition(pn_condition_t *condition, const char *name, const char *words) {
  CHECK(pn_condition_is_set(condition), "%s expected, ended without an error", name);
  const char *description = pn_condition_get_description(condition);
  CHECK(strcmp(pn_condition_get_name(condition), name) == 0, "%s (%s), expected %s", pn_condition_get_name(condition),
        description, name);
  CHECK(strstr(description ? description : "", words), "'%s' doesn't have '%s'", description, words);
}

void refused(pn_link_t *link, const char *condition, const char *words) {
  if (!(pn_link_state(link) & PN_LOCAL_ACTIVE) && !(pn_link_state(link) & PN_LOCAL_CLOSED)) open_link(link);
  WAIT(ended(link), condition);
  is_condition(why(link), condition, words);
}

pn_link_t *sender(client_t *client, const char *target) { return attach(new_sender(client->session, target)); }
pn_link_t *receiver(client_t *client, const char *source) { return attach(new_receiver(client->session, source)); }

void detach(pn_link_t *link) {
  pn_link_close(link);
  WAIT(ended(link), "detach");
}

void end(pn_session_t *session) {
  pn_session_close(session);
  WAIT(pn_session_state(session) & PN_REMOTE_CLOSED, "end");
}

pn_message_t *text(const char *format, ...) {
  static char words[1 << 18];
  va_list arguments;
  va_start(arguments, format);
  int size = vsnprintf(words, sizeof words, format, arguments);
  va_end(arguments);
  pn_message_t *message = pn_message();
  pn_message_set_durable(message, true);
  pn_message_set_inferred(message, true);
  pn_data_put_binary(pn_message_body(message), pn_bytes((size_t)size, words));
  return message;
}

static pn_delivery_t *next_delivery(pn_link_t *link) {
  static uint64_t tag;
  WAIT(pn_link_credit(link) > 0 || ended(link), "credit to send");
  CHECK(!ended(link), "the link ended: %s", reason(link));
  tag++;
  return pn_delivery(link, pn_dtag((const char *)&tag, sizeof tag));
}

pn_delivery_t *start(pn_link_t *link, pn_message_t *message) {
  pn_delivery_t *delivery = next_delivery(link);
  pn_message_send(message, link, NULL);
  pn_message_free(message);
  return delivery;
}

pn_delivery_t *start_raw(pn_link_t *link, const char *data, size_t size) {
  pn_delivery_t *delivery = next_delivery(link);
  pn_link_send(link, data, size);
  pn_link_advance(link);
  return delivery;
}

uint64_t state_of(pn_delivery_t *delivery) {
  pn_link_t *link = pn_delivery_link(delivery);
  WAIT(pn_delivery_remote_state(delivery) || pn_delivery_settled(delivery) || ended(link), "an outcome");
  return pn_delivery_remote_state(delivery);
}

uint64_t deliver(pn_link_t *link, pn_message_t *message) {
  pn_delivery_t *delivery = start(link, message);
  uint64_t state = state_of(delivery);
  pn_delivery_settle(delivery);
  return state;
}

void accepted(pn_link_t *link, pn_message_t *message) {
  uint64_t state = deliver(link, message);
  CHECK(state == PN_ACCEPTED, "outcome 0x%x (%s)", (unsigned)state, ended(link) ? reason(link) : "open");
}

size_t waiting(pn_link_t *link) { return ((inbox_t *)pn_link_get_context(link))->count; }

received_t take(pn_link_t *link) {
  inbox_t *inbox = pn_link_get_context(link);
  WAIT(inbox->count > 0 || ended(link), "a delivery");
  CHECK(inbox->count > 0, "the link ended: %s", reason(link));
  received_t received = inbox->items[0];
  memmove(inbox->items, inbox->items + 1, --inbox->count * sizeof *inbox->items);
  return received;
}

const char *body(received_t received) {
  pn_data_t *data = pn_message_body(received.message);
  pn_data_rewind(data);
  if (!pn_data_next(data) || pn_data_type(data) != PN_BINARY) return "no data section";
  pn_bytes_t bytes = pn_data_get_binary(data);
  char *text = scratch();
  snprintf(text, TEXT_MAX, "%.*s", (int)bytes.size, bytes.start);
  return text;
}

received_t take_text(pn_link_t *link, const char *format, ...) {
  char words[TEXT_MAX];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(words, sizeof words, format, arguments);
  va_end(arguments);
  received_t received = take(link);
  CHECK(strcmp(body(received), words) == 0, "'%s' came, expected '%s'", body(received), words);
  return received;
}

void settle(received_t received, uint64_t state) {
  pn_delivery_update(received.delivery, state);
  pn_delivery_settle(received.delivery);
}

received_t get(client_t *client, const char *source) {
  pn_link_t *link = receiver(client, source);
  pn_link_flow(link, 1);
  received_t received = take(link);
  settle(received, PN_ACCEPTED);
  detach(link);
  return received;
}

void drain(pn_link_t *link, int credit) {
  pn_link_drain(link, credit);
  WAIT(!pn_link_draining(link) || ended(link), "the end of a drain");
}

bool id_is(pn_msgid_t id, const char *text) {
  return id.type == PN_STRING && id.u.as_bytes.size == strlen(text) &&
         memcmp(id.u.as_bytes.start, text, id.u.as_bytes.size) == 0;
}

const char *shown(pn_data_t *data) {
  char *text = scratch();
  size_t size = TEXT_MAX - 1;
  pn_data_rewind(data);
  pn_data_format(data, text, &size);
  text[size] = 0;
  return text;
}

const char *annotation(received_t received, const char *key) {
  pn_data_t *data = pn_message_annotations(received.message);
  pn_data_rewind(data);
  if (!pn_data_next(data)) return "";
  size_t entries = pn_data_get_map(data);
  pn_data_enter(data);
  for (size_t i = 0; i < entries; i++) {
    pn_data_next(data);
    pn_bytes_t found = pn_data_get_bytes(data);
    bool match = i % 2 == 0 && found.size == strlen(key) && memcmp(found.start, key, found.size) == 0;
    if (match && pn_data_next(data)) {
      char *text = scratch();
      pn_bytes_t value = pn_data_get_bytes(data);
      snprintf(text, TEXT_MAX, "%.*s", (int)value.size, value.start);
      return text;
    }
  }
  return "";
}
