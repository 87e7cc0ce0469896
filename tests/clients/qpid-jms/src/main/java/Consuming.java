import jakarta.jms.Connection;
import jakarta.jms.DeliveryMode;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.QueueBrowser;
import jakarta.jms.Session;
import jakarta.jms.TemporaryQueue;
import java.util.Collections;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;

/** Scenarios of receiving. */
final class Consuming {
  private static final int BACKLOG = 20_000;
  private static final int LONG_MS = 600_000;

  private Consuming() {}

  static void add(Map<String, Cell.Scenario> all) {
    all.put("outcomes", Consuming::outcomes);
    all.put("dead_letter", Consuming::deadLetter);
    all.put("ttl", Consuming::ttl);
    all.put("detach_requeues", Consuming::detachRequeues);
    all.put("credit", Consuming::credit);
    all.put("drain", Consuming::drain);
    all.put("settled_receive", Consuming::settledReceive);
    all.put("two_receivers", Consuming::twoReceivers);
    all.put("backlog", Consuming::backlog);
    all.put("dynamic_node", Consuming::dynamicNode);
    all.put("request_reply", Consuming::requestReply);
    all.put("browse", Consuming::browse);
    all.put("transactions", Consuming::transactions);
  }

  private static void outcomes() throws Exception {
    String q = Cell.queue("q");
    Connection c = JmsClient.connect();
    Session s = c.createSession(JmsClient.INDIVIDUAL);
    MessageProducer producer = JmsClient.producer(s, Cell.atQueue(q));
    MessageConsumer consumer = JmsClient.consumer(s, Cell.atQueue(q));
    JmsClient.send(s, producer, "accepted");
    JmsClient.next(consumer).acknowledge();
    JmsClient.send(s, producer, "rejected");
    JmsClient.settle(JmsClient.next(consumer), JmsClient.REJECTED);
    JmsClient.send(s, producer, "released");
    JmsClient.settle(JmsClient.next(consumer), JmsClient.RELEASED);
    again(JmsClient.next(consumer), "released", 0);
    JmsClient.send(s, producer, "failed");
    JmsClient.settle(JmsClient.next(consumer), JmsClient.FAILED);
    again(JmsClient.next(consumer), "failed", 1);
    JmsClient.send(s, producer, "undeliverable");
    JmsClient.settle(JmsClient.next(consumer), JmsClient.UNDELIVERABLE);
    JmsClient.send(s, producer, "last");
    Message last = JmsClient.next(consumer);
    Cell.equal(JmsClient.text(last), "last", "body");
    last.acknowledge();
    c.close();
    Cell.equal(Cell.ready(q), 0, "messages");
  }

  /** A message that came before and failed so often; JMS counts deliveries from 1 and knows no first-acquirer. */
  private static void again(Message message, String name, int failures) throws Exception {
    Cell.equal(JmsClient.text(message), name, "body");
    Cell.equal(JmsClient.deliveries(message), failures + 1, "JMSXDeliveryCount");
    Cell.equal(message.getJMSRedelivered(), failures > 0, "JMSRedelivered");
    message.acknowledge();
  }

  private static String withDead(String dead) throws Exception {
    return Cell.queue("q", "{\"x-dead-letter-exchange\": \"\", \"x-dead-letter-routing-key\": " + Cell.json(dead) + "}");
  }

  /** The annotations of a death aren't in the API: that they come is all. */
  private static void deadLetter() throws Exception {
    String dead = Cell.queue("dead");
    String q = withDead(dead);
    Connection c = JmsClient.connect();
    Session s = c.createSession(JmsClient.INDIVIDUAL);
    MessageConsumer consumer = JmsClient.consumer(s, Cell.atQueue(q));
    MessageConsumer buried = JmsClient.consumer(JmsClient.session(c), Cell.atQueue(dead));
    JmsClient.sendTo(s, q, "rejected");
    JmsClient.settle(JmsClient.next(consumer), JmsClient.REJECTED);
    JmsClient.bodies(buried, "rejected");
    JmsClient.sendTo(s, q, "undeliverable");
    JmsClient.settle(JmsClient.next(consumer), JmsClient.UNDELIVERABLE);
    JmsClient.bodies(buried, "undeliverable");
  }

  private static void ttl() throws Exception {
    String dead = Cell.queue("dead");
    String q = withDead(dead);
    // Otherwise the library drops what is past its absolute-expiry-time, which a dead letter keeps.
    Session s = JmsClient.session(JmsClient.connect("jms.localMessageExpiry=false"));
    MessageProducer producer = JmsClient.producer(s, Cell.atQueue(q));
    producer.send(s.createTextMessage("short"), DeliveryMode.PERSISTENT, 4, 1);
    JmsClient.bodies(JmsClient.consumer(s, Cell.atQueue(dead)), "short");
    producer.send(s.createTextMessage("long"), DeliveryMode.PERSISTENT, 4, LONG_MS);
    JmsClient.transientTo(s, producer, "transient");
    MessageConsumer consumer = JmsClient.consumer(s, Cell.atQueue(q));
    Message came = JmsClient.next(consumer);
    Cell.equal(JmsClient.text(came), "long", "body");
    Cell.equal(came.getJMSDeliveryMode(), DeliveryMode.PERSISTENT, "delivery mode");
    Cell.equal(came.getJMSPriority(), 4, "priority");
    Cell.check(came.getJMSExpiration() > came.getJMSTimestamp(), "expiration " + came.getJMSExpiration());
    came = JmsClient.next(consumer);
    Cell.equal(JmsClient.text(came), "transient", "body");
    Cell.equal(came.getJMSDeliveryMode(), DeliveryMode.NON_PERSISTENT, "delivery mode");
    Cell.equal(came.getJMSPriority(), 9, "priority");
  }

  private static void detachRequeues() throws Exception {
    String q = Cell.queue("q");
    Connection c = JmsClient.connect();
    String[] names = Cell.numbered(0, 10);
    JmsClient.sendTo(JmsClient.session(c), q, names);
    // A consumer that is closed gives back what the application hasn't seen.
    MessageConsumer unseen = JmsClient.consumer(JmsClient.session(c), Cell.atQueue(q));
    JmsClient.bodies(unseen, "m0");
    unseen.close();
    JmsClient.sendTo(JmsClient.session(c), q, "m10");
    names = Cell.numbered(1, 11);
    Session second = c.createSession(Session.CLIENT_ACKNOWLEDGE);
    JmsClient.bodies(JmsClient.consumer(second, Cell.atQueue(q)), names);
    second.close();
    Connection other = JmsClient.connect();
    JmsClient.bodies(JmsClient.consumer(other.createSession(Session.CLIENT_ACKNOWLEDGE), Cell.atQueue(q)), names);
    other.close();
    JmsClient.bodies(JmsClient.consumer(JmsClient.session(c), Cell.atQueue(q)), names);
  }

  private static void credit() throws Exception {
    String q = Cell.queue("q");
    Connection c = JmsClient.connect("jms.prefetchPolicy.all=1");
    JmsClient.sendTo(JmsClient.session(c), q, Cell.numbered(0, 20));
    Session s = c.createSession(Session.CLIENT_ACKNOWLEDGE);
    MessageConsumer consumer = JmsClient.consumer(s, Cell.atQueue(q));
    Message first = JmsClient.next(consumer);
    Cell.equal(JmsClient.text(first), "m0", "body");
    first.acknowledge();
    JmsClient.bodies(consumer, Cell.numbered(1, 11));
    JmsClient.next(consumer).acknowledge();
    JmsClient.bodies(consumer, Cell.numbered(12, 20));
    JmsClient.sendTo(JmsClient.session(c), q, "new");
    JmsClient.bodies(consumer, "new");
  }

  /** Without prefetch the library drains whenever it has waited in vain. */
  private static void drain() throws Exception {
    String q = Cell.queue("q");
    Connection c = JmsClient.connect("jms.prefetchPolicy.all=0");
    Session s = JmsClient.session(c);
    MessageConsumer consumer = JmsClient.consumer(s, Cell.atQueue(q));
    JmsClient.nothing(consumer);
    JmsClient.sendTo(s, q, Cell.numbered(0, 3));
    JmsClient.bodies(consumer, Cell.numbered(0, 3));
    JmsClient.nothing(consumer);
    JmsClient.nothing(consumer);
    JmsClient.sendTo(s, q, "afterwards");
    Cell.equal(Cell.ready(q), 1, "messages");
    JmsClient.bodies(consumer, "afterwards");
  }

  private static void settledReceive() throws Exception {
    String q = Cell.queue("q");
    Connection c = JmsClient.connect("jms.presettlePolicy.presettleConsumers=true");
    Session s = JmsClient.session(c);
    JmsClient.sendTo(s, q, Cell.numbered(0, 10));
    JmsClient.bodies(JmsClient.consumer(s, Cell.atQueue(q)), Cell.numbered(0, 10));
    c.close();
    Cell.equal(Cell.ready(q), 0, "messages");
  }

  private static void twoReceivers() throws Exception {
    String a = Cell.queue("a");
    String b = Cell.queue("b");
    Connection c = JmsClient.connect("jms.prefetchPolicy.all=10");
    Session s = JmsClient.session(c);
    MessageConsumer fromA = JmsClient.consumer(s, Cell.atQueue(a));
    MessageConsumer fromB = JmsClient.consumer(s, Cell.atQueue(b));
    JmsClient.sendTo(s, a, Cell.numbered(0, 200));
    JmsClient.sendTo(s, b, Cell.numbered(200, 400));
    for (int i = 0; i < 200; i++) {
      JmsClient.bodies(fromA, "m" + i);
      JmsClient.bodies(fromB, "m" + (200 + i));
    }
    BlockingQueue<String> seen = new LinkedBlockingQueue<>();
    Set<String> shares = Collections.synchronizedSet(new HashSet<>());
    fromA.close();
    for (String who : new String[] {"one", "two"}) {
      Session own = JmsClient.session(c);
      JmsClient.consumer(own, Cell.atQueue(a)).setMessageListener(message -> {
        try {
          shares.add(who);
          seen.add(JmsClient.text(message));
        } catch (Exception problem) {
          seen.add(problem.toString());
        }
      });
    }
    JmsClient.sendTo(JmsClient.session(c), a, Cell.numbered(0, 100));
    Set<String> names = new HashSet<>();
    for (int i = 0; i < 100; i++) {
      String name = Cell.take(seen, "message");
      Cell.check(names.add(name), name + " came twice");
    }
    Cell.equal(shares.size(), 2, "consumers that got some");
  }

  private static void backlog() throws Exception {
    String q = Cell.queue("q");
    Connection c = JmsClient.connect("jms.prefetchPolicy.all=100");
    Session s = JmsClient.session(c);
    MessageProducer producer = JmsClient.producer(s, Cell.atQueue(q));
    java.util.concurrent.CountDownLatch accepted = new java.util.concurrent.CountDownLatch(BACKLOG);
    BlockingQueue<Exception> problems = new LinkedBlockingQueue<>();
    jakarta.jms.CompletionListener listener = new jakarta.jms.CompletionListener() {
      @Override
      public void onCompletion(Message message) {
        accepted.countDown();
      }

      @Override
      public void onException(Message message, Exception exception) {
        problems.add(exception);
      }
    };
    for (String name : Cell.numbered(0, BACKLOG)) {
      producer.send(s.createTextMessage(name), listener);
    }
    boolean all = accepted.await(Cell.PATIENCE_MS, java.util.concurrent.TimeUnit.MILLISECONDS);
    Cell.check(all, accepted.getCount() + " weren't accepted " + problems);
    JmsClient.bodies(JmsClient.consumer(s, Cell.atQueue(q)), Cell.numbered(0, BACKLOG));
    c.close();
    Cell.equal(Cell.ready(q), 0, "messages");
  }

  private static void dynamicNode() throws Exception {
    Connection c = JmsClient.connect();
    Session s = JmsClient.session(c);
    TemporaryQueue temporary = s.createTemporaryQueue();
    String address = temporary.getQueueName();
    Cell.check(address.startsWith("/queues/"), address);
    MessageConsumer consumer = s.createConsumer(temporary);
    JmsClient.send(s, JmsClient.producer(s, address), "one");
    JmsClient.bodies(consumer, "one");
    Session other = JmsClient.session(JmsClient.connect());
    Cell.fails(() -> JmsClient.consumer(other, address), "resource-locked");
    consumer.close();
    temporary.delete();
    Cell.fails(() -> JmsClient.consumer(s, address), "not-found", "InvalidDestination");
  }

  private static void requestReply() throws Exception {
    String q = Cell.queue("requests");
    Connection c = JmsClient.connect();
    Session server = JmsClient.session(c);
    MessageConsumer requests = JmsClient.consumer(server, Cell.atQueue(q));
    MessageProducer answers = JmsClient.producer(server, null);
    Session s = JmsClient.session(c);
    TemporaryQueue replies = s.createTemporaryQueue();
    MessageConsumer inbox = s.createConsumer(replies);
    MessageProducer asker = JmsClient.producer(s, Cell.atQueue(q));
    for (int i = 0; i < 3; i++) {
      Message question = s.createTextMessage("question");
      question.setJMSReplyTo(replies);
      asker.send(question);
      Message asked = JmsClient.next(requests);
      Message answer = server.createTextMessage("answer");
      answer.setJMSCorrelationID(asked.getJMSMessageID());
      answers.send(asked.getJMSReplyTo(), answer);
      Message came = JmsClient.next(inbox);
      Cell.equal(JmsClient.text(came), "answer", "body");
      Cell.equal(came.getJMSCorrelationID(), question.getJMSMessageID(), "correlation-id");
    }
  }

  private static void browse() throws Exception {
    String q = Cell.queue("q");
    Session s = JmsClient.session(JmsClient.connect());
    String[] names = Cell.numbered(0, 5);
    JmsClient.sendTo(s, q, names);
    for (int i = 0; i < 2; i++) {
      QueueBrowser browser = s.createBrowser(s.createQueue(Cell.atQueue(q)));
      java.util.Enumeration<?> messages = browser.getEnumeration();
      for (String name : names) {
        Cell.check(messages.hasMoreElements(), "the browser ends before " + name);
        Cell.equal(JmsClient.text((Message) messages.nextElement()), name, "body");
      }
      Cell.check(!messages.hasMoreElements(), "the browser sees more");
      browser.close();
    }
    MessageConsumer consumer = JmsClient.consumer(s, Cell.atQueue(q));
    for (String name : names) {
      Message message = JmsClient.next(consumer);
      Cell.equal(JmsClient.text(message), name, "body");
      Cell.check(!message.getJMSRedelivered() && JmsClient.deliveries(message) == 1, "it counts as delivered before");
    }
  }

  private static void transactions() throws Exception {
    String q = Cell.queue("q");
    Connection c = JmsClient.connect();
    Session s = c.createSession(Session.SESSION_TRANSACTED);
    MessageProducer producer = JmsClient.producer(s, Cell.atQueue(q));
    JmsClient.send(s, producer, "one", "two");
    Cell.equal(Cell.ready(q), 0, "messages before the commit");
    s.commit();
    Cell.equal(Cell.ready(q), 2, "messages after the commit");
    JmsClient.send(s, producer, "never", "ever");
    s.rollback();
    Cell.equal(Cell.ready(q), 2, "messages after the rollback");
    MessageConsumer consumer = JmsClient.consumer(s, Cell.atQueue(q));
    JmsClient.bodies(consumer, "one", "two");
    s.rollback();
    JmsClient.bodies(consumer, "one", "two");
    s.commit();
    c.close();
    Cell.equal(Cell.ready(q), 0, "messages in the end");
  }
}
