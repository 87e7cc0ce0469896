import jakarta.jms.Connection;
import jakarta.jms.DeliveryMode;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Session;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.qpid.jms.JmsConnection;
import org.apache.qpid.jms.JmsConnectionFactory;
import org.apache.qpid.jms.JmsConnectionListener;

/** Scenarios of connections. */
final class Connections {
  private static final int LINKS = 50;
  private static final int IDLE_MS = 2000;

  private Connections() {}

  static void add(Map<String, Cell.Scenario> all) {
    all.put("login", Connections::login);
    all.put("vhost", Connections::vhost);
    all.put("sessions", Connections::sessions);
    all.put("many_links", Connections::manyLinks);
    all.put("heartbeats", Connections::heartbeats);
    all.put("heartbeat_loss", Connections::heartbeatLoss);
    all.put("reconnect", Connections::reconnect);
    all.put("shutdown", Connections::shutdown);
    all.put("framing_error", Connections::framingError);
  }

  private static void login() throws Exception {
    JmsClient.connect().close();
    JmsClient.connect("amqp.saslMechanisms=ANONYMOUS").close();
    Cell.fails(() -> {
      JmsConnectionFactory factory = JmsClient.factory("");
      factory.setPassword("wrong");
      factory.createConnection().start();
    }, "JMSSecurity");
  }

  private static void vhost() throws Exception {
    String q = Cell.queue("q");
    JmsClient.sendTo(JmsClient.session(JmsClient.connect("amqp.vhost=vhost:%2F")), q, "one");
    Cell.equal(Cell.ready(q), 1, "messages");
    Cell.fails(() -> JmsClient.connect("amqp.vhost=vhost:no%20such"), "unauthorized-access", "JMSSecurity");
  }

  private static void sessions() throws Exception {
    Connection c = JmsClient.connect();
    String a = Cell.queue("a");
    String b = Cell.queue("b");
    Session first = JmsClient.session(c);
    Session second = JmsClient.session(c);
    MessageConsumer fromA = JmsClient.consumer(first, Cell.atQueue(a));
    MessageConsumer fromB = JmsClient.consumer(second, Cell.atQueue(b));
    JmsClient.sendTo(first, a, Cell.numbered(0, 10));
    JmsClient.sendTo(second, b, Cell.numbered(100, 110));
    JmsClient.bodies(fromB, Cell.numbered(100, 110));
    JmsClient.bodies(fromA, Cell.numbered(0, 10));
    first.close();
    JmsClient.sendTo(second, b, Cell.numbered(110, 120));
    JmsClient.bodies(fromB, Cell.numbered(110, 120));
  }

  private static void manyLinks() throws Exception {
    Session s = JmsClient.session(JmsClient.connect());
    List<MessageConsumer> consumers = new ArrayList<>();
    List<MessageProducer> producers = new ArrayList<>();
    for (int i = 0; i < LINKS; i++) {
      String q = Cell.queue("" + i);
      consumers.add(JmsClient.consumer(s, Cell.atQueue(q)));
      producers.add(JmsClient.producer(s, Cell.atQueue(q)));
    }
    for (int i = 0; i < LINKS; i++) {
      JmsClient.send(s, producers.get(i), "m" + i);
    }
    for (int i = 0; i < LINKS; i++) {
      JmsClient.bodies(consumers.get(i), "m" + i);
    }
  }

  private static void heartbeats() throws Exception {
    String q = Cell.queue("q");
    Connection c = JmsClient.connect("amqp.idleTimeout=" + IDLE_MS);
    BlockingQueue<Throwable> problems = JmsClient.watch(c);
    // The library tells the broker half of it, and closes a connection on which nothing came for all of it.
    Throwable problem = problems.poll(IDLE_MS * 3 / 2, TimeUnit.MILLISECONDS);
    Cell.check(problem == null, "the library missed the heartbeats: " + problem);
    JmsClient.sendTo(JmsClient.session(c), q, "one");
  }

  private static void heartbeatLoss() throws Exception {
    Connection c = JmsClient.connect();
    BlockingQueue<Throwable> problems = JmsClient.watch(c);
    Cell.ask("mute", "closed");
    Cell.take(problems, "break");
  }

  private static void reconnect() throws Exception {
    String q = Cell.queue("q");
    String uri = "failover:(" + JmsClient.broker() + ")?failover.reconnectDelay=100"
        + "&failover.useReconnectBackOff=false&failover.maxReconnectAttempts=100";
    Connection c = JmsClient.at(uri).createConnection();
    CountDownLatch restored = new CountDownLatch(1);
    Class<?>[] listener = {JmsConnectionListener.class};
    Object heard = Proxy.newProxyInstance(Connections.class.getClassLoader(), listener, (proxy, event, arguments) -> {
      if (event.getName().equals("onConnectionRestored")) {
        restored.countDown();
      }
      return null;
    });
    ((JmsConnection) c).addConnectionListener((JmsConnectionListener) heard);
    c.start();
    Session s = JmsClient.session(c);
    MessageProducer producer = JmsClient.producer(s, Cell.atQueue(q));
    JmsClient.send(s, producer, "kept");
    Cell.ask("ready kill", "go");
    // The library comes again by itself, and its producer goes on.
    Cell.check(restored.await(Cell.PATIENCE_MS, TimeUnit.MILLISECONDS), "the library didn't connect again");
    MessageConsumer consumer = JmsClient.consumer(s, Cell.atQueue(q));
    jakarta.jms.Message message = JmsClient.next(consumer);
    Cell.equal(JmsClient.text(message), "kept", "body");
    Cell.equal(message.getJMSDeliveryMode(), DeliveryMode.PERSISTENT, "delivery mode");
    JmsClient.send(s, producer, "another");
    JmsClient.bodies(consumer, "another");
  }

  private static void shutdown() throws Exception {
    BlockingQueue<Throwable> problems = JmsClient.watch(JmsClient.connect());
    Cell.ask("ready term", "go");
    Cell.says(Cell.take(problems, "close"), "Connection forced");
  }

  private static void framingError() throws Exception {
    String q = Cell.queue("q");
    Session other = JmsClient.session(JmsClient.connect());
    BlockingQueue<Throwable> problems = JmsClient.watch(JmsClient.connect());
    Cell.ask("inject 0000000302000000", "done");
    Cell.says(Cell.take(problems, "close"), "framing-error");
    JmsClient.sendTo(other, q, "one");
  }
}
