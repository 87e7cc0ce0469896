import com.rabbitmq.client.amqp.BackOffDelayPolicy;
import com.rabbitmq.client.amqp.Connection;
import com.rabbitmq.client.amqp.ConnectionSettings;
import com.rabbitmq.client.amqp.Publisher;
import com.rabbitmq.client.amqp.Resource;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** Scenarios of connections. */
final class Connections {
  private static final int LINKS = 25;
  private static final Duration IDLE = Duration.ofSeconds(2);

  private Connections() {}

  static void add(Map<String, Cell.Scenario> all) {
    all.put("login", Connections::login);
    all.put("vhost", Connections::vhost);
    all.put("many_links", Connections::manyLinks);
    all.put("heartbeats", Connections::heartbeats);
    all.put("heartbeat_loss", Connections::heartbeatLoss);
    all.put("reconnect", Connections::reconnect);
    all.put("shutdown", Connections::shutdown);
    all.put("framing_error", Connections::framingError);
  }

  private static void login() {
    RabbitClient.connect().close();
    RabbitClient.builder().saslMechanism(ConnectionSettings.SASL_MECHANISM_ANONYMOUS).build().close();
    Cell.fails(() -> RabbitClient.builder().password("wrong").build(), "Security", "auth");
  }

  private static void vhost() throws Exception {
    String q = Cell.queue("q");
    RabbitClient.send(RabbitClient.toQueue(RabbitClient.builder().virtualHost("/").build(), q), "one");
    Cell.equal(Cell.ready(q), 1, "messages");
    // The library may come to know of the close only when it uses the connection.
    Cell.fails(() -> RabbitClient.toQueue(RabbitClient.builder().virtualHost("no such").build(), q),
        "unauthorized-access", "no such");
  }

  private static void manyLinks() throws Exception {
    Connection connection = RabbitClient.connect();
    List<RabbitClient.Inbox> inboxes = new ArrayList<>();
    for (int i = 0; i < LINKS; i++) {
      String q = Cell.queue("" + i);
      inboxes.add(RabbitClient.inbox(connection, q, 1));
      RabbitClient.send(RabbitClient.toQueue(connection, q), "m" + i);
    }
    for (int i = 0; i < LINKS; i++) {
      inboxes.get(i).bodies("m" + i);
    }
  }

  private static void heartbeats() throws Exception {
    String q = Cell.queue("q");
    List<Connection> opened = RabbitClient.none();
    BlockingQueue<Throwable> closes = RabbitClient.watch(RabbitClient.builder().idleTimeout(IDLE), opened);
    // The library closes a connection on which nothing came for the idle timeout.
    Throwable close = closes.poll(IDLE.toMillis() * 3 / 2, TimeUnit.MILLISECONDS);
    Cell.check(close == null, "the library missed the heartbeats: " + close);
    RabbitClient.send(RabbitClient.toQueue(opened.get(0), q), "one");
  }

  private static void heartbeatLoss() throws Exception {
    BlockingQueue<Throwable> closes = RabbitClient.watch(RabbitClient.builder(), RabbitClient.none());
    Cell.ask("mute", "closed");
    Cell.take(closes, "close");
  }

  private static void reconnect() throws Exception {
    String q = Cell.queue("q");
    BlockingQueue<Resource.State> states = new LinkedBlockingQueue<>();
    Connection connection = RabbitClient.builder()
        .recovery().activated(true).backOffDelayPolicy(BackOffDelayPolicy.fixed(Duration.ofMillis(200)))
        .connectionBuilder().listeners(context -> states.add(context.currentState())).build();
    BlockingQueue<Resource.State> publisherStates = new LinkedBlockingQueue<>();
    Publisher publisher = connection.publisherBuilder().queue(q)
        .listeners(context -> publisherStates.add(context.currentState())).build();
    RabbitClient.send(publisher, "kept");
    states.clear();
    publisherStates.clear();
    Cell.ask("ready kill", "go");
    // The library comes again by itself, and its publisher goes on.
    while (Cell.take(states, "recovery") != Resource.State.OPEN) {}
    while (Cell.take(publisherStates, "recovery of the publisher") != Resource.State.OPEN) {}
    RabbitClient.Inbox inbox = RabbitClient.inbox(connection, q, 2);
    RabbitClient.Delivery delivery = inbox.next();
    Cell.equal(delivery.body(), "kept", "body");
    Cell.check(delivery.message().durable(), "not durable");
    delivery.context().accept();
    RabbitClient.send(publisher, "another");
    inbox.bodies("another");
  }

  private static void shutdown() throws Exception {
    BlockingQueue<Throwable> closes = RabbitClient.watch(RabbitClient.builder(), RabbitClient.none());
    Cell.ask("ready term", "go");
    Cell.says(Cell.take(closes, "close"), "Connection forced");
  }

  private static void framingError() throws Exception {
    String q = Cell.queue("q");
    Publisher other = RabbitClient.toQueue(RabbitClient.connect(), q);
    BlockingQueue<Throwable> closes = RabbitClient.watch(RabbitClient.builder(), RabbitClient.none());
    Cell.ask("inject 0000000302000000", "done");
    Cell.says(Cell.take(closes, "close"), "framing-error");
    RabbitClient.send(other, "one");
  }
}
