// The AMQP 1.0 scenarios of the client table, with RabbitMQ's client for Java. tests/clients/AMQP10.md says what each
// does.

import com.rabbitmq.client.amqp.AddressBuilder;
import com.rabbitmq.client.amqp.AmqpException;
import com.rabbitmq.client.amqp.Connection;
import com.rabbitmq.client.amqp.ConnectionBuilder;
import com.rabbitmq.client.amqp.Consumer;
import com.rabbitmq.client.amqp.ConsumerBuilder;
import com.rabbitmq.client.amqp.Environment;
import com.rabbitmq.client.amqp.Message;
import com.rabbitmq.client.amqp.Publisher;
import com.rabbitmq.client.amqp.PublisherBuilder;
import com.rabbitmq.client.amqp.Resource;
import com.rabbitmq.client.amqp.impl.AmqpEnvironmentBuilder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import javax.net.ssl.SSLContext;

public final class RabbitClient {
  private static final Environment ENVIRONMENT = new AmqpEnvironmentBuilder().build();

  private RabbitClient() {}

  public static void main(String[] arguments) {
    Map<String, Cell.Scenario> all = new HashMap<>();
    Connections.add(all);
    Messages.add(all);
    Managed.add(all);
    Streams.add(all);
    Cell.main(arguments, all);
  }

  record Delivery(Consumer.Context context, Message message) {
    String body() {
      return new String(message.body(), StandardCharsets.UTF_8);
    }
  }

  /** A consumer whose messages wait to be taken. */
  static final class Inbox {
    final BlockingQueue<Delivery> deliveries = new LinkedBlockingQueue<>();
    final BlockingQueue<Throwable> closes = new LinkedBlockingQueue<>();
    final Consumer consumer;

    Inbox(ConsumerBuilder builder) {
      consumer = builder
          .messageHandler((context, message) -> deliveries.add(new Delivery(context, message)))
          .listeners(context -> {
            if (context.currentState() == Resource.State.CLOSED && context.failureCause() != null) {
              closes.add(context.failureCause());
            }
          })
          .build();
    }

    Delivery next() throws InterruptedException {
      return Cell.take(deliveries, "message");
    }

    /** Receives and accepts these, in this order. */
    void bodies(String... expected) throws InterruptedException {
      for (String want : expected) {
        Delivery delivery = next();
        Cell.equal(delivery.body(), want, "body");
        delivery.context().accept();
      }
    }
  }

  static ConnectionBuilder builder() {
    // One thread hands messages over, so that they keep their order.
    return over(ENVIRONMENT.connectionBuilder(), Cell.tls)
        .host(Cell.host).port(Cell.port).username("guest").password("guest")
        .dispatchingExecutor(Executors.newSingleThreadExecutor())
        .recovery().activated(false).connectionBuilder();
  }

  private static ConnectionBuilder over(ConnectionBuilder builder, SSLContext tls) {
    return tls == null ? builder : builder.tls().sslContext(tls).hostnameVerification().connection();
  }

  static Connection connect() {
    return builder().build();
  }

  static Inbox inbox(Connection connection, String queue, int credits) {
    return new Inbox(connection.consumerBuilder().queue(queue).initialCredits(credits));
  }

  static Publisher toQueue(Connection connection, String queue) {
    return connection.publisherBuilder().queue(queue).build();
  }

  static Publisher toExchange(Connection connection, String exchange, String key) {
    PublisherBuilder builder = connection.publisherBuilder().exchange(exchange);
    return (key == null ? builder : builder.key(key)).build();
  }

  static Message durable(Publisher publisher, String body) {
    return publisher.message(body.getBytes(StandardCharsets.UTF_8)).durable(true).priority((byte) 4);
  }

  /** Publishes one message and returns its outcome. */
  static Publisher.Context put(Publisher publisher, Message message) throws InterruptedException {
    BlockingQueue<Publisher.Context> outcomes = new LinkedBlockingQueue<>();
    publisher.publish(message, outcomes::add);
    return Cell.take(outcomes, "outcome");
  }

  static void accepted(Publisher.Context outcome) {
    Cell.equal(outcome.status(), Publisher.Status.ACCEPTED, "outcome (" + outcome.failureCause() + ")");
  }

  static void released(Publisher.Context outcome) {
    Cell.equal(outcome.status(), Publisher.Status.RELEASED, "outcome");
  }

  /** The library keeps the error of a rejection to itself. */
  static void rejected(Publisher.Context outcome) {
    Cell.equal(outcome.status(), Publisher.Status.REJECTED, "outcome");
  }

  /** Publishes durable messages, all of which are accepted. */
  static void send(Publisher publisher, String... bodies) throws InterruptedException {
    BlockingQueue<Publisher.Context> outcomes = new LinkedBlockingQueue<>();
    for (String body : bodies) {
      publisher.publish(durable(publisher, body), outcomes::add);
    }
    for (int i = 0; i < bodies.length; i++) {
      accepted(Cell.take(outcomes, "outcome"));
    }
  }

  static <T> T address(AddressBuilder<T> builder, String exchange, String key) {
    builder.exchange(exchange);
    return builder.key(key);
  }

  /** Hears of closes of a connection. */
  static BlockingQueue<Throwable> watch(ConnectionBuilder builder, List<Connection> opened) {
    BlockingQueue<Throwable> closes = new LinkedBlockingQueue<>();
    opened.add(builder.listeners(context -> {
      if (context.currentState() == Resource.State.CLOSED) {
        Throwable cause = context.failureCause();
        closes.add(cause == null ? new AmqpException("closed without an error") : cause);
      }
    }).build());
    return closes;
  }

  static List<Connection> none() {
    return new ArrayList<>();
  }
}
