import jakarta.jms.Connection;
import jakarta.jms.DeliveryMode;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.QueueBrowser;
import jakarta.jms.Session;
import java.util.Enumeration;
import java.util.Map;

/** Scenarios of JMS itself, of the table of JMS. */
final class Jms {
  private Jms() {}

  static void add(Map<String, Cell.Scenario> all) {
    all.put("jms_properties", Jms::properties);
    all.put("jms_acknowledge_modes", Jms::acknowledgeModes);
    all.put("jms_redelivery", Jms::redelivery);
    all.put("jms_selectors", Jms::selectors);
    all.put("jms_transacted_session", Jms::transactedSession);
    all.put("jms_browser_beside_consumer", Jms::browserBesideConsumer);
  }

  private static void properties() throws Exception {
    String q = Cell.queue("q");
    Session s = JmsClient.session(JmsClient.connect());
    MessageProducer producer = JmsClient.producer(s, Cell.atQueue(q));
    Message m = s.createTextMessage("body");
    m.setBooleanProperty("boolean", true);
    m.setByteProperty("byte", Byte.MIN_VALUE);
    m.setShortProperty("short", Short.MIN_VALUE);
    m.setIntProperty("int", Integer.MIN_VALUE);
    m.setLongProperty("long", Long.MIN_VALUE);
    m.setFloatProperty("float", 1.5f);
    m.setDoubleProperty("double", 2.25);
    m.setStringProperty("string", "ключ ✓");
    m.setStringProperty("JMSXGroupID", "group");
    m.setIntProperty("JMSXGroupSeq", 7);
    m.setJMSType("type");
    m.setJMSCorrelationID("correlation");
    m.setJMSReplyTo(s.createQueue("/queues/answers"));
    producer.send(m, DeliveryMode.PERSISTENT, 7, 600_000);
    Message came = JmsClient.next(JmsClient.consumer(s, Cell.atQueue(q)));
    for (String name : new String[] {"boolean", "byte", "short", "int", "long", "float", "double", "string",
        "JMSXGroupID", "JMSXGroupSeq"}) {
      Cell.equal(came.getObjectProperty(name), m.getObjectProperty(name), name);
    }
    Cell.equal(came.getJMSType(), "type", "JMSType");
    Cell.equal(came.getJMSCorrelationID(), "correlation", "JMSCorrelationID");
    Cell.equal(came.getJMSMessageID(), m.getJMSMessageID(), "JMSMessageID");
    Cell.equal(came.getJMSTimestamp(), m.getJMSTimestamp(), "JMSTimestamp");
    Cell.equal(came.getJMSExpiration(), m.getJMSExpiration(), "JMSExpiration");
    Cell.equal(came.getJMSPriority(), 7, "JMSPriority");
    Cell.equal(came.getJMSDeliveryMode(), DeliveryMode.PERSISTENT, "JMSDeliveryMode");
    Cell.equal(JmsClient.address(came.getJMSReplyTo()), "/queues/answers", "JMSReplyTo");
    Cell.equal(JmsClient.address(came.getJMSDestination()), Cell.atQueue(q), "JMSDestination");
    Cell.check(!came.getJMSRedelivered() && JmsClient.deliveries(came) == 1, "delivered before");
  }

  private static void acknowledgeModes() throws Exception {
    String q = Cell.queue("q");
    Connection c = JmsClient.connect();
    for (int mode : new int[] {Session.AUTO_ACKNOWLEDGE, Session.DUPS_OK_ACKNOWLEDGE}) {
      Session s = c.createSession(mode);
      JmsClient.sendTo(s, q, "one", "two");
      JmsClient.bodies(JmsClient.consumer(s, Cell.atQueue(q)), "one", "two");
      s.close();
      Cell.equal(Cell.ready(q), 0, "messages after mode " + mode);
    }
    Session client = c.createSession(Session.CLIENT_ACKNOWLEDGE);
    JmsClient.sendTo(client, q, Cell.numbered(0, 4));
    MessageConsumer consumer = JmsClient.consumer(client, Cell.atQueue(q));
    JmsClient.bodies(consumer, "m0", "m1");
    // It acknowledges all that the session received up to now.
    JmsClient.next(consumer).acknowledge();
    JmsClient.bodies(consumer, "m3");
    client.close();
    Session individual = c.createSession(JmsClient.INDIVIDUAL);
    consumer = JmsClient.consumer(individual, Cell.atQueue(q));
    JmsClient.sendTo(individual, q, "m4");
    JmsClient.bodies(consumer, "m3");
    JmsClient.next(consumer).acknowledge();
    individual.close();
    Session last = JmsClient.session(c);
    JmsClient.bodies(JmsClient.consumer(last, Cell.atQueue(q)), "m3");
    last.close();
    Cell.equal(Cell.ready(q), 0, "messages in the end");
  }

  private static void redelivery() throws Exception {
    String q = Cell.queue("q");
    Connection c = JmsClient.connect();
    Session s = c.createSession(Session.CLIENT_ACKNOWLEDGE);
    JmsClient.sendTo(s, q, "one");
    MessageConsumer consumer = JmsClient.consumer(s, Cell.atQueue(q));
    for (int delivery = 1; delivery <= 3; delivery++) {
      Message message = JmsClient.next(consumer);
      Cell.equal(JmsClient.deliveries(message), delivery, "JMSXDeliveryCount");
      Cell.equal(message.getJMSRedelivered(), delivery > 1, "JMSRedelivered");
      if (delivery < 3) {
        s.recover();
      } else {
        message.acknowledge();
      }
    }
    c.close();
    Cell.equal(Cell.ready(q), 0, "messages");
  }

  /** Consumers with selectors share a queue; what a selector can't be is refused, and the connection goes on. */
  private static void selectors() throws Exception {
    String q = Cell.queue("q");
    Connection c = JmsClient.connect();
    Session s = JmsClient.session(c);
    MessageProducer producer = JmsClient.producer(s, Cell.atQueue(q));
    MessageConsumer red = s.createConsumer(s.createQueue(Cell.atQueue(q)), "colour = 'red' AND size > 1");
    MessageConsumer other =
        s.createConsumer(s.createQueue(Cell.atQueue(q)), "colour NOT LIKE 'r%' OR JMSType = 'x'");
    String[] colours = {"red", "blue", "red", "green"};
    for (int at = 0; at < colours.length; at++) {
      Message message = s.createTextMessage("m" + at);
      message.setStringProperty("colour", colours[at]);
      message.setIntProperty("size", at);
      producer.send(message);
    }
    JmsClient.bodies(red, "m2");
    JmsClient.bodies(other, "m1", "m3");
    Session wrong = JmsClient.session(c);
    Cell.fails(() -> wrong.createConsumer(wrong.createQueue(Cell.atQueue(q)), "colour ="), "elector");
    JmsClient.bodies(JmsClient.consumer(JmsClient.session(c), Cell.atQueue(q)), "m0");
  }

  /** What is received and what is sent in one transaction, over two queues. */
  private static void transactedSession() throws Exception {
    String in = Cell.queue("in");
    String out = Cell.queue("out");
    Connection c = JmsClient.connect();
    JmsClient.sendTo(JmsClient.session(c), in, "m0", "m1");
    Session s = c.createSession(Session.SESSION_TRANSACTED);
    MessageConsumer consumer = JmsClient.consumer(s, Cell.atQueue(in));
    MessageProducer producer = JmsClient.producer(s, Cell.atQueue(out));
    JmsClient.bodies(consumer, "m0");
    JmsClient.send(s, producer, "of m0");
    s.rollback();
    Cell.equal(Cell.ready(out), 0, "messages after the rollback");
    Message again = JmsClient.next(consumer);
    Cell.equal(JmsClient.text(again), "m0", "body");
    Cell.check(again.getJMSRedelivered() && JmsClient.deliveries(again) == 2, "not redelivered");
    JmsClient.send(s, producer, "of m0");
    s.commit();
    JmsClient.bodies(consumer, "m1");
    JmsClient.send(s, producer, "of m1");
    s.commit();
    JmsClient.bodies(JmsClient.consumer(JmsClient.session(c), Cell.atQueue(out)), "of m0", "of m1");
    // A transaction that its connection takes with it is rolled back.
    Connection other = JmsClient.connect();
    Session lost = other.createSession(Session.SESSION_TRANSACTED);
    JmsClient.send(lost, JmsClient.producer(lost, Cell.atQueue(out)), "never");
    other.close();
    c.close();
    Cell.equal(Cell.ready(in) + Cell.ready(out), 0, "messages in the end");
  }

  private static void browserBesideConsumer() throws Exception {
    String q = Cell.queue("q");
    Connection c = JmsClient.connect("jms.prefetchPolicy.queuePrefetch=1");
    JmsClient.sendTo(JmsClient.session(c), q, Cell.numbered(0, 4));
    Session s = c.createSession(Session.CLIENT_ACKNOWLEDGE);
    MessageConsumer consumer = JmsClient.consumer(s, Cell.atQueue(q));
    Message held = JmsClient.next(consumer);
    Cell.equal(JmsClient.text(held), "m0", "body");
    Session other = JmsClient.session(c);
    QueueBrowser browser = other.createBrowser(other.createQueue(Cell.atQueue(q)));
    Enumeration<?> messages = browser.getEnumeration();
    int seen = 0;
    String last = "";
    while (messages.hasMoreElements()) {
      last = JmsClient.text((Message) messages.nextElement());
      seen++;
    }
    // The held one, and the one that was sent ahead, aren't shown; the rest are, the last included.
    Cell.check(seen >= 2 && last.equals("m3"), seen + " messages, the last " + last);
    browser.close();
    held.acknowledge();
    JmsClient.bodies(consumer, "m1", "m2", "m3");
  }
}
