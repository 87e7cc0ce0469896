/* Senders, the outcomes that they get, and what a message carries. */
#define _GNU_SOURCE
#include "session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The library's own examples: 100 messages out and back. */
static void examples(void) {
  char host[TEXT_MAX], port[TEXT_MAX], command[8 * TEXT_MAX];
  where(host, port);
  const char *programs[] = {"send", "receive"}, *address = queue("examples", "");
  for (int i = 0; i < 2; i++) {
    snprintf(command, sizeof command, "%s/proton-%s %s %s %s 100 >&2", folder, programs[i], host, port, address);
    CHECK(system(command) == 0, "%s", command);
    CHECK(count("examples") == (i ? 0 : 100), "messages after %s", programs[i]);
  }
}

static void publish(void) {
  /* The examples don't know TLS. */
  if (!over_tls()) examples();
  const char *address = queue("q", "");
  client_t *client = connect_plain();
  pn_link_t *link = sender(client, address);
  pn_delivery_t *deliveries[100];
  for (int n = 0; n < 100; n++) deliveries[n] = start(link, text("%d", n));
  for (int n = 0; n < 100; n++) {
    CHECK(state_of(deliveries[n]) == PN_ACCEPTED, "outcome");
    pn_delivery_settle(deliveries[n]);
  }
  CHECK(count("q") == 100, "messages");
  pn_link_t *in = receiver(client, address);
  pn_link_flow(in, 100);
  for (int n = 0; n < 100; n++) {
    received_t received = take_text(in, "%d", n);
    CHECK(pn_message_is_durable(received.message), "the durable flag is lost");
  }
}

static void settled_publish(void) {
  const char *address = queue("q", "");
  client_t *client = connect_plain();
  pn_link_t *link = new_sender(client->session, address);
  pn_link_set_snd_settle_mode(link, PN_SND_SETTLED);
  attach(link);
  for (int n = 0; n < 100; n++) pn_delivery_settle(start(link, text("%d", n)));
  pn_link_t *in = receiver(client, address);
  pn_link_flow(in, 102);
  for (int n = 0; n < 100; n++) take_text(in, "%d", n);
  pn_link_t *mixed = sender(client, address);
  CHECK(pn_link_remote_snd_settle_mode(mixed) == PN_SND_MIXED, "settle mode of the answer");
  pn_delivery_settle(start(mixed, text("settled")));
  accepted(mixed, text("unsettled"));
  take_text(in, "settled");
  take_text(in, "unsettled");
}

static void exchange_target(void) {
  const char *address = queue("q", ""), *fanout = named("f");
  peer("\"do\":\"exchange\",\"exchange\":\"%s.x ä/%%\",\"type\":\"direct\"", prefix);
  peer("\"do\":\"exchange\",\"exchange\":\"%s\",\"type\":\"fanout\"", fanout);
  peer("\"do\":\"bind\",\"queue\":\"%s\",\"exchange\":\"%s.x ä/%%\",\"key\":\"k ü/?&\"", named("q"), prefix);
  peer("\"do\":\"bind\",\"queue\":\"%s\",\"exchange\":\"%s\",\"key\":\"\"", named("q"), fanout);
  client_t *client = connect_plain();
  char target[TEXT_MAX];
  snprintf(target, sizeof target, "/exchanges/%.500s.x%%20%%C3%%A4%%2F%%25/k%%20%%C3%%BC%%2F%%3F%%26", prefix);
  accepted(sender(client, target), text("direct"));
  received_t received = get(client, address);
  CHECK(strcmp(annotation(received, "x-exchange"), named("x ä/%")) == 0, "x-exchange");
  CHECK(strcmp(annotation(received, "x-routing-key"), "k ü/?&") == 0, "x-routing-key");
  snprintf(target, sizeof target, "/exchanges/%.500s", fanout);
  accepted(sender(client, target), text("fanout"));
  CHECK(strcmp(annotation(get(client, address), "x-exchange"), fanout) == 0, "x-exchange of the fanout");
}

static pn_delivery_t *to(pn_link_t *link, const char *start_of_address, const char *rest) {
  pn_message_t *message = text("x");
  char address[TEXT_MAX];
  snprintf(address, sizeof address, "%.500s%.500s", start_of_address, rest);
  if (*address) pn_message_set_address(message, address);
  pn_delivery_t *delivery = start(link, message);
  state_of(delivery);
  return delivery;
}

static void anonymous_terminus(void) {
  const char *address = queue("q", "");
  peer("\"do\":\"bind\",\"queue\":\"%s\",\"exchange\":\"amq.direct\",\"key\":\"%s\"", named("q"), named("k"));
  pn_link_t *link = sender(connect_plain(), NULL);
  CHECK(state_of(to(link, address, "")) == PN_ACCEPTED, "to a queue");
  CHECK(state_of(to(link, "/exchanges/amq.direct/", named("k"))) == PN_ACCEPTED, "to an exchange");
  CHECK(state_of(to(link, "/exchanges/amq.direct/", named("nowhere"))) == PN_RELEASED, "without a binding");
  CHECK(state_of(to(link, "/queues/", named("missing"))) == PN_RELEASED, "to a queue that isn't there");
  pn_delivery_t *delivery = to(link, "/exchanges/", named("missing/k"));
  CHECK(state_of(delivery) == PN_REJECTED, "to an exchange that isn't there");
  is_condition(pn_disposition_condition(pn_delivery_remote(delivery)), "amqp:not-found", named("missing"));
  for (int i = 0; i < 2; i++) {
    delivery = to(link, i ? "/nothing/x" : "", "");
    CHECK(state_of(delivery) == PN_REJECTED, "to no address");
    is_condition(pn_disposition_condition(pn_delivery_remote(delivery)), "amqp:precondition-failed", "");
  }
  CHECK(state_of(to(link, address, "")) == PN_ACCEPTED, "after the refusals");
  CHECK(count("q") == 3, "messages");
}

static void unroutable(void) {
  queue("q", "");
  char target[TEXT_MAX];
  snprintf(target, sizeof target, "/exchanges/amq.direct/%.500s", named("nowhere"));
  pn_link_t *link = sender(connect_plain(), target);
  CHECK(deliver(link, text("lost")) == PN_RELEASED, "outcome");
  peer("\"do\":\"bind\",\"queue\":\"%s\",\"exchange\":\"amq.direct\",\"key\":\"%s\"", named("q"), named("nowhere"));
  accepted(link, text("found"));
  CHECK(count("q") == 1, "messages");
}

static void rejected(void) {
  const char *address = queue("q", "\"x-max-length\":1,\"x-overflow\":\"reject-publish\"");
  pn_link_t *link = sender(connect_plain(), address);
  accepted(link, text("x"));
  pn_delivery_t *delivery = NULL;
  for (int n = 0; n < 9 && (!delivery || state_of(delivery) == PN_ACCEPTED); n++) delivery = start(link, text("x"));
  CHECK(state_of(delivery) == PN_REJECTED, "outcome of the full queue");
  pn_condition_t *condition = pn_disposition_condition(pn_delivery_remote(delivery));
  is_condition(condition, "amqp:resource-limit-exceeded", "");
  const char *info = shown(pn_condition_info(condition));
  CHECK(strstr(info, named("q")) && strstr(info, "maxlen"), "info %s", info);
}

static void big_message(void) {
  enum { SIZE = 1024 * 1024 };
  const char *address = queue("q", "");
  client_t *client = connect_with((options_t){.user = "guest", .password = "guest", .max_frame_size = 4096});
  client->session = begin(client);
  pn_link_t *out = sender(client, address), *in = receiver(client, address);
  char *pattern = malloc(SIZE);
  for (int i = 0; i < SIZE; i++) pattern[i] = (char)(i * 7 + i / 251);
  for (int round = 0; round < 2; round++) {
    pn_message_t *big = text("%s", "");
    pn_data_clear(pn_message_body(big));
    pn_data_put_binary(pn_message_body(big), pn_bytes(SIZE, pattern));
    pn_link_flow(in, 2);
    accepted(out, big);
    accepted(out, text("small"));
    received_t received = take(in);
    CHECK(received.size > SIZE && memcmp(received.data + received.size - SIZE, pattern, SIZE) == 0, "the body differs");
    settle(received, PN_ACCEPTED);
    settle(take_text(in, "small"), PN_ACCEPTED);
  }
}

/* Sends encoded sections; what comes back must end with what follows `from`. */
static received_t round_trip(client_t *client, const char *address, const char *data, size_t size, size_t from) {
  pn_link_t *link = sender(client, address);
  pn_delivery_t *delivery = start_raw(link, data, size);
  CHECK(state_of(delivery) == PN_ACCEPTED, "outcome 0x%x", (unsigned)pn_delivery_remote_state(delivery));
  pn_delivery_settle(delivery);
  received_t received = get(client, address);
  size -= from;
  CHECK(received.size >= size && memcmp(received.data + received.size - size, data + from, size) == 0,
        "the bare message differs");
  detach(link);
  return received;
}
#define ROUND_TRIP(bytes) round_trip(client, address, bytes, sizeof(bytes) - 1, 0)

static void sections(void) {
  const char *address = queue("q", "");
  client_t *client = connect_plain();
  char data[2048];
  size_t size = 0;
#define PUT(bytes) (memcpy(data + size, bytes, sizeof(bytes) - 1), size += sizeof(bytes) - 1)
  PUT("\x00\x53\x70\xc0\x09\x03\x41\x50\x07\x70\x00\x09\x27\xc0");
  PUT("\x00\x53\x72\xc1\x0a\x02\xa3\x03x-s\xa1\x02\xc3\xa9");
  size_t bare = size;
  /* message-id, user-id, to, subject, reply-to, correlation-id, content-type, content-encoding, expiry, creation,
     group-id, group-sequence, reply-to-group-id */
  PUT("\x00\x53\x73\xc0\x49\x0d\xa1\x02id\xa0\x05guest\xa1\x02to\xa1\x03sub\xa1\x04/q/x\x53\x4d\xa3\x0atext/plain"
      "\xa3\x05utf-8\x83\x00\x00\x03\xa3\x52\x94\x40\x00\x83\x00\x00\x01\x8b\xcf\xe5\x68\x00\xa1\x01g\x52\x07\xa1\x01r");
  /* null, booleans of both forms, integers of every width and sign, float, double, char, timestamp, uuid, binary,
     string, symbol */
  PUT("\x00\x53\x74\xd1\x00\x00\x00\xb9\x00\x00\x00\x26"
      "\xa1\x01" "a\x40\xa1\x01" "b\x41\xa1\x01" "c\x56\x00\xa1\x01" "d\x50\xff\xa1\x01" "e\x60\xff\xff"
      "\xa1\x01" "f\x70\xff\xff\xff\xff\xa1\x01" "g\x43\xa1\x01" "h\x80\xff\xff\xff\xff\xff\xff\xff\xff\xa1\x01" "i\x44"
      "\xa1\x01" "j\x51\x80\xa1\x01" "k\x61\x80\x00\xa1\x01" "l\x71\x80\x00\x00\x00\xa1\x01" "m\x54\xff"
      "\xa1\x01" "n\x81\x80\x00\x00\x00\x00\x00\x00\x00\xa1\x01" "o\x72\x3f\xc0\x00\x00"
      "\xa1\x01" "p\x82\x40\x04\x00\x00\x00\x00\x00\x00\xa1\x01" "q\x73\x00\x00\x00\xe4"
      "\xa1\x01" "r\x98\x01\x23\x45\x67\x89\xab\xcd\xef\x01\x23\x45\x67\x89\xab\xcd\xef"
      "\xa1\x01" "s\xa0\x03\x00\x80\xff");
  size_t properties_end = size;
  PUT("\x00\x53\x75\xa0\x04\x69\xc3\xa9\x00");
  PUT("\x00\x53\x78\xc1\x09\x02\xa3\x03x-f\xa1\x01y");
  /* The map's size is what was written: it is patched in rather than counted by hand. */
  char *map = memmem(data, size, "\x00\x53\x74\xd1", 4) + 4;
  size_t length = (size_t)(data + properties_end - (map + 4));
  map[0] = map[1] = 0, map[2] = (char)(length >> 8), map[3] = (char)length;
  char *list = memmem(data, size, "\x00\x53\x73\xc0", 4) + 4;
  list[0] = (char)(map - 4 - (list + 1));
  received_t received = round_trip(client, address, data, size, bare);
  pn_message_t *message = received.message;
  CHECK(pn_message_is_durable(message) && pn_message_get_priority(message) == 7, "header");
  CHECK(pn_message_get_ttl(message) > 0 && pn_message_get_ttl(message) <= 600000, "ttl %u", pn_message_get_ttl(message));
  CHECK(pn_message_is_first_acquirer(message) && pn_message_get_delivery_count(message) == 0, "counts");
  CHECK(strcmp(annotation(received, "x-s"), "é") == 0, "annotation");
  CHECK(strcmp(annotation(received, "x-routing-key"), named("q")) == 0, "x-routing-key");
}

static void message_ids(void) {
  const char *address = queue("q", "");
  client_t *client = connect_plain();
  /* message-id and correlation-id as string, ulong in three sizes, uuid and binary */
  ROUND_TRIP("\x00\x53\x73\xc0\x0d\x06\xa1\x02\xc3\xa9\x40\x40\x40\x40\xa1\x02\xc3\xa9\x00\x53\x75\xa0\x01x");
  ROUND_TRIP("\x00\x53\x73\xc0\x08\x06\x44\x40\x40\x40\x40\x53\x4d\x00\x53\x75\xa0\x01x");
  ROUND_TRIP("\x00\x53\x73\xc0\x17\x06\x80\xff\xff\xff\xff\xff\xff\xff\xff\x40\x40\x40\x40"
             "\x80\x00\x00\x00\x00\x00\x00\x00\x01\x00\x53\x75\xa0\x01x");
  ROUND_TRIP("\x00\x53\x73\xc0\x27\x06\x98" "0123456789abcdef" "\x40\x40\x40\x40\x98" "fedcba9876543210"
             "\x00\x53\x75\xa0\x01x");
  ROUND_TRIP("\x00\x53\x73\xc0\x0d\x06\xa0\x02\x00\xff\x40\x40\x40\x40\xa0\x02\xff\x00\x00\x53\x75\xa0\x01x");
}

static void bodies(void) {
  const char *address = queue("q", "");
  client_t *client = connect_plain();
  ROUND_TRIP("\x00\x53\x75\xa0\x00");
  ROUND_TRIP("\x00\x53\x75\xa0\x04" "data");
  ROUND_TRIP("\x00\x53\x75\xa0\x03" "one\x00\x53\x75\xa0\x03two");
  ROUND_TRIP("\x00\x53\x77\xa1\x00");
  ROUND_TRIP("\x00\x53\x77\xa1\x02\xc3\xa9");
  ROUND_TRIP("\x00\x53\x77\x40");
  ROUND_TRIP("\x00\x53\x77\x71\x00\x00\x00\x05");
  ROUND_TRIP("\x00\x53\x77\xc0\x06\x03\x54\x01\xa1\x00\x45");
  ROUND_TRIP("\x00\x53\x77\xc1\x0b\x02\xa1\x01" "a\xc1\x05\x02\xa1\x01" "b\x41");
  ROUND_TRIP("\x00\x53\x77\xa0\x02\x00\xff");
  ROUND_TRIP("\x00\x53\x77\xf0\x00\x00\x00\x09\x00\x00\x00\x02\x60\x00\x01\x00\x02");
  ROUND_TRIP("\x00\x53\x76\xc0\x03\x01\xa1\x00");
  ROUND_TRIP("\x00\x53\x76\xc0\x03\x01\xa1\x00\x00\x53\x76\xc0\x04\x01\xa1\x01x");
}

static void from_091(void) {
  const char *address = queue("q", "");
  peer("\"do\":\"sample\",\"queue\":\"%s\"", named("q"));
  received_t received = get(connect_plain(), address);
  pn_message_t *message = received.message;
  CHECK(pn_message_is_durable(message) && pn_message_get_priority(message) == 5, "header");
  CHECK(id_is(pn_message_get_id(message), "message"), "message-id");
  CHECK(id_is(pn_message_get_correlation_id(message), "correlation"), "correlation-id");
  CHECK(strcmp(pn_message_get_content_type(message), "text/plain") == 0, "content-type");
  CHECK(strcmp(pn_message_get_content_encoding(message), "utf-8") == 0, "content-encoding");
  CHECK(strcmp(pn_message_get_reply_to(message), "/queues/answers") == 0, "reply-to");
  CHECK(strcmp(pn_message_get_group_id(message), "app") == 0, "group-id");
  CHECK(pn_message_get_creation_time(message) == 1700000000000, "creation-time");
  CHECK(strcmp(annotation(received, "x-a"), "note") == 0, "x-a");
  CHECK(strcmp(annotation(received, "x-basic-type"), "kind") == 0, "x-basic-type");
  const char *properties = shown(pn_message_properties(message));
  CHECK(strstr(properties, "\"b\"=7") && strstr(properties, "\"c\"="), "application properties %s", properties);
  CHECK(strcmp(body(received), "body ✓") == 0, "body");
}

static void to_091(void) {
  pn_link_t *link = sender(connect_plain(), queue("q", ""));
  pn_message_t *message = text("body ✓");
  pn_message_set_priority(message, 5);
  pn_message_set_id(message, (pn_atom_t){.type = PN_STRING, .u.as_bytes = pn_bytes(7, "message")});
  pn_message_set_correlation_id(message, (pn_atom_t){.type = PN_STRING, .u.as_bytes = pn_bytes(11, "correlation")});
  pn_message_set_content_type(message, "text/plain");
  pn_message_set_creation_time(message, 1700000000000);
  pn_message_set_reply_to(message, "/queues/answers");
  pn_message_set_group_id(message, "group");
  pn_message_set_user_id(message, pn_bytes(5, "guest"));
  pn_data_fill(pn_message_annotations(message), "{sS}", "x-a", "note");
  pn_data_fill(pn_message_properties(message), "{SSSiSoSl}", "s", "text ✓", "i", 5, "t", true, "l", (int64_t)1 << 40);
  accepted(link, message);
  message = pn_message();
  pn_data_fill(pn_message_body(message), "{Si}", "a", 1);
  accepted(link, message);
  const char *answer = peer("\"do\":\"get\",\"queue\":\"%s\"", named("q"));
  const char *expected[] = {
    "\"body\":\"body ✓\"", "\"redelivered\":false", "\"delivery_mode\":2", "\"priority\":5",
    "\"message_id\":\"message\"", "\"correlation_id\":\"correlation\"", "\"content_type\":\"text/plain\"",
    "\"timestamp\":1700000000", "\"reply_to\":\"answers\"", "\"app_id\":\"group\"", "\"user_id\":\"guest\"",
    "\"s\":\"text ✓\"", "\"i\":5", "\"t\":true", "\"l\":1099511627776", "\"x-a\":\"note\""};
  for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
    CHECK(strstr(answer, expected[i]), "%s isn't in %s", expected[i], answer);
  }
  answer = peer("\"do\":\"get\",\"queue\":\"%s\"", named("q"));
  CHECK(strstr(answer, "\"type\":\"amqp-1.0\""), "type of a value body: %s", answer);
}

const entry_t SENDING[] = {
  {"publish", publish}, {"settled_publish", settled_publish}, {"exchange_target", exchange_target},
  {"anonymous_terminus", anonymous_terminus}, {"unroutable", unroutable}, {"rejected", rejected},
  {"big_message", big_message}, {"sections", sections}, {"message_ids", message_ids}, {"bodies", bodies},
  {"from_091", from_091}, {"to_091", to_091}, {0}};
