import com.rabbitmq.client.amqp.Connection;
import com.rabbitmq.client.amqp.ConsumerBuilder;
import com.rabbitmq.client.amqp.ConsumerBuilder.StreamOffsetSpecification;
import com.rabbitmq.client.amqp.Management;
import com.rabbitmq.client.amqp.Message;
import com.rabbitmq.client.amqp.Publisher;
import java.time.Duration;
import java.time.Instant;
import java.util.Map;
import java.util.function.UnaryOperator;
import java.util.stream.IntStream;

/** Scenarios of streams; tests/tests/clients/streams.rs runs them. */
final class Streams {
  private static final int MESSAGES = 30;
  private static final String[] COLOURS = {"red", "green", "blue"};

  private Streams() {}

  static void add(Map<String, Cell.Scenario> all) {
    all.put("stream_offsets", Streams::offsets);
    all.put("stream_filters", Streams::filters);
  }

  /** A stream of messages "m0" to "m29": red, green and blue in turns, each one with its number as a property. */
  private static String filled(Connection c) throws InterruptedException {
    String stream = Cell.name("s");
    Management m = c.management();
    Management.QueueInfo info = m.queue(stream).stream().maxAge(Duration.ofDays(1)).queue().declare();
    Cell.equal(info.type(), Management.QueueType.STREAM, "type");
    Publisher p = RabbitClient.toQueue(c, stream);
    for (int i = 0; i < MESSAGES; i++) {
      publish(p, i);
    }
    Cell.equal(m.queueInfo(stream).messageCount(), (long) MESSAGES, "messages");
    return stream;
  }

  private static void publish(Publisher p, int number) throws InterruptedException {
    String colour = COLOURS[number % COLOURS.length];
    Message message = RabbitClient.durable(p, "m" + number)
        .annotation("x-stream-filter-value", colour).subject(colour).property("number", number);
    RabbitClient.accepted(RabbitClient.put(p, message));
  }

  private static RabbitClient.Inbox read(
      Connection c, String stream, UnaryOperator<ConsumerBuilder.StreamOptions> options) {
    return new RabbitClient.Inbox(options.apply(c.consumerBuilder().queue(stream).stream()).builder());
  }

  private static void offsets() throws Exception {
    Connection c = RabbitClient.connect();
    String stream = filled(c);
    String[] all = Cell.numbered(0, MESSAGES);
    read(c, stream, o -> o.offset(StreamOffsetSpecification.FIRST)).bodies(all);
    read(c, stream, o -> o.offset(0)).bodies(all);
    read(c, stream, o -> o.offset(20)).bodies(Cell.numbered(20, MESSAGES));
    read(c, stream, o -> o.offset(Instant.now().minusSeconds(3600))).bodies(all);
    read(c, stream, o -> o.offset("1h")).bodies(all);
    read(c, stream, o -> o.offset(StreamOffsetSpecification.LAST)).bodies("m" + (MESSAGES - 1));
    RabbitClient.Inbox next = read(c, stream, o -> o.offset(StreamOffsetSpecification.NEXT));
    publish(RabbitClient.toQueue(c, stream), MESSAGES);
    RabbitClient.Delivery delivery = next.next();
    Cell.equal(delivery.body(), "m" + MESSAGES, "body");
    Cell.equal(((Number) delivery.message().annotation("x-stream-offset")).longValue(), (long) MESSAGES, "offset");
    // A read takes nothing away.
    read(c, stream, o -> o.offset(StreamOffsetSpecification.FIRST)).bodies(Cell.numbered(0, MESSAGES + 1));
    c.management().queueDelete(stream);
  }

  private static void filters() throws Exception {
    Connection c = RabbitClient.connect();
    String stream = filled(c);
    String[] green = green(0);
    // Whole chunks are skipped by value; the client looks at the messages of the others itself.
    read(c, stream, o -> o.offset(0).filterValues("green").filter().subject("green").stream()).bodies(green);
    read(c, stream, o -> o.offset(0).filter().subject("&p:gre").stream()).bodies(green);
    read(c, stream, o -> o.offset(0).filter().property("number", 7).stream()).bodies("m7");
    read(c, stream, o -> o.offset(0).filter().sql("properties.subject IN ('green', 'black') AND number > 10").stream())
        .bodies(green(11));
    Cell.fails(() -> read(c, stream, o -> o.offset(0).filter().sql("number >").stream()), "filter", "sql");
    c.management().queueDelete(stream);
  }

  /** The green messages from this number on. */
  private static String[] green(int from) {
    return IntStream.range(from, MESSAGES).filter(number -> number % 3 == 1).mapToObj(number -> "m" + number)
        .toArray(String[]::new);
  }
}
