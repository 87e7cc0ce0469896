/* What the scenarios share: connections that are driven until something holds, checks, and the lines to the harness. */
#ifndef SESSION_H
#define SESSION_H

#include <proton/connection_driver.h>
#include <proton/engine.h>
#include <proton/message.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TEXT_MAX 1024

/* A delivery with its bytes and their message. */
typedef struct {
  pn_delivery_t *delivery;
  char *data;
  size_t size;
  pn_message_t *message;
} received_t;

/* What came over a receiver and wasn't taken yet. */
typedef struct {
  received_t *items;
  size_t count, room;
} inbox_t;

typedef struct {
  pn_connection_driver_t driver;
  int socket;
  bool gone;
  pn_connection_t *connection;
  pn_session_t *session;
} client_t;

typedef struct {
  const char *user, *password, *mechanisms, *hostname;
  uint32_t max_frame_size;
  uint32_t idle_timeout_ms;
} options_t;

extern const char *scenario;
extern char prefix[TEXT_MAX];
/* Where this program and the examples are. */
extern char folder[TEXT_MAX];

void setup(int argc, char **argv);
/* Where the broker is. */
void where(char *to_host, char *to_port);
bool over_tls(void);
/* The scenario's end with a reason. */
void fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
#define CHECK(condition, ...) do { if (!(condition)) fail(__VA_ARGS__); } while (0)

/* Prints a line and waits for the answer, which stands until the next call. */
const char *ask(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A request of the 0-9-1 peer: the members of its JSON object. */
const char *peer(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Declares the durable queue PREFIX.name with these arguments as JSON; the address. */
const char *queue(const char *name, const char *arguments);
/* PREFIX.name */
const char *named(const char *name);
int count(const char *name);

client_t *connect_with(options_t options);
client_t *connect_plain(void);
void await_end(client_t *client);
void close_client(client_t *client);
pn_session_t *begin(client_t *client);
void pump(void);
void flush(client_t *client);
#define WAIT(condition, what) do { deadline_t at = patience(); while (!(condition)) { pump_until(at, what); } } while (0)
typedef int64_t deadline_t;
deadline_t patience(void);
void pump_until(deadline_t at, const char *what);

/* Links whose terminus may still be changed; `attach` opens them. */
pn_link_t *new_sender(pn_session_t *session, const char *target);
pn_link_t *new_receiver(pn_session_t *session, const char *source);
pn_link_t *attach(pn_link_t *link);
/* Opens a link that must be refused with this condition. */
void refused(pn_link_t *link, const char *condition, const char *words);
pn_link_t *sender(client_t *client, const char *target);
pn_link_t *receiver(client_t *client, const char *source);
bool ended(pn_link_t *link);
void detach(pn_link_t *link);
void end(pn_session_t *session);
void is_condition(pn_condition_t *condition, const char *name, const char *words);

/* A message with one data section, durable. The caller may change it; `deliver` frees it. */
pn_message_t *text(const char *format, ...) __attribute__((format(printf, 1, 2)));
pn_delivery_t *start(pn_link_t *link, pn_message_t *message);
pn_delivery_t *start_raw(pn_link_t *link, const char *data, size_t size);
/* Waits for the state of a delivery. */
uint64_t state_of(pn_delivery_t *delivery);
/* Sends, waits, settles; the outcome. */
uint64_t deliver(pn_link_t *link, pn_message_t *message);
void accepted(pn_link_t *link, pn_message_t *message);

/* The next message of a receiver, which must have the credit. Its text in `body`. */
received_t take(pn_link_t *link);
received_t take_text(pn_link_t *link, const char *format, ...) __attribute__((format(printf, 2, 3)));
size_t waiting(pn_link_t *link);
void settle(received_t received, uint64_t state);
received_t get(client_t *client, const char *source);
const char *body(received_t received);
/* Drains; what came stays in the inbox. */
void drain(pn_link_t *link, int credit);
/* The value of a symbol key in the message annotations, as text; "" when it isn't there. */
const char *annotation(received_t received, const char *key);
bool id_is(pn_msgid_t id, const char *text);
/* Any composite as the library prints it. */
const char *shown(pn_data_t *data);

typedef struct {
  const char *name;
  void (*run)(void);
} entry_t;

extern const entry_t CONNECTING[], SENDING[], RECEIVING[], REPLIES[], ERRORS[];

#endif
