import com.rabbitmq.client.amqp.Connection;
import com.rabbitmq.client.amqp.Message;
import com.rabbitmq.client.amqp.Publisher;
import com.rabbitmq.client.amqp.Requester;
import com.rabbitmq.client.amqp.RequesterBuilder;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.TimeUnit;

/** Scenarios of messages and their outcomes. */
final class Messages {
  private static final int BACKLOG = 20_000;
  private static final Duration LONG = Duration.ofMinutes(10);

  private Messages() {}

  static void add(Map<String, Cell.Scenario> all) {
    all.put("publish", Messages::publish);
    all.put("exchange_target", Messages::exchangeTarget);
    all.put("anonymous_terminus", Messages::anonymousTerminus);
    all.put("unroutable", Messages::unroutable);
    all.put("rejected", Messages::rejected);
    all.put("sections", Messages::sections);
    all.put("message_ids", Messages::messageIds);
    all.put("bodies", Messages::bodies);
    all.put("outcomes", Messages::outcomes);
    all.put("dead_letter", Messages::deadLetter);
    all.put("ttl", Messages::ttl);
    all.put("detach_requeues", Messages::detachRequeues);
    all.put("credit", Messages::credit);
    all.put("settled_receive", Messages::settledReceive);
    all.put("two_receivers", Messages::twoReceivers);
    all.put("consumer_priority", Messages::consumerPriority);
    all.put("backlog", Messages::backlog);
    all.put("request_reply", () -> converse(true));
    all.put("direct_reply_to", () -> converse(false));
    all.put("from_091", Messages::from091);
    all.put("to_091", Messages::to091);
  }

  private static void publish() throws Exception {
    String q = Cell.queue("q");
    Connection c = RabbitClient.connect();
    RabbitClient.send(RabbitClient.toQueue(c, q), Cell.numbered(0, 100));
    Cell.equal(Cell.ready(q), 100, "messages");
    RabbitClient.Inbox inbox = RabbitClient.inbox(c, q, 30);
    for (String name : Cell.numbered(0, 100)) {
      RabbitClient.Delivery delivery = inbox.next();
      Cell.equal(delivery.body(), name, "body");
      Cell.check(delivery.message().durable(), "not durable");
      delivery.context().accept();
    }
  }

  private static void exchangeTarget() throws Exception {
    String q = Cell.queue("q");
    String x = Cell.exchange("x ä/%", "direct");
    String f = Cell.exchange("f", "fanout");
    Cell.bind(q, x, "k ü/?&");
    Cell.bind(q, f, "");
    Connection c = RabbitClient.connect();
    RabbitClient.send(RabbitClient.toExchange(c, x, "k ü/?&"), "by key");
    RabbitClient.send(RabbitClient.toExchange(c, f, null), "by fanout");
    RabbitClient.Inbox inbox = RabbitClient.inbox(c, q, 2);
    RabbitClient.Delivery delivery = inbox.next();
    Cell.equal(delivery.body(), "by key", "body");
    Cell.equal(delivery.message().annotation("x-exchange"), x, "x-exchange");
    Cell.equal(delivery.message().annotation("x-routing-key"), "k ü/?&", "x-routing-key");
    delivery.context().accept();
    inbox.bodies("by fanout");
  }

  private static void anonymousTerminus() throws Exception {
    String q = Cell.queue("q");
    Cell.bind(q, "amq.direct", Cell.name("k"));
    Connection c = RabbitClient.connect();
    Publisher p = c.publisherBuilder().build();
    RabbitClient.accepted(RabbitClient.put(p, RabbitClient.durable(p, "1").toAddress().queue(q).message()));
    RabbitClient.accepted(RabbitClient.put(p, to(p, "2", "amq.direct", Cell.name("k"))));
    RabbitClient.released(RabbitClient.put(p, to(p, "lost", "amq.direct", Cell.name("nowhere"))));
    Message lost = RabbitClient.durable(p, "lost").toAddress().queue(Cell.name("missing")).message();
    RabbitClient.released(RabbitClient.put(p, lost));
    RabbitClient.rejected(RabbitClient.put(p, to(p, "lost", Cell.name("missing"), "k")));
    RabbitClient.accepted(RabbitClient.put(p, RabbitClient.durable(p, "3").toAddress().queue(q).message()));
    RabbitClient.inbox(c, q, 3).bodies("1", "2", "3");
  }

  private static Message to(Publisher publisher, String body, String exchange, String key) {
    return RabbitClient.address(RabbitClient.durable(publisher, body).toAddress(), exchange, key).message();
  }

  private static void unroutable() throws Exception {
    String q = Cell.queue("q");
    Connection c = RabbitClient.connect();
    Publisher p = RabbitClient.toExchange(c, "amq.direct", Cell.name("nowhere"));
    RabbitClient.released(RabbitClient.put(p, RabbitClient.durable(p, "lost")));
    Cell.bind(q, "amq.direct", Cell.name("nowhere"));
    RabbitClient.send(p, "found");
    RabbitClient.inbox(c, q, 1).bodies("found");
  }

  private static void rejected() throws Exception {
    String q = Cell.queue("q", "{\"x-max-length\": 1, \"x-overflow\": \"reject-publish\"}");
    Publisher p = RabbitClient.toQueue(RabbitClient.connect(), q);
    RabbitClient.send(p, "first");
    for (int i = 0; i < 10; i++) {
      Publisher.Context outcome = RabbitClient.put(p, RabbitClient.durable(p, "more"));
      if (outcome.status() != Publisher.Status.ACCEPTED) { // A RabbitMQ queue lets a few pass.
        RabbitClient.rejected(outcome);
        return;
      }
    }
    Cell.fail("nothing was rejected");
  }

  private static void sections() throws Exception {
    String q = Cell.queue("q");
    Connection c = RabbitClient.connect();
    Publisher p = RabbitClient.toQueue(c, q);
    byte[] binary = {0, -1};
    UUID uuid = new UUID(1, 2);
    long at = 1_700_000_000_123L;
    Message m = p.message("body".getBytes(StandardCharsets.UTF_8)).durable(true).priority((byte) 7).ttl(LONG)
        .messageId("message").userId("guest".getBytes(StandardCharsets.UTF_8)).to("to ✓").subject("subject")
        .replyTo("reply-to").correlationId("correlation").contentType("text/plain").contentEncoding("utf-8")
        .absoluteExpiryTime(at).creationTime(at).groupId("group").groupSequence(7).replyToGroupId("reply group")
        .annotation("x-s", "note").annotation("x-i", -5)
        .property("true", true).property("byte", Byte.MIN_VALUE).property("short", Short.MIN_VALUE)
        .property("int", Integer.MIN_VALUE).property("long", Long.MIN_VALUE).propertyUnsigned("ulong", -1L)
        .property("float", 1.5f).property("double", 2.25).property("char", 'ё').propertyTimestamp("timestamp", at)
        .property("uuid", uuid).property("binary", binary).property("string", "ключ ✓")
        .propertySymbol("symbol", "symbol");
    Map<String, Object> sent = new java.util.HashMap<>();
    m.forEachProperty(sent::put);
    sent.put("timestamp", at); // A date becomes a number.
    RabbitClient.accepted(RabbitClient.put(p, m));

    RabbitClient.Delivery delivery = RabbitClient.inbox(c, q, 1).next();
    Message came = delivery.message();
    Cell.check(came.durable() && came.priority() == 7 && came.firstAcquirer(), "header");
    Cell.check(!came.ttl().isNegative() && !came.ttl().isZero() && came.ttl().compareTo(LONG) <= 0, "" + came.ttl());
    Cell.equal(came.messageId(), "message", "message-id");
    Cell.equal(came.userId(), "guest".getBytes(StandardCharsets.UTF_8), "user-id");
    Cell.equal(came.to(), "to ✓", "to");
    Cell.equal(came.subject(), "subject", "subject");
    Cell.equal(came.replyTo(), "reply-to", "reply-to");
    Cell.equal(came.correlationId(), "correlation", "correlation-id");
    Cell.equal(came.contentType(), "text/plain", "content-type");
    Cell.equal(came.contentEncoding(), "utf-8", "content-encoding");
    Cell.equal(came.absoluteExpiryTime(), at, "absolute-expiry-time");
    Cell.equal(came.creationTime(), at, "creation-time");
    Cell.equal(came.groupId(), "group", "group-id");
    Cell.equal(came.groupSequence(), 7, "group-sequence");
    Cell.equal(came.replyToGroupId(), "reply group", "reply-to-group-id");
    Cell.equal(came.annotation("x-s"), "note", "x-s");
    Cell.equal(came.annotation("x-i"), -5, "x-i");
    Cell.equal(came.annotation("x-exchange"), "", "x-exchange");
    Cell.equal(came.annotation("x-routing-key"), q, "x-routing-key");
    int[] properties = {0};
    came.forEachProperty((name, value) -> {
      Cell.equal(value, sent.get(name), name);
      properties[0]++;
    });
    Cell.equal(properties[0], sent.size(), "application properties");
    Cell.equal(delivery.body(), "body", "body");
    delivery.context().accept();
  }

  private static void messageIds() throws Exception {
    String q = Cell.queue("q");
    Connection c = RabbitClient.connect();
    Publisher p = RabbitClient.toQueue(c, q);
    RabbitClient.Inbox inbox = RabbitClient.inbox(c, q, 10);
    UUID uuid = new UUID(3, 4);
    byte[] binary = {0, 1, -1};
    RabbitClient.put(p, RabbitClient.durable(p, "1").messageId("text").correlationId("text"));
    RabbitClient.put(p, RabbitClient.durable(p, "2").messageId(7L).correlationId(7L));
    RabbitClient.put(p, RabbitClient.durable(p, "3").messageId(uuid).correlationId(uuid));
    RabbitClient.put(p, RabbitClient.durable(p, "4").messageId(binary).correlationId(binary));
    Message text = inbox.next().message();
    Cell.equal(text.messageIdAsString() + text.correlationIdAsString(), "texttext", "ids");
    Message number = inbox.next().message();
    Cell.equal(number.messageIdAsLong() + number.correlationIdAsLong(), 14L, "ids");
    Message unique = inbox.next().message();
    Cell.equal(unique.messageIdAsUuid(), uuid, "message-id");
    Cell.equal(unique.correlationIdAsUuid(), uuid, "correlation-id");
    Message bytes = inbox.next().message();
    Cell.equal(bytes.messageIdAsBinary(), binary, "message-id");
    Cell.equal(bytes.correlationIdAsBinary(), binary, "correlation-id");
  }

  /** The library has bodies of one data section only. */
  private static void bodies() throws Exception {
    String q = Cell.queue("q");
    Connection c = RabbitClient.connect();
    Publisher p = RabbitClient.toQueue(c, q);
    RabbitClient.Inbox inbox = RabbitClient.inbox(c, q, 10);
    byte[] big = new byte[1 << 20];
    for (int i = 0; i < big.length; i++) {
      big[i] = (byte) (i ^ i >> 8);
    }
    for (byte[] body : new byte[][] {{}, {0, -1, 7}, big}) {
      RabbitClient.accepted(RabbitClient.put(p, p.message(body)));
      RabbitClient.Delivery delivery = inbox.next();
      Cell.check(Arrays.equals(delivery.message().body(), body), body.length + " bytes came back differently");
      delivery.context().accept();
    }
  }

  private static void outcomes() throws Exception {
    String q = Cell.queue("q");
    Connection c = RabbitClient.connect();
    Publisher p = RabbitClient.toQueue(c, q);
    RabbitClient.Inbox inbox = RabbitClient.inbox(c, q, 10);
    RabbitClient.send(p, "accepted");
    inbox.bodies("accepted");
    RabbitClient.send(p, "rejected");
    inbox.next().context().discard();
    RabbitClient.send(p, "released");
    inbox.next().context().requeue();
    again(inbox, "released");
    RabbitClient.send(p, "annotated");
    inbox.next().context().requeue(Map.of("x-opt-why", "because"));
    again(inbox, "annotated");
    RabbitClient.send(p, "undeliverable");
    inbox.next().context().discard(Map.of("x-opt-why", "because"));
    RabbitClient.send(p, "last");
    inbox.bodies("last");
    c.close();
    Cell.equal(Cell.ready(q), 0, "messages");
  }

  private static void again(RabbitClient.Inbox inbox, String name) throws Exception {
    RabbitClient.Delivery delivery = inbox.next();
    Cell.equal(delivery.body(), name, "body");
    Cell.check(!delivery.message().firstAcquirer(), "first-acquirer");
    delivery.context().accept();
  }

  private static String withDead(String dead) throws Exception {
    return Cell.queue("q", "{\"x-dead-letter-exchange\": \"\", \"x-dead-letter-routing-key\": " + Cell.json(dead) + "}");
  }

  private static void died(RabbitClient.Delivery delivery, String name, String queue, String reason) {
    Cell.equal(delivery.body(), name, "body");
    Object deaths = delivery.message().annotation("x-opt-deaths");
    Cell.check(deaths instanceof Object[] list && list.length == 1, "x-opt-deaths " + deaths);
    Map<?, ?> death = (Map<?, ?>) ((Object[]) deaths)[0];
    Map<String, Object> fields = new java.util.HashMap<>();
    death.forEach((key, value) -> fields.put(key.toString(), value));
    Cell.equal(fields.get("queue").toString(), queue, "queue");
    Cell.equal(fields.get("reason").toString(), reason, "reason");
    Cell.equal(fields.get("count").toString(), "1", "count");
    for (String which : new String[] {"first", "last"}) {
      Cell.equal(delivery.message().annotation("x-" + which + "-death-queue").toString(), queue, which);
      Cell.equal(delivery.message().annotation("x-" + which + "-death-reason").toString(), reason, which);
    }
    delivery.context().accept();
  }

  private static void deadLetter() throws Exception {
    String dead = Cell.queue("dead");
    String q = withDead(dead);
    Connection c = RabbitClient.connect();
    Publisher p = RabbitClient.toQueue(c, q);
    RabbitClient.Inbox inbox = RabbitClient.inbox(c, q, 1);
    RabbitClient.Inbox buried = RabbitClient.inbox(c, dead, 1);
    RabbitClient.send(p, "rejected");
    inbox.next().context().discard();
    died(buried.next(), "rejected", q, "rejected");
    RabbitClient.send(p, "undeliverable");
    inbox.next().context().discard(Map.of("x-opt-why", "because"));
    died(buried.next(), "undeliverable", q, "rejected");
  }

  private static void ttl() throws Exception {
    String dead = Cell.queue("dead");
    String q = withDead(dead);
    Connection c = RabbitClient.connect();
    Publisher p = RabbitClient.toQueue(c, q);
    RabbitClient.accepted(RabbitClient.put(p, RabbitClient.durable(p, "short").ttl(Duration.ofMillis(1))));
    died(RabbitClient.inbox(c, dead, 1).next(), "short", q, "expired");
    RabbitClient.accepted(RabbitClient.put(p, RabbitClient.durable(p, "long").ttl(LONG)));
    Message transitory = p.message("transient".getBytes(StandardCharsets.UTF_8)).durable(false).priority((byte) 9);
    RabbitClient.accepted(RabbitClient.put(p, transitory));
    RabbitClient.Inbox inbox = RabbitClient.inbox(c, q, 2);
    Message came = inbox.next().message();
    Cell.check(came.durable() && came.priority() == 4, "header");
    Cell.check(!came.ttl().isZero() && came.ttl().compareTo(LONG) <= 0, "ttl " + came.ttl());
    came = inbox.next().message();
    Cell.check(!came.durable() && came.priority() == 9, "header");
  }

  private static void detachRequeues() throws Exception {
    String q = Cell.queue("q");
    Connection c = RabbitClient.connect();
    String[] names = Cell.numbered(0, 10);
    RabbitClient.send(RabbitClient.toQueue(c, q), names);
    // A consumer that is closed waits for its messages to be settled first; a connection doesn't.
    for (int i = 0; i < 2; i++) {
      Connection other = RabbitClient.connect();
      RabbitClient.Inbox inbox = RabbitClient.inbox(other, q, 10);
      for (String name : names) {
        Cell.equal(inbox.next().body(), name, "body");
      }
      other.close();
    }
    RabbitClient.inbox(c, q, 10).bodies(names);
  }

  /** The library renews credit as messages are settled; that is all of it that its API has. */
  private static void credit() throws Exception {
    String q = Cell.queue("q");
    Connection c = RabbitClient.connect();
    RabbitClient.send(RabbitClient.toQueue(c, q), Cell.numbered(0, 20));
    RabbitClient.Inbox inbox = RabbitClient.inbox(c, q, 1);
    RabbitClient.Delivery first = inbox.next();
    Cell.equal(first.body(), "m0", "body");
    Cell.equal(Cell.ready(q), 19, "ready messages");
    first.context().accept();
    inbox.bodies(Cell.numbered(1, 20));
  }

  private static void settledReceive() throws Exception {
    String q = Cell.queue("q");
    Connection c = RabbitClient.connect();
    RabbitClient.send(RabbitClient.toQueue(c, q), Cell.numbered(0, 10));
    RabbitClient.Inbox inbox = new RabbitClient.Inbox(c.consumerBuilder().queue(q).preSettled());
    for (String name : Cell.numbered(0, 10)) {
      Cell.equal(inbox.next().body(), name, "body");
    }
    c.close();
    Cell.equal(Cell.ready(q), 0, "messages");
  }

  private static void twoReceivers() throws Exception {
    String a = Cell.queue("a");
    String b = Cell.queue("b");
    Connection c = RabbitClient.connect();
    RabbitClient.Inbox fromA = RabbitClient.inbox(c, a, 10);
    RabbitClient.Inbox fromB = RabbitClient.inbox(c, b, 10);
    RabbitClient.send(RabbitClient.toQueue(c, a), Cell.numbered(0, 200));
    RabbitClient.send(RabbitClient.toQueue(c, b), Cell.numbered(200, 400));
    for (int i = 0; i < 200; i++) {
      fromA.bodies("m" + i);
      fromB.bodies("m" + (200 + i));
    }
  }

  private static void consumerPriority() throws Exception {
    String q = Cell.queue("q");
    Connection c = RabbitClient.connect();
    Publisher p = RabbitClient.toQueue(c, q);
    RabbitClient.Inbox high = new RabbitClient.Inbox(c.consumerBuilder().queue(q).initialCredits(10).priority(5));
    // When these have come the broker knows the credit, which the library renews as they are settled.
    RabbitClient.send(p, Cell.numbered(0, 10));
    for (String name : Cell.numbered(0, 10)) {
      Cell.equal(high.next().body(), name, "body");
    }
    RabbitClient.Inbox low = new RabbitClient.Inbox(c.consumerBuilder().queue(q).initialCredits(10).priority(0));
    RabbitClient.send(p, Cell.numbered(10, 15));
    low.bodies(Cell.numbered(10, 15));
  }

  private static void backlog() throws Exception {
    String q = Cell.queue("q");
    Connection c = RabbitClient.connect();
    String[] names = Cell.numbered(0, BACKLOG);
    Publisher p = RabbitClient.toQueue(c, q);
    RabbitClient.send(p, names);
    RabbitClient.inbox(c, q, 100).bodies(names);
    c.close();
    Cell.equal(Cell.ready(q), 0, "messages");
  }

  /** Three questions, one after another, with the library's requester and responder. */
  private static void converse(boolean overQueue) throws Exception {
    String q = Cell.queue("requests");
    Connection c = RabbitClient.connect();
    RabbitClient.connect().responderBuilder().requestQueue(q)
        .handler((context, request) -> context.message(("answer to " + new String(request.body(),
            StandardCharsets.UTF_8)).getBytes(StandardCharsets.UTF_8)))
        .build();
    RequesterBuilder builder = c.requesterBuilder().requestAddress().queue(q).requester();
    if (overQueue) {
      String replies = c.management().queue(Cell.name("replies")).exclusive(true).declare().name();
      builder.replyToQueue(replies);
    }
    Requester requester = builder.build();
    for (int i = 0; i < 3; i++) {
      byte[] question = ("question " + i).getBytes(StandardCharsets.UTF_8);
      Message answer = requester.publish(requester.message(question)).get(Cell.PATIENCE_MS, TimeUnit.MILLISECONDS);
      Cell.equal(new String(answer.body(), StandardCharsets.UTF_8), "answer to question " + i, "answer");
    }
  }

  private static void from091() throws Exception {
    String q = Cell.queue("q");
    Cell.peer("do", "\"sample\"", "queue", Cell.json(q));
    RabbitClient.Delivery delivery = RabbitClient.inbox(RabbitClient.connect(), q, 1).next();
    Message m = delivery.message();
    Cell.equal(delivery.body(), "body ✓", "body");
    Cell.check(m.durable() && m.priority() == 5, "header");
    Cell.equal(m.messageId(), "message", "message-id");
    Cell.equal(m.correlationId(), "correlation", "correlation-id");
    Cell.equal(m.contentType(), "text/plain", "content-type");
    Cell.equal(m.contentEncoding(), "utf-8", "content-encoding");
    Cell.equal(m.replyTo(), "/queues/answers", "reply-to");
    Cell.equal(m.groupId(), "app", "group-id");
    Cell.equal(m.creationTime(), 1_700_000_000_000L, "creation-time");
    Cell.equal(m.annotation("x-a"), "note", "x-a");
    Cell.equal(m.annotation("x-basic-type"), "kind", "x-basic-type");
    Cell.equal(((Number) m.property("b")).intValue(), 7, "b");
    Cell.equal(m.property("c"), "ключ", "c");
    delivery.context().accept();
  }

  private static void to091() throws Exception {
    String q = Cell.queue("q");
    Publisher p = RabbitClient.toQueue(RabbitClient.connect(), q);
    RabbitClient.accepted(RabbitClient.put(p, RabbitClient.durable(p, "body ✓").priority((byte) 5)
        .messageId("message").correlationId("correlation").contentType("text/plain").creationTime(1_700_000_000_000L)
        .replyTo("/queues/answers").groupId("app").userId("guest".getBytes(StandardCharsets.UTF_8))
        .property("s", "ключ").property("i", 7).property("b", true).annotation("x-a", "note")));
    String came = Cell.get(q);
    for (String part : new String[] {"\"body\":\"body ✓\"", "\"delivery_mode\":2", "\"priority\":5",
        "\"message_id\":\"message\"", "\"correlation_id\":\"correlation\"", "\"content_type\":\"text/plain\"",
        "\"timestamp\":1700000000", "\"reply_to\":\"answers\"", "\"app_id\":\"app\"", "\"user_id\":\"guest\"",
        "\"s\":\"ключ\"", "\"i\":7", "\"b\":true", "\"x-a\":\"note\""}) {
      Cell.check(came.contains(part), part + " isn't in " + came);
    }
  }
}
