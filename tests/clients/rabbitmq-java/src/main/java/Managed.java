import com.rabbitmq.client.amqp.AmqpException;
import com.rabbitmq.client.amqp.Connection;
import com.rabbitmq.client.amqp.Management;
import com.rabbitmq.client.amqp.Message;
import com.rabbitmq.client.amqp.Publisher;
import java.nio.charset.StandardCharsets;
import java.util.Map;

/** Scenarios of management and of what is refused. */
final class Managed {
  private static final int LIMIT = 100_000;

  private Managed() {}

  static void add(Map<String, Cell.Scenario> all) {
    all.put("management", Managed::management);
    all.put("management_errors", Managed::managementErrors);
    all.put("exclusive", Managed::exclusive);
    all.put("queue_deleted", Managed::queueDeleted);
    all.put("not_found", Managed::notFound);
    all.put("unauthorized", Managed::unauthorized);
    all.put("user_id", Managed::userId);
    all.put("message_too_large", Managed::messageTooLarge);
  }

  private static void management() throws Exception {
    Connection c = RabbitClient.connect();
    Management m = c.management();
    String q = Cell.name("q ä/");
    String x = Cell.name("x");
    for (int i = 0; i < 2; i++) {
      Management.QueueInfo info = m.queue(q).type(Management.QueueType.CLASSIC).declare();
      Cell.equal(info.name(), q, "name");
      Cell.check(info.durable(), "not durable");
      Cell.equal(info.type(), Management.QueueType.CLASSIC, "type");
    }
    Cell.equal(m.queueInfo(q).messageCount(), 0L, "message_count");
    m.exchange(x).type(Management.ExchangeType.DIRECT).declare();
    m.binding().sourceExchange(x).destinationQueue(q).key("k").bind();
    Publisher p = RabbitClient.toExchange(c, x, "k");
    RabbitClient.send(p, "one");
    Cell.equal(m.queuePurge(q).messageCount(), 1L, "purged");
    m.binding().sourceExchange(x).destinationQueue(q).key("k2").argument("a", "b").bind();
    m.unbind().sourceExchange(x).destinationQueue(q).key("k2").argument("a", "b").unbind();
    m.unbind().sourceExchange(x).destinationQueue(q).key("k").unbind();
    m.unbind().sourceExchange(x).destinationQueue(q).key("k").unbind();
    RabbitClient.released(RabbitClient.put(p, RabbitClient.durable(p, "lost")));
    p.close();
    m.exchangeDelete(x);
    m.queueDelete(q);
    gone(() -> m.queueInfo(q));
  }

  private static void gone(Cell.Scenario act) throws Exception {
    try {
      act.run();
    } catch (AmqpException.AmqpEntityDoesNotExistException expected) {
      return;
    }
    Cell.fail("it is still there");
  }

  private static void managementErrors() throws Exception {
    Management m = RabbitClient.connect().management();
    String q = Cell.name("q");
    String x = Cell.name("x");
    m.queue(q).type(Management.QueueType.CLASSIC).declare();
    Cell.fails(() -> m.queue(q).type(Management.QueueType.CLASSIC).maxLength(7).declare(), "409");
    m.exchange(x).type(Management.ExchangeType.DIRECT).declare();
    Cell.fails(() -> m.exchange(x).type(Management.ExchangeType.FANOUT).declare(), "409");
    gone(() -> m.queueInfo(Cell.name("missing")));
    gone(() -> m.queuePurge(Cell.name("missing")));
    Cell.fails(() -> m.queue(Cell.name("bad")).argument("x-max-length", -1).declare(), "409");
    Cell.fails(() -> m.queue("amq.x").declare(), "403");
    m.exchangeDelete(x);
    m.queueDelete(q);
  }

  private static void exclusive() throws Exception {
    String q = Cell.name("q");
    Cell.peer("do", "\"declare\"", "queue", Cell.json(q), "exclusive", "true");
    Cell.fails(() -> RabbitClient.inbox(RabbitClient.connect(), q, 1), "resource-locked", "exclusive");
  }

  private static void queueDeleted() throws Exception {
    String q = Cell.queue("q");
    String other = Cell.queue("other");
    Connection c = RabbitClient.connect();
    RabbitClient.Inbox inbox = RabbitClient.inbox(c, q, 1);
    Cell.delete(q);
    Cell.says(Cell.take(inbox.closes, "close"), "resource-deleted", "deleted");
    RabbitClient.send(RabbitClient.toQueue(c, other), "one");
    RabbitClient.inbox(c, other, 1).bodies("one");
  }

  private static void notFound() throws Exception {
    String q = Cell.queue("q");
    String missing = Cell.name("missing");
    Connection c = RabbitClient.connect();
    gone(() -> RabbitClient.inbox(c, missing, 1));
    gone(() -> RabbitClient.toQueue(c, missing));
    gone(() -> RabbitClient.toExchange(c, missing, "k"));
    RabbitClient.send(RabbitClient.toQueue(c, q), "one");
    RabbitClient.inbox(c, q, 1).bodies("one");
  }

  private static void unauthorized() throws Exception {
    Connection c = RabbitClient.connect();
    Cell.fails(() -> RabbitClient.toExchange(c, "amq.direct", "k"), "unauthorized-access", "Security");
    String q = Cell.queue("q");
    Cell.fails(() -> RabbitClient.inbox(RabbitClient.connect(), q, 1), "unauthorized-access", "Security");
    RabbitClient.connect();
  }

  private static void userId() throws Exception {
    String q = Cell.queue("q");
    Connection c = RabbitClient.connect();
    Publisher p = RabbitClient.toQueue(c, q);
    Message m = RabbitClient.durable(p, "whose").userId("somebody".getBytes(StandardCharsets.UTF_8));
    // However the library shows it, the message isn't in the queue, and another one is.
    Cell.fails(() -> RabbitClient.accepted(RabbitClient.put(p, m)), "REJECTED", "somebody", "unauthorized", "no outcome");
    RabbitClient.send(RabbitClient.toQueue(RabbitClient.connect(), q), "mine");
    Cell.equal(Cell.ready(q), 1, "messages");
  }

  private static void messageTooLarge() throws Exception {
    String q = Cell.queue("q");
    Connection c = RabbitClient.connect();
    Publisher p = RabbitClient.toQueue(c, q);
    Cell.fails(() -> RabbitClient.accepted(RabbitClient.put(p, p.message(new byte[LIMIT + 1]))), "message", "size");
    RabbitClient.send(RabbitClient.toQueue(RabbitClient.connect(), q), "small");
    Cell.equal(Cell.ready(q), 1, "messages");
  }
}
