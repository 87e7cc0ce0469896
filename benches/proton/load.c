/* A sender or a receiver of AMQP 1.0 by the proton library: the load that quiver makes, with the delay of every message.
 *
 *   load send    HOST PORT ADDRESS COUNT
 *   load receive HOST PORT ADDRESS COUNT CREDIT [lines]
 *
 * The sender sends as fast as it gets credit. A message is durable, and its 12 bytes hold the time at which it was sent. With
 * `lines` the receiver writes a line for each message to its standard output, as quiver's does, and is slower for it. At the
 * end each writes one line to its standard error: messages per second, and the receiver the delays in microseconds. */

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <proton/condition.h>
#include <proton/connection.h>
#include <proton/delivery.h>
#include <proton/link.h>
#include <proton/proactor.h>
#include <proton/sasl.h>
#include <proton/session.h>
#include <proton/transport.h>

enum { BODY = 12, MESSAGE = 12 + BODY };

/* header with durable = true; then a data section, whose bytes follow. */
static const uint8_t HEAD[12] = {0x00, 0x53, 0x70, 0xc0, 0x02, 0x01, 0x41, 0x00, 0x53, 0x75, 0xa0, BODY};

static struct {
  bool sends, lines;
  const char *address;
  uint64_t count, done, settled;
  int credit;
  uint64_t first, last;
  uint32_t *delays;
  int failed;
} run;

static uint64_t now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void send_what_credit_allows(pn_link_t *link) {
  while (pn_link_credit(link) > 0 && run.done < run.count) {
    uint64_t tag = run.done++, now = now_ns();
    uint8_t message[MESSAGE] = {0};
    if (run.first == 0) run.first = now;
    memcpy(message, HEAD, sizeof HEAD);
    memcpy(message + sizeof HEAD, &now, sizeof now);
    pn_delivery(link, pn_dtag((const char *)&tag, sizeof tag));
    pn_link_send(link, (const char *)message, sizeof message);
    pn_link_advance(link);
  }
}

static void receive(pn_link_t *link, pn_delivery_t *delivery) {
  uint8_t message[512];
  ssize_t length = pn_link_recv(link, (char *)message, sizeof message);
  if (length < BODY) {
    fprintf(stderr, "a message of %zd bytes, at least %d expected\n", length, BODY);
    run.failed = 1;
    return;
  }
  uint64_t sent, now = now_ns();
  memcpy(&sent, message + length - BODY, sizeof sent);
  if (run.first == 0) run.first = now;
  run.last = now;
  uint64_t delay = (now - sent) / 1000;
  if (run.done < run.count) run.delays[run.done] = delay > UINT32_MAX ? UINT32_MAX : (uint32_t)delay;
  run.done++;
  if (run.lines) printf("%" PRIu64 ",%" PRIu64 ",%" PRIu64 "\n", run.done, sent, now);
  pn_delivery_update(delivery, PN_ACCEPTED);
  pn_delivery_settle(delivery);
  int credit = pn_link_credit(link);
  if (credit <= run.credit / 2) pn_link_flow(link, run.credit - credit);
}

static void check(pn_event_t *event, pn_condition_t *condition) {
  if (!pn_condition_is_set(condition)) return;
  fprintf(stderr, "%s: %s: %s\n", pn_event_type_name(pn_event_type(event)), pn_condition_get_name(condition),
          pn_condition_get_description(condition));
  pn_connection_close(pn_event_connection(event));
  run.failed = 1;
}

/* Handles an event; false when the connection is over. */
static bool handle(pn_event_t *event) {
  pn_connection_t *connection = pn_event_connection(event);
  switch (pn_event_type(event)) {
    case PN_CONNECTION_INIT: {
      pn_connection_set_container(connection, run.sends ? "load-sender" : "load-receiver");
      pn_connection_open(connection);
      pn_session_t *session = pn_session(connection);
      pn_session_open(session);
      pn_link_t *link = run.sends ? pn_sender(session, "load") : pn_receiver(session, "load");
      pn_terminus_set_address(run.sends ? pn_link_target(link) : pn_link_source(link), run.address);
      pn_link_set_snd_settle_mode(link, PN_SND_UNSETTLED);
      pn_link_open(link);
      if (!run.sends) pn_link_flow(link, run.credit);
      break;
    }
    case PN_LINK_FLOW:
      if (run.sends) send_what_credit_allows(pn_event_link(event));
      break;
    case PN_DELIVERY: {
      pn_delivery_t *delivery = pn_event_delivery(event);
      if (!run.sends) {
        if (pn_delivery_readable(delivery) && !pn_delivery_partial(delivery)) receive(pn_event_link(event), delivery);
        if (run.done == run.count) pn_connection_close(connection);
      } else if (pn_delivery_updated(delivery)) {
        if (pn_delivery_remote_state(delivery) != PN_ACCEPTED) {
          fprintf(stderr, "a message got outcome 0x%" PRIx64 "\n", pn_delivery_remote_state(delivery));
          run.failed = 1;
        }
        pn_delivery_settle(delivery);
        run.last = now_ns();
        if (++run.settled == run.count) pn_connection_close(connection);
      }
      break;
    }
    case PN_CONNECTION_REMOTE_CLOSE:
      check(event, pn_connection_remote_condition(connection));
      pn_connection_close(connection);
      break;
    case PN_SESSION_REMOTE_CLOSE:
      check(event, pn_session_remote_condition(pn_event_session(event)));
      break;
    case PN_LINK_REMOTE_CLOSE:
    case PN_LINK_REMOTE_DETACH:
      check(event, pn_link_remote_condition(pn_event_link(event)));
      break;
    case PN_TRANSPORT_CLOSED:
      check(event, pn_transport_condition(pn_event_transport(event)));
      break;
    case PN_PROACTOR_INACTIVE:
      return false;
    default:
      break;
  }
  return true;
}

static int compare(const void *one, const void *other) {
  uint32_t a = *(const uint32_t *)one, b = *(const uint32_t *)other;
  return a < b ? -1 : a > b;
}

int main(int argc, char **argv) {
  run.sends = argc > 1 && strcmp(argv[1], "send") == 0;
  if (argc < 6 || (!run.sends && (strcmp(argv[1], "receive") != 0 || argc < 7))) {
    fprintf(stderr, "usage: %s send HOST PORT ADDRESS COUNT | receive HOST PORT ADDRESS COUNT CREDIT [lines]\n", argv[0]);
    return 2;
  }
  run.address = argv[4];
  run.count = strtoull(argv[5], NULL, 10);
  run.credit = run.sends ? 0 : atoi(argv[6]);
  run.lines = !run.sends && argc > 7 && strcmp(argv[7], "lines") == 0;
  run.delays = calloc(run.count + 1, sizeof *run.delays);
  char address[PN_MAX_ADDR];
  pn_proactor_addr(address, sizeof address, argv[2], argv[3]);
  pn_proactor_t *proactor = pn_proactor();
  pn_transport_t *transport = pn_transport();
  pn_sasl_allowed_mechs(pn_sasl(transport), "ANONYMOUS");
  pn_proactor_connect2(proactor, NULL, transport, address);
  for (bool goes_on = true; goes_on;) {
    pn_event_batch_t *events = pn_proactor_wait(proactor);
    for (pn_event_t *event; goes_on && (event = pn_event_batch_next(events));) goes_on = handle(event);
    pn_proactor_done(proactor, events);
  }
  pn_proactor_free(proactor);
  double seconds = (double)(run.last - run.first) / 1e9;
  if (run.sends) {
    fprintf(stderr, "sent %" PRIu64 ", %.0f/s\n", run.settled, (double)run.settled / seconds);
  } else {
    uint64_t kept = run.done < run.count ? run.done : run.count;
    qsort(run.delays, kept, sizeof *run.delays, compare);
    const uint32_t *delays = run.delays;
    fprintf(stderr, "received %" PRIu64 ", %.0f/s, p50 %u us, p99 %u us, p99.9 %u us, max %u us\n", run.done,
            (double)run.done / seconds, delays[kept / 2], delays[kept * 99 / 100], delays[kept * 999 / 1000],
            delays[kept ? kept - 1 : 0]);
  }
  free(run.delays);
  uint64_t answered = run.sends ? run.settled : run.done;
  return run.failed || answered != run.count;
}
