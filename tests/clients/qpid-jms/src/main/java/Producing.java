import jakarta.jms.BytesMessage;
import jakarta.jms.Connection;
import jakarta.jms.DeliveryMode;
import jakarta.jms.JMSException;
import jakarta.jms.MapMessage;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.ObjectMessage;
import jakarta.jms.Session;
import jakarta.jms.StreamMessage;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Map;

/** Scenarios of sending. */
final class Producing {
  private Producing() {}

  static void add(Map<String, Cell.Scenario> all) {
    all.put("publish", Producing::publish);
    all.put("settled_publish", Producing::settledPublish);
    all.put("exchange_target", Producing::exchangeTarget);
    all.put("anonymous_terminus", Producing::anonymousTerminus);
    all.put("unroutable", Producing::unroutable);
    all.put("rejected", Producing::rejected);
    all.put("big_message", Producing::bigMessage);
    all.put("message_ids", Producing::messageIds);
    all.put("bodies", Producing::bodies);
    all.put("from_091", Producing::from091);
    all.put("to_091", Producing::to091);
  }

  private static void publish() throws Exception {
    String q = Cell.queue("q");
    Session s = JmsClient.session(JmsClient.connect());
    JmsClient.sendTo(s, q, Cell.numbered(0, 100));
    Cell.equal(Cell.ready(q), 100, "messages");
    MessageConsumer consumer = JmsClient.consumer(s, Cell.atQueue(q));
    for (String name : Cell.numbered(0, 100)) {
      Message message = JmsClient.next(consumer);
      Cell.equal(JmsClient.text(message), name, "body");
      Cell.equal(message.getJMSDeliveryMode(), DeliveryMode.PERSISTENT, "delivery mode");
    }
  }

  private static void settledPublish() throws Exception {
    String q = Cell.queue("q");
    Session s = JmsClient.session(JmsClient.connect("jms.presettlePolicy.presettleProducers=true"));
    JmsClient.sendTo(s, q, Cell.numbered(0, 100));
    JmsClient.bodies(JmsClient.consumer(s, Cell.atQueue(q)), Cell.numbered(0, 100));
  }

  private static void exchangeTarget() throws Exception {
    String q = Cell.queue("q");
    String x = Cell.exchange("x ä/%", "direct");
    String f = Cell.exchange("f", "fanout");
    Cell.bind(q, x, "k ü/?&");
    Cell.bind(q, f, "");
    Session s = JmsClient.session(JmsClient.connect());
    JmsClient.send(s, JmsClient.producer(s, Cell.atExchange(x, "k ü/?&")), "by key");
    JmsClient.send(s, s.createProducer(s.createTopic("/exchanges/" + Cell.percent(f))), "by fanout");
    JmsClient.bodies(JmsClient.consumer(s, Cell.atQueue(q)), "by key", "by fanout");
  }

  private static void anonymousTerminus() throws Exception {
    String q = Cell.queue("q");
    Cell.bind(q, "amq.direct", Cell.name("k"));
    Session s = JmsClient.session(JmsClient.connect());
    MessageProducer producer = JmsClient.producer(s, null);
    to(s, producer, Cell.atQueue(q), "1");
    to(s, producer, Cell.atExchange("amq.direct", Cell.name("k")), "2");
    Cell.fails(() -> to(s, producer, Cell.atExchange("amq.direct", Cell.name("nowhere")), "lost"), "released by receiver");
    Cell.fails(() -> to(s, producer, Cell.atQueue(Cell.name("missing")), "lost"), "released by receiver");
    Cell.fails(() -> to(s, producer, Cell.atExchange(Cell.name("missing"), "k"), "lost"), "not-found", "no exchange");
    to(s, producer, Cell.atQueue(q), "3");
    JmsClient.bodies(JmsClient.consumer(s, Cell.atQueue(q)), "1", "2", "3");
  }

  private static void to(Session s, MessageProducer producer, String address, String body) throws JMSException {
    producer.send(s.createQueue(address), s.createTextMessage(body));
  }

  private static void unroutable() throws Exception {
    String q = Cell.queue("q");
    Session s = JmsClient.session(JmsClient.connect());
    MessageProducer producer = JmsClient.producer(s, Cell.atExchange("amq.direct", Cell.name("nowhere")));
    Cell.fails(() -> JmsClient.send(s, producer, "lost"), "released by receiver");
    Cell.bind(q, "amq.direct", Cell.name("nowhere"));
    JmsClient.send(s, producer, "found");
    JmsClient.bodies(JmsClient.consumer(s, Cell.atQueue(q)), "found");
  }

  private static void rejected() throws Exception {
    String q = Cell.queue("q", "{\"x-max-length\": 1, \"x-overflow\": \"reject-publish\"}");
    Session s = JmsClient.session(JmsClient.connect());
    MessageProducer producer = JmsClient.producer(s, Cell.atQueue(q));
    JmsClient.send(s, producer, "first");
    Cell.fails(() -> {
      for (int i = 0; i < 10; i++) { // A RabbitMQ queue lets a few pass.
        JmsClient.send(s, producer, "more");
      }
    }, "resource-limit-exceeded");
  }

  private static void bigMessage() throws Exception {
    String q = Cell.queue("q");
    Session s = JmsClient.session(JmsClient.connect("amqp.maxFrameSize=4096"));
    MessageProducer producer = JmsClient.producer(s, Cell.atQueue(q));
    MessageConsumer consumer = JmsClient.consumer(s, Cell.atQueue(q));
    byte[] big = new byte[1 << 20];
    for (int i = 0; i < big.length; i++) {
      big[i] = (byte) (i ^ i >> 8);
    }
    for (int i = 0; i < 2; i++) {
      BytesMessage message = s.createBytesMessage();
      message.writeBytes(big);
      producer.send(message);
      JmsClient.send(s, producer, "small");
      byte[] came = JmsClient.next(consumer).getBody(byte[].class);
      Cell.check(Arrays.equals(came, big), came.length + " bytes came back differently");
      JmsClient.bodies(consumer, "small");
    }
  }

  /** JMS writes the types of identifiers that aren't strings before them. */
  private static void messageIds() throws Exception {
    String q = Cell.queue("q");
    Session s = JmsClient.session(JmsClient.connect());
    MessageProducer producer = JmsClient.producer(s, Cell.atQueue(q));
    MessageConsumer consumer = JmsClient.consumer(s, Cell.atQueue(q));
    for (String id : new String[] {
        "ID:AMQP_ULONG:7", "ID:AMQP_UUID:00000000-0000-0001-0000-000000000002", "ID:AMQP_BINARY:0001FF", "plain text",
        }) {
      Message message = s.createTextMessage("ids");
      message.setJMSCorrelationID(id);
      producer.send(message);
      Message came = JmsClient.next(consumer);
      Cell.equal(came.getJMSCorrelationID(), id, "correlation-id");
      Cell.equal(came.getJMSMessageID(), message.getJMSMessageID(), "message-id");
    }
  }

  private static void bodies() throws Exception {
    String q = Cell.queue("q");
    Session s = JmsClient.session(JmsClient.connect());
    MessageProducer producer = JmsClient.producer(s, Cell.atQueue(q));
    MessageConsumer consumer = JmsClient.consumer(s, Cell.atQueue(q));
    JmsClient.send(s, producer, "ключ ✓");
    JmsClient.bodies(consumer, "ключ ✓");

    producer.send(s.createTextMessage(null));
    Cell.equal(JmsClient.text(JmsClient.next(consumer)), null, "body");

    byte[] bytes = {0, 1, -1};
    BytesMessage binary = s.createBytesMessage();
    binary.writeBytes(bytes);
    producer.send(binary);
    Cell.equal(JmsClient.next(consumer).getBody(byte[].class), bytes, "bytes");

    MapMessage map = s.createMapMessage();
    map.setString("s", "ключ");
    map.setLong("l", Long.MIN_VALUE);
    map.setBytes("b", bytes);
    map.setDouble("d", 2.25);
    producer.send(map);
    MapMessage cameMap = (MapMessage) JmsClient.next(consumer);
    Cell.equal(cameMap.getString("s"), "ключ", "string");
    Cell.equal(cameMap.getLong("l"), Long.MIN_VALUE, "long");
    Cell.equal(cameMap.getBytes("b"), bytes, "bytes");
    Cell.equal(cameMap.getDouble("d"), 2.25, "double");

    StreamMessage stream = s.createStreamMessage();
    stream.writeString("one");
    stream.writeInt(2);
    stream.writeChar('ё');
    producer.send(stream);
    StreamMessage cameStream = (StreamMessage) JmsClient.next(consumer);
    Cell.equal(cameStream.readString(), "one", "string");
    Cell.equal(cameStream.readInt(), 2, "int");
    Cell.equal(cameStream.readChar(), 'ё', "char");

    ObjectMessage object = s.createObjectMessage("an object");
    producer.send(object);
    Cell.equal(((ObjectMessage) JmsClient.next(consumer)).getObject(), "an object", "object");
  }

  private static void from091() throws Exception {
    String q = Cell.queue("q");
    Cell.peer("do", "\"sample\"", "queue", Cell.json(q));
    Session s = JmsClient.session(JmsClient.connect());
    Message m = JmsClient.next(JmsClient.consumer(s, Cell.atQueue(q)));
    Cell.equal(JmsClient.text(m), "body ✓", "body");
    Cell.equal(m.getJMSDeliveryMode(), DeliveryMode.PERSISTENT, "delivery mode");
    Cell.equal(m.getJMSPriority(), 5, "priority");
    Cell.check(m.getJMSMessageID().contains("message"), m.getJMSMessageID());
    Cell.equal(m.getJMSCorrelationID(), "correlation", "correlation-id");
    Cell.equal(JmsClient.address(m.getJMSReplyTo()), "/queues/answers", "reply-to");
    Cell.equal(m.getStringProperty("JMSXGroupID"), "app", "group-id");
    Cell.equal(m.getStringProperty("JMSXUserID"), "guest", "user-id");
    Cell.equal(m.getJMSTimestamp(), 1_700_000_000_000L, "creation-time");
    Cell.equal(m.getLongProperty("b"), 7L, "b");
    Cell.equal(m.getStringProperty("c"), "ключ", "c");
  }

  private static void to091() throws Exception {
    String q = Cell.queue("q");
    Connection c = JmsClient.connect();
    Session s = JmsClient.session(c);
    MessageProducer producer = JmsClient.producer(s, Cell.atQueue(q));
    BytesMessage message = s.createBytesMessage();
    message.writeBytes("body ✓".getBytes(StandardCharsets.UTF_8));
    message.setJMSCorrelationID("correlation");
    message.setJMSReplyTo(s.createQueue("/queues/answers"));
    message.setStringProperty("JMSXGroupID", "app");
    message.setStringProperty("s", "ключ");
    message.setIntProperty("i", 7);
    message.setBooleanProperty("b", true);
    producer.send(message, DeliveryMode.PERSISTENT, 5, 0);
    JmsClient.send(s, producer, "text");
    String came = Cell.get(q);
    for (String part : new String[] {"\"body\":\"body ✓\"", "\"delivery_mode\":2", "\"priority\":5",
        "\"correlation_id\":\"correlation\"", "\"reply_to\":\"answers\"", "\"app_id\":\"app\"", "\"s\":\"ключ\"",
        "\"i\":7", "\"b\":true", "\"content_type\":\"application/octet-stream\""}) {
      Cell.check(came.contains(part), part + " isn't in " + came);
    }
    came = Cell.get(q);
    Cell.check(came.contains("\"type\":\"amqp-1.0\""), "no type in " + came);
  }
}
