import jakarta.jms.BytesMessage;
import jakarta.jms.Connection;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Session;
import java.util.Map;
import java.util.concurrent.BlockingQueue;

/** Scenarios of what is refused. */
final class Refusals {
  private static final int LIMIT = 100_000;

  private Refusals() {}

  static void add(Map<String, Cell.Scenario> all) {
    all.put("exclusive", Refusals::exclusive);
    all.put("queue_deleted", Refusals::queueDeleted);
    all.put("not_found", Refusals::notFound);
    all.put("bad_address", Refusals::badAddress);
    all.put("unauthorized", Refusals::unauthorized);
    all.put("message_too_large", Refusals::messageTooLarge);
  }

  private static void exclusive() throws Exception {
    String q = Cell.name("q");
    Cell.peer("do", "\"declare\"", "queue", Cell.json(q), "exclusive", "true");
    Session s = JmsClient.session(JmsClient.connect());
    Cell.fails(() -> JmsClient.consumer(s, Cell.atQueue(q)), "resource-locked");
  }

  private static void queueDeleted() throws Exception {
    String q = Cell.queue("q");
    String other = Cell.queue("other");
    Connection c = JmsClient.connect();
    BlockingQueue<Throwable> problems = JmsClient.watch(c);
    MessageConsumer consumer = JmsClient.consumer(JmsClient.session(c), Cell.atQueue(q));
    consumer.setMessageListener(message -> {});
    Cell.delete(q);
    Cell.says(Cell.take(problems, "close of the consumer"), "resource-deleted");
    Session s = JmsClient.session(c);
    JmsClient.sendTo(s, other, "one");
    JmsClient.bodies(JmsClient.consumer(s, Cell.atQueue(other)), "one");
  }

  private static void notFound() throws Exception {
    String q = Cell.queue("q");
    String missing = Cell.name("missing");
    Connection c = JmsClient.connect();
    // RabbitMQ ends the session with the link.
    Cell.fails(() -> JmsClient.consumer(JmsClient.session(c), Cell.atQueue(missing)), "not-found", "InvalidDest");
    Cell.fails(() -> JmsClient.producer(JmsClient.session(c), Cell.atQueue(missing)), "not-found", "InvalidDest");
    String nowhere = Cell.atExchange(missing, "k");
    Cell.fails(() -> JmsClient.producer(JmsClient.session(c), nowhere), "not-found", "InvalidDest");
    Session s = JmsClient.session(c);
    JmsClient.sendTo(s, q, "one");
    JmsClient.bodies(JmsClient.consumer(s, Cell.atQueue(q)), "one");
  }

  private static void badAddress() throws Exception {
    String q = Cell.queue("q");
    Connection c = JmsClient.connect();
    for (String address : new String[] {
        "/exchanges//k", "/exchanges/amq.default/k", "/queues/", "/nothing/x", "/queues/a%zz",
        }) {
      Cell.fails(() -> JmsClient.producer(JmsClient.session(c), address), "invalid-field");
    }
    Cell.fails(() -> JmsClient.consumer(JmsClient.session(c), "/exchanges/amq.direct/k"), "invalid-field");
    JmsClient.sendTo(JmsClient.session(c), q, "one");
  }

  private static void unauthorized() throws Exception {
    Connection c = JmsClient.connect();
    Cell.fails(() -> JmsClient.producer(JmsClient.session(c), "/exchanges/amq.direct/k"), "JMSSecurity");
    String q = Cell.queue("q");
    Cell.fails(() -> JmsClient.consumer(JmsClient.session(c), Cell.atQueue(q)), "JMSSecurity");
    JmsClient.session(JmsClient.connect()).createTextMessage();
  }

  private static void messageTooLarge() throws Exception {
    String q = Cell.queue("q");
    Connection c = JmsClient.connect();
    Session s = JmsClient.session(c);
    MessageProducer producer = JmsClient.producer(s, Cell.atQueue(q));
    BytesMessage large = s.createBytesMessage();
    large.writeBytes(new byte[LIMIT + 1]);
    Cell.fails(() -> producer.send(large), "message-size-exceeded");
    JmsClient.sendTo(JmsClient.session(c), q, "small");
    Cell.equal(Cell.ready(q), 1, "messages");
  }
}
