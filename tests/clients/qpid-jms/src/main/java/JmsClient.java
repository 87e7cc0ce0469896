// The AMQP 1.0 and JMS scenarios of the client tables, with Qpid JMS. tests/clients/AMQP10.md says what each does.

import jakarta.jms.BytesMessage;
import jakarta.jms.Connection;
import jakarta.jms.DeliveryMode;
import jakarta.jms.Destination;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Session;
import jakarta.jms.TextMessage;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.qpid.jms.JmsConnectionFactory;

public final class JmsClient {
  /** The library's own mode, and the property that says which outcome an acknowledgement is. */
  static final int INDIVIDUAL = 101;
  static final String ACK_TYPE = "JMS_AMQP_ACK_TYPE";
  static final int REJECTED = 2;
  static final int RELEASED = 3;
  static final int FAILED = 4;
  static final int UNDELIVERABLE = 5;

  private JmsClient() {}

  public static void main(String[] arguments) {
    Map<String, Cell.Scenario> all = new HashMap<>();
    Connections.add(all);
    Producing.add(all);
    Consuming.add(all);
    Refusals.add(all);
    Jms.add(all);
    Cell.main(arguments, all);
  }

  static JmsConnectionFactory factory(String options) {
    return at(broker() + "?" + options);
  }

  static String broker() {
    return (Cell.tls == null ? "amqp://" : "amqps://") + Cell.host + ":" + Cell.port;
  }

  static JmsConnectionFactory at(String uri) {
    JmsConnectionFactory factory = new JmsConnectionFactory("guest", "guest", uri);
    if (Cell.tls != null) {
      factory.setSslContext(Cell.tls);
    }
    return factory;
  }

  /** A started connection. */
  static Connection connect(String options) throws JMSException {
    Connection connection = factory(options).createConnection();
    connection.start();
    return connection;
  }

  static Connection connect() throws JMSException {
    return connect("");
  }

  static Session session(Connection connection) throws JMSException {
    return connection.createSession(Session.AUTO_ACKNOWLEDGE);
  }

  static MessageProducer producer(Session session, String address) throws JMSException {
    return session.createProducer(address == null ? null : session.createQueue(address));
  }

  static MessageConsumer consumer(Session session, String address) throws JMSException {
    return session.createConsumer(session.createQueue(address));
  }

  /** Sends durable messages, each of which is accepted before the next. */
  static void send(Session session, MessageProducer producer, String... bodies) throws JMSException {
    for (String body : bodies) {
      producer.send(session.createTextMessage(body));
    }
  }

  static void sendTo(Session session, String queue, String... bodies) throws JMSException {
    MessageProducer producer = producer(session, Cell.atQueue(queue));
    send(session, producer, bodies);
    producer.close();
  }

  static void transientTo(Session session, MessageProducer producer, String body) throws JMSException {
    producer.send(session.createTextMessage(body), DeliveryMode.NON_PERSISTENT, 9, 0);
  }

  static Message next(MessageConsumer consumer) throws JMSException {
    Message message = consumer.receive(Cell.PATIENCE_MS);
    Cell.check(message != null, "no message");
    return message;
  }

  static String text(Message message) throws JMSException {
    if (message instanceof BytesMessage bytes) {
      byte[] body = new byte[(int) bytes.getBodyLength()];
      bytes.readBytes(body);
      return new String(body, java.nio.charset.StandardCharsets.UTF_8);
    }
    return ((TextMessage) message).getText();
  }

  /** Receives these, in this order; what acknowledges them is the session's mode. */
  static void bodies(MessageConsumer consumer, String... expected) throws JMSException {
    for (String want : expected) {
      Cell.equal(text(next(consumer)), want, "body");
    }
  }

  /** Nothing comes: the library drains its credit and gets no message. */
  static void nothing(MessageConsumer consumer) throws JMSException {
    Message message = consumer.receiveNoWait();
    Cell.check(message == null, "a message that wasn't expected");
  }

  static void settle(Message message, int outcome) throws JMSException {
    message.setIntProperty(ACK_TYPE, outcome);
    message.acknowledge();
  }

  static int deliveries(Message message) throws JMSException {
    return message.getIntProperty("JMSXDeliveryCount");
  }

  static String address(Destination destination) throws JMSException {
    return ((jakarta.jms.Queue) destination).getQueueName();
  }

  /** Hears of the end of a connection. */
  static BlockingQueue<Throwable> watch(Connection connection) throws JMSException {
    BlockingQueue<Throwable> problems = new LinkedBlockingQueue<>();
    connection.setExceptionListener(problems::add);
    return problems;
  }

  static List<String> texts(MessageConsumer consumer, int count) throws JMSException {
    List<String> texts = new ArrayList<>();
    for (int i = 0; i < count; i++) {
      texts.add(text(next(consumer)));
    }
    return texts;
  }
}
