// RabbitMQ's stream client for Java. See tests/src/cell.rs for the lines it speaks.

import com.rabbitmq.stream.AuthenticationFailureException;
import com.rabbitmq.stream.BackOffDelayPolicy;
import com.rabbitmq.stream.Consumer;
import com.rabbitmq.stream.Environment;
import com.rabbitmq.stream.EnvironmentBuilder;
import com.rabbitmq.stream.Message;
import com.rabbitmq.stream.OffsetSpecification;
import com.rabbitmq.stream.Producer;
import com.rabbitmq.stream.StreamDoesNotExistException;
import com.rabbitmq.stream.compression.Compression;
import io.netty.handler.ssl.SslContextBuilder;
import java.io.File;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

final class StreamsClient {
  private static String uri;

  private StreamsClient() {}

  public static void main(String[] arguments) {
    uri = arguments[0];
    Cell.main(arguments, Map.ofEntries(
        Map.entry("publish", StreamsClient::publish),
        Map.entry("offsets", StreamsClient::offsets),
        Map.entry("stored_offset", StreamsClient::storedOffset),
        Map.entry("deduplication", StreamsClient::deduplication),
        Map.entry("filters", StreamsClient::filters),
        Map.entry("sub_batches", StreamsClient::subBatches),
        Map.entry("super_stream", StreamsClient::superStream),
        Map.entry("single_active", StreamsClient::singleActive),
        Map.entry("wrong_password", StreamsClient::wrongPassword),
        Map.entry("unknown_stream", StreamsClient::unknownStream),
        Map.entry("deleted", StreamsClient::deleted),
        Map.entry("reconnect", () -> goOn("ready kill")),
        Map.entry("restart", () -> goOn("ready restart"))));
  }

  private static EnvironmentBuilder builder() throws Exception {
    EnvironmentBuilder builder = Environment.builder().uri(uri)
        .recoveryBackOffDelayPolicy(BackOffDelayPolicy.fixed(Duration.ofMillis(200)))
        .topologyUpdateBackOffDelayPolicy(BackOffDelayPolicy.fixed(Duration.ofMillis(200)));
    String authority = System.getenv("LEVERET_TEST_CA");
    if (authority != null) {
      builder = builder.tls()
          .sslContext(SslContextBuilder.forClient().trustManager(new File(authority)).build())
          .environmentBuilder();
    }
    return builder;
  }

  private static Environment connect() throws Exception {
    return builder().build();
  }

  private static String create(Environment environment) {
    String stream = Cell.name("s");
    environment.streamCreator().name(stream).create();
    return stream;
  }

  /** What is done with a stream. */
  private interface Act {
    void with(Environment environment, String stream) throws Exception;
  }

  private static void onStream(Act act) throws Exception {
    String stream;
    try (Environment environment = connect()) {
      stream = create(environment);
      act.with(environment, stream);
    }
    delete(stream);
  }

  /**
   * Deletes a stream that no producer or consumer of this program uses any more. The client locks itself up if one is closed while the
   * broker tells that its stream is gone: it takes two locks in one order here, and in the other there.
   */
  private static void delete(String stream) throws Exception {
    try (Environment environment = connect()) {
      environment.deleteStream(stream);
    }
  }

  /** Sends bodies and waits for every confirm. Ids begin with {@code first} if the producer has a name. */
  private static void send(Producer producer, long first, String... bodies) throws Exception {
    CountDownLatch confirmed = new CountDownLatch(bodies.length);
    BlockingQueue<Short> refused = new LinkedBlockingQueue<>();
    long id = first;
    for (String body : bodies) {
      Message message = first < 0
          ? producer.messageBuilder().addData(body.getBytes(StandardCharsets.UTF_8)).build()
          : producer.messageBuilder().publishingId(id++).addData(body.getBytes(StandardCharsets.UTF_8)).build();
      producer.send(message, status -> {
        if (!status.isConfirmed()) {
          refused.add(status.getCode());
        }
        confirmed.countDown();
      });
    }
    Cell.check(confirmed.await(Cell.PATIENCE_MS, TimeUnit.MILLISECONDS), "no confirms");
    Cell.check(refused.isEmpty(), "refused with " + refused);
  }

  private static String text(Message message) {
    return new String(message.getBodyAsBinary(), StandardCharsets.UTF_8);
  }

  private static List<String> take(BlockingQueue<String> seen, int count) throws Exception {
    List<String> bodies = new ArrayList<>();
    while (bodies.size() < count) {
      bodies.add(Cell.take(seen, "message " + bodies.size()));
    }
    return bodies;
  }

  private static BlockingQueue<String> read(Environment environment, String stream, OffsetSpecification start) {
    BlockingQueue<String> seen = new LinkedBlockingQueue<>();
    environment.consumerBuilder().stream(stream).offset(start)
        .messageHandler((context, message) -> seen.add(text(message))).build();
    return seen;
  }

  private static void publish() throws Exception {
    onStream((environment, stream) -> {
      Producer producer = environment.producerBuilder().stream(stream).build();
      send(producer, -1, Cell.numbered(0, 1000));
      Cell.equal(take(read(environment, stream, OffsetSpecification.first()), 1000), List.of(Cell.numbered(0, 1000)), "bodies");
    });
  }

  private static void offsets() throws Exception {
    onStream((environment, stream) -> {
      Producer producer = environment.producerBuilder().stream(stream).build();
      send(producer, -1, Cell.numbered(0, 10));
      send(producer, -1, Cell.numbered(10, 20));
      long[] times = new long[20];
      CountDownLatch read = new CountDownLatch(20);
      environment.consumerBuilder().stream(stream).offset(OffsetSpecification.first())
          .messageHandler((context, message) -> {
            times[(int) context.offset()] = context.timestamp();
            read.countDown();
          }).build();
      Cell.check(read.await(Cell.PATIENCE_MS, TimeUnit.MILLISECONDS), "not all messages");
      int first = 0;
      while (times[first] < times[10]) {
        first++;
      }
      BlockingQueue<String> next = read(environment, stream, OffsetSpecification.next());
      Cell.equal(take(read(environment, stream, OffsetSpecification.first()), 20), List.of(Cell.numbered(0, 20)), "first");
      Cell.equal(take(read(environment, stream, OffsetSpecification.offset(7)), 13), List.of(Cell.numbered(7, 20)), "offset");
      Cell.equal(take(read(environment, stream, OffsetSpecification.timestamp(times[10])), 20 - first), List.of(Cell.numbered(first, 20)), "time");
      BlockingQueue<String> last = read(environment, stream, OffsetSpecification.last());
      String begin = take(last, 1).get(0);
      Cell.check(Integer.parseInt(begin.substring(1)) >= 10, "last begins with " + begin);
      send(producer, -1, "after");
      Cell.equal(take(next, 1), List.of("after"), "next");
    });
  }

  private static void storedOffset() throws Exception {
    String stream;
    try (Environment environment = connect()) {
      stream = create(environment);
      send(environment.producerBuilder().stream(stream).build(), -1, Cell.numbered(0, 20));
      BlockingQueue<String> seen = new LinkedBlockingQueue<>();
      Consumer consumer = environment.consumerBuilder().stream(stream).name("app").offset(OffsetSpecification.first())
          .manualTrackingStrategy().builder()
          .messageHandler((context, message) -> {
            if (context.offset() == 11) {
              context.storeOffset();
            }
            seen.add(text(message));
          }).build();
      take(seen, 20);
      long deadline = System.nanoTime() + Duration.ofMillis(Cell.PATIENCE_MS).toNanos();
      while (true) {
        try {
          Cell.equal(consumer.storedOffset(), 11L, "stored");
          break;
        } catch (com.rabbitmq.stream.NoOffsetException early) {
          Cell.check(System.nanoTime() < deadline, "no offset");
        }
      }
    }
    try (Environment environment = connect()) {
      BlockingQueue<String> seen = new LinkedBlockingQueue<>();
      environment.consumerBuilder().stream(stream).name("app").manualTrackingStrategy().builder()
          .messageHandler((context, message) -> seen.add(text(message))).build();
      Cell.equal(take(seen, 8), List.of(Cell.numbered(12, 20)), "after the stored offset");
    }
    delete(stream);
  }

  private static void deduplication() throws Exception {
    onStream((environment, stream) -> {
      try (Producer producer = environment.producerBuilder().stream(stream).name("name").build()) {
        send(producer, 0, Cell.numbered(0, 50));
      }
      try (Producer producer = environment.producerBuilder().stream(stream).name("name").build()) {
        Cell.equal(producer.getLastPublishingId(), 49L, "the last id");
        send(producer, 0, Cell.numbered(0, 100));
      }
      send(environment.producerBuilder().stream(stream).build(), -1, "end");
      List<String> expected = new ArrayList<>(List.of(Cell.numbered(0, 100)));
      expected.add("end");
      Cell.equal(take(read(environment, stream, OffsetSpecification.first()), 101), expected, "bodies");
    });
  }

  private static void filters() throws Exception {
    onStream((environment, stream) -> {
      Producer producer = environment.producerBuilder().stream(stream)
          .filterValue(message -> text(message).substring(0, 2)).build();
      for (String value : new String[] {"eu", "us", "eu", "as", "us"}) {
        send(producer, -1, value + "1", value + "2");
      }
      BlockingQueue<String> seen = new LinkedBlockingQueue<>();
      environment.consumerBuilder().stream(stream).offset(OffsetSpecification.first())
          .filter().values("us").postFilter(message -> text(message).startsWith("us")).builder()
          .messageHandler((context, message) -> seen.add(text(message))).build();
      Cell.equal(take(seen, 4), List.of("us1", "us2", "us1", "us2"), "bodies");
    });
  }

  private static void subBatches() throws Exception {
    onStream((environment, stream) -> {
      send(environment.producerBuilder().stream(stream).subEntrySize(10).compression(Compression.GZIP).build(), -1, Cell.numbered(0, 100));
      send(environment.producerBuilder().stream(stream).subEntrySize(10).compression(Compression.NONE).build(), -1, Cell.numbered(100, 200));
      Cell.equal(take(read(environment, stream, OffsetSpecification.first()), 200), List.of(Cell.numbered(0, 200)), "bodies");
    });
  }

  private static void superStream() throws Exception {
    String name = Cell.name("super");
    try (Environment environment = connect()) {
      environment.streamCreator().name(name).superStream().partitions(3).creator().create();
      Producer producer = environment.producerBuilder().superStream(name).routing(StreamsClient::text).producerBuilder().build();
      send(producer, -1, Cell.numbered(0, 100));
      BlockingQueue<String> seen = new LinkedBlockingQueue<>();
      TreeSet<String> partitions = new TreeSet<>();
      environment.consumerBuilder().superStream(name).offset(OffsetSpecification.first())
          .messageHandler((context, message) -> {
            synchronized (partitions) {
              partitions.add(context.stream());
            }
            seen.add(text(message));
          }).build();
      Cell.equal(new TreeSet<>(take(seen, 100)), new TreeSet<>(List.of(Cell.numbered(0, 100))), "bodies");
      synchronized (partitions) {
        Cell.equal(partitions, new TreeSet<>(List.of(name + "-0", name + "-1", name + "-2")), "partitions");
      }
    }
    try (Environment environment = connect()) {
      environment.deleteSuperStream(name);
    }
  }

  private static void singleActive() throws Exception {
    onStream((environment, stream) -> {
      Producer producer = environment.producerBuilder().stream(stream).build();
      List<BlockingQueue<String>> seen = List.of(new LinkedBlockingQueue<>(), new LinkedBlockingQueue<>());
      List<Consumer> consumers = new ArrayList<>();
      for (BlockingQueue<String> queue : seen) {
        consumers.add(environment.consumerBuilder().stream(stream).name("group").singleActiveConsumer()
            .offset(OffsetSpecification.first()).manualTrackingStrategy().builder()
            .messageHandler((context, message) -> {
              // The client's own automatic storing may wait for an answer on the thread that would read it, for ever.
              context.storeOffset();
              queue.add(text(message));
            }).build());
      }
      send(producer, -1, Cell.numbered(0, 10));
      Cell.equal(take(seen.get(0), 10), List.of(Cell.numbered(0, 10)), "the first one's");
      Cell.check(seen.get(1).isEmpty(), "the second one gets nothing");
      consumers.get(0).close();
      send(producer, -1, Cell.numbered(10, 20));
      Cell.equal(take(seen.get(1), 10), List.of(Cell.numbered(10, 20)), "the second one's");
      consumers.get(1).close();
    });
  }

  private static void wrongPassword() throws Exception {
    uri = uri.replace("guest:guest", "guest:wrong");
    try (Environment environment = connect()) {
      Cell.fail("a login with a wrong password");
    } catch (AuthenticationFailureException expected) {
      Cell.says(expected, "AUTHENTICATION_FAILURE");
    }
  }

  private static void unknownStream() throws Exception {
    try (Environment environment = connect()) {
      for (Cell.Scenario act : List.<Cell.Scenario>of(
          () -> environment.producerBuilder().stream("none").build(),
          () -> environment.consumerBuilder().stream("none").messageHandler((context, message) -> {}).build(),
          () -> environment.deleteStream("none"),
          () -> environment.queryStreamStats("none"))) {
        Cell.fails(act, StreamDoesNotExistException.class.getSimpleName(), "STREAM_DOES_NOT_EXIST");
      }
    }
  }

  private static void deleted() throws Exception {
    try (Environment environment = connect(); Environment other = connect()) {
      String stream = create(environment);
      Producer producer = environment.producerBuilder().stream(stream).confirmTimeout(Duration.ofSeconds(3)).build();
      send(producer, -1, "before");
      Cell.equal(take(read(environment, stream, OffsetSpecification.first()), 1), List.of("before"), "before");
      other.deleteStream(stream);
      // What the client sends before it learns that the stream is gone isn't confirmed either. It forgets a message that is on its way
      // to the socket at that moment.
      BlockingQueue<Boolean> answers = new LinkedBlockingQueue<>();
      long deadline = System.nanoTime() + Duration.ofMillis(Cell.PATIENCE_MS).toNanos();
      Boolean confirmed;
      do {
        Cell.check(System.nanoTime() < deadline, "nothing is refused");
        Message message = producer.messageBuilder().addData("after".getBytes(StandardCharsets.UTF_8)).build();
        producer.send(message, status -> answers.add(status.isConfirmed()));
        confirmed = answers.poll(1, TimeUnit.SECONDS);
      } while (confirmed == null);
      Cell.check(!confirmed, "a message for a deleted stream is confirmed");
      Cell.check(!environment.streamExists(stream), "it exists");
    }
  }

  /** Goes on by itself after what is done to the broker. */
  private static void goOn(String whatHappens) throws Exception {
    onStream((environment, stream) -> {
      Producer producer = environment.producerBuilder().stream(stream).name("name").build();
      BlockingQueue<String> seen = read(environment, stream, OffsetSpecification.first());
      send(producer, 0, Cell.numbered(0, 100));
      Cell.equal(take(seen, 100), List.of(Cell.numbered(0, 100)), "before");
      Cell.ask(whatHappens, "go");
      // Until it is connected again, the client refuses messages by itself. Its name tells those that were stored all the same.
      long deadline = System.nanoTime() + Duration.ofMillis(Cell.PATIENCE_MS).toNanos();
      while (true) {
        try {
          send(producer, 100, Cell.numbered(100, 200));
          break;
        } catch (Cell.Failure refused) {
          Cell.check(System.nanoTime() < deadline, refused.getMessage());
          Thread.sleep(50);
        }
      }
      // The client goes on with the last message that it has handled.
      List<String> after = take(seen, 100);
      if (after.get(0).equals("m99")) {
        after.remove(0);
        after.addAll(take(seen, 1));
      }
      Cell.equal(after, List.of(Cell.numbered(100, 200)), "after");
    });
  }
}
