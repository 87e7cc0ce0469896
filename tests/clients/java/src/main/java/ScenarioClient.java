// The scenarios of the client table, with the Java client. See tests/src/cell.rs for the lines it speaks.

import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.AlreadyClosedException;
import com.rabbitmq.client.AuthenticationFailureException;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.Delivery;
import com.rabbitmq.client.GetResponse;
import com.rabbitmq.client.LongString;
import com.rabbitmq.client.MessageProperties;
import com.rabbitmq.client.Method;
import com.rabbitmq.client.Return;
import com.rabbitmq.client.ShutdownSignalException;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Date;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import javax.net.ssl.SSLContext;

public final class ScenarioClient {
  private static final int PATIENCE_MS = 20_000;
  private static final BufferedReader STDIN = new BufferedReader(new InputStreamReader(System.in));
  private static final List<String> KINDS = List.of("direct", "fanout", "topic", "headers");

  private static String uri;
  private static String prefix;

  interface Scenario {
    void run() throws Exception;
  }

  interface Act {
    void on(Channel channel) throws Exception;
  }

  static final class Failure extends RuntimeException {
    Failure(String text) {
      super(text);
    }
  }

  public static void main(String[] arguments) {
    uri = arguments[0];
    String scenario = arguments[3];
    prefix = "cell." + scenario + "." + ProcessHandle.current().pid();
    int status = 0;
    try {
      scenarios().get(scenario).run();
      System.out.println("ok " + scenario);
    } catch (Throwable problem) {
      Throwable cause = problem.getCause() == null ? problem : problem.getCause();
      System.out.println("fail " + scenario + ": " + (problem + " / " + cause).replace('\n', ' '));
      status = 1;
    }
    System.out.flush();
    Runtime.getRuntime().halt(status);
  }

  private static Map<String, Scenario> scenarios() {
    Map<String, Scenario> all = new HashMap<>();
    all.put("declare", ScenarioClient::declare);
    all.put("publish_confirm", ScenarioClient::publishConfirm);
    all.put("mandatory_return", ScenarioClient::mandatoryReturn);
    all.put("ack", ScenarioClient::ack);
    all.put("nack_requeue", ScenarioClient::nackRequeue);
    all.put("reject", ScenarioClient::reject);
    all.put("prefetch", ScenarioClient::prefetch);
    all.put("get", ScenarioClient::get);
    all.put("big_body", ScenarioClient::bigBody);
    all.put("headers", ScenarioClient::headers);
    all.put("exclusive", ScenarioClient::exclusive);
    all.put("reconnect", ScenarioClient::reconnect);
    all.put("heartbeat_loss", ScenarioClient::heartbeatLoss);
    all.put("error_320", ScenarioClient::error320);
    all.put("error_403", ScenarioClient::error403);
    all.put("error_404", ScenarioClient::error404);
    all.put("error_405", ScenarioClient::error405);
    all.put("error_406", ScenarioClient::error406);
    // queue.declare on channel 1, with 00 where the end mark belongs
    all.put("error_501", () -> injected(501, "FRAME_ERROR", "0100010000000c0032000a000000000000000000"));
    // queue.declare whose name claims more bytes than the frame has; RabbitMQ says 501 where the specification has 502
    all.put("error_502", () -> injected(501, "FRAME_ERROR - cannot decode", "010001000000080032000a0000ff61ce"));
    // queue.declare-ok, which only a broker sends
    all.put("error_503", () -> injected(503, "COMMAND_INVALID", "0100010000000e0032000b01610000000000000000ce"));
    // channel.open on channel 1, which is open
    all.put("error_504", () -> injected(504, "CHANNEL_ERROR - second 'channel.open' seen", "010001000000050014000a00ce"));
    // a content header on channel 1 without a method before it
    all.put("error_505", () -> injected(505, "UNEXPECTED_FRAME", "0200010000000e003c000000000000000000000000ce"));
    all.put("error_530", ScenarioClient::error530);
    all.put("error_540", ScenarioClient::error540);
    all.put("direct_reply_to", ScenarioClient::directReplyTo);
    return all;
  }

  // What the scenarios share

  private static void check(boolean condition, String what) {
    if (!condition) {
      throw new Failure(what);
    }
  }

  private static void equal(Object received, Object expected, String what) {
    check(Objects.equals(received, expected), what + ": " + received + ", expected " + expected);
  }

  private static void ask(String line, String answer) throws IOException {
    System.out.println(line);
    System.out.flush();
    equal(STDIN.readLine(), answer, "control");
  }

  private static ConnectionFactory factory() throws Exception {
    ConnectionFactory factory = new ConnectionFactory();
    factory.setUri(uri);
    SSLContext tls = Trust.tls();
    if (tls != null) {
      factory.useSslProtocol(tls);
      factory.enableHostnameVerification();
    }
    factory.setAutomaticRecoveryEnabled(false);
    factory.setChannelRpcTimeout(PATIENCE_MS);
    return factory;
  }

  private static Connection connect() throws Exception {
    return factory().newConnection();
  }

  private static Channel confirming(Connection connection) throws IOException {
    Channel channel = connection.createChannel();
    channel.confirmSelect();
    return channel;
  }

  private static String queue(Channel channel) throws IOException {
    String name = prefix + ".q";
    channel.queueDeclare(name, true, false, false, null);
    return name;
  }

  private static String exclusiveQueue(Channel channel, String suffix) throws IOException {
    String name = prefix + "." + suffix;
    channel.queueDeclare(name, false, true, false, null);
    return name;
  }

  private static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }

  private static String text(GetResponse response) {
    return new String(response.getBody(), StandardCharsets.UTF_8);
  }

  private static void send(Channel channel, String queue, String... bodies) throws Exception {
    for (String body : bodies) {
      channel.basicPublish("", queue, true, MessageProperties.MINIMAL_PERSISTENT_BASIC, bytes(body));
    }
    channel.waitForConfirmsOrDie(PATIENCE_MS);
  }

  private static GetResponse take(Channel channel, String queue, boolean autoAck) throws IOException {
    GetResponse response = channel.basicGet(queue, autoAck);
    check(response != null, "the queue is empty");
    return response;
  }

  private static void empty(Channel channel, String queue) throws IOException {
    equal(channel.basicGet(queue, true), null, "an empty queue");
  }

  private static int count(Channel channel, String queue) throws IOException {
    return channel.queueDeclarePassive(queue).getMessageCount();
  }

  private static BlockingQueue<Delivery> consume(Channel channel, String queue) throws IOException {
    BlockingQueue<Delivery> deliveries = new LinkedBlockingQueue<>();
    channel.basicConsume(queue, false, (tag, delivery) -> deliveries.add(delivery), tag -> {});
    return deliveries;
  }

  private static Delivery next(BlockingQueue<Delivery> deliveries) throws InterruptedException {
    Delivery delivery = deliveries.poll(PATIENCE_MS, TimeUnit.MILLISECONDS);
    check(delivery != null, "no delivery");
    return delivery;
  }

  /** {@code act} on a channel of its own ends with this code and these first words. */
  private static void fails(Connection connection, int code, String words, Act act) throws Exception {
    failsOn(connection, connection.createChannel(), code, words, act);
  }

  private static void failsOn(Connection connection, Channel channel, int code, String words, Act act) throws Exception {
    AtomicReference<ShutdownSignalException> reason = new AtomicReference<>();
    CountDownLatch closed = new CountDownLatch(1);
    channel.addShutdownListener(
        cause -> {
          reason.compareAndSet(null, cause);
          closed.countDown();
        });
    try {
      act.on(channel);
    } catch (IOException | AlreadyClosedException expected) {
      // The reason comes through the listener as well.
    }
    check(closed.await(PATIENCE_MS, TimeUnit.MILLISECONDS), code + " expected, nothing happened");
    Method method = reason.get().getReason();
    int received;
    String text;
    if (method instanceof AMQP.Channel.Close close) {
      received = close.getReplyCode();
      text = close.getReplyText();
    } else if (method instanceof AMQP.Connection.Close close) {
      received = close.getReplyCode();
      text = close.getReplyText();
    } else {
      throw new Failure(code + " expected, got " + reason.get());
    }
    equal(received, code, "code (" + text + ")");
    check(text.startsWith(words), "text '" + text + "' doesn't start with '" + words + "'");
  }

  private static void barrier(Connection connection) throws IOException {
    connection.createChannel().queueDeclare();
  }

  private static void injected(int code, String words, String frame) throws Exception {
    Connection connection = connect();
    failsOn(connection, connection.createChannel(), code, words, channel -> ask("inject " + frame, "done"));
    barrier(connect()); // another connection doesn't notice
  }

  // The scenarios

  private static void declare() throws Exception {
    Connection connection = connect();
    Channel channel = confirming(connection);
    String name = queue(channel);
    AMQP.Queue.DeclareOk ok = channel.queueDeclare(name, true, false, false, null);
    equal(ok.getQueue() + ok.getMessageCount() + ok.getConsumerCount(), name + "00", "declare-ok");
    equal(channel.queueDeclarePassive(name).getQueue(), name, "passive declare");
    List<Integer> returns = new ArrayList<>();
    channel.addReturnListener((Return message) -> returns.add(message.getReplyCode()));
    for (String kind : KINDS) {
      String exchange = prefix + "." + kind;
      channel.exchangeDeclare(exchange, kind, true);
      channel.exchangeDeclare(exchange, kind, true);
      channel.exchangeDeclarePassive(exchange);
      channel.queueBind(name, exchange, "a.b", kind.equals("headers") ? Map.of("x-match", "all", "k", 1) : null);
      AMQP.BasicProperties properties = new AMQP.BasicProperties.Builder().headers(Map.of("k", 1)).build();
      channel.basicPublish(exchange, "a.b", true, properties, bytes(kind));
    }
    channel.waitForConfirmsOrDie(PATIENCE_MS);
    equal(count(channel, name), 4, "messages through four exchanges");
    channel.queueUnbind(name, prefix + ".direct", "a.b");
    channel.basicPublish(prefix + ".direct", "a.b", true, null, bytes("x"));
    channel.waitForConfirmsOrDie(PATIENCE_MS);
    equal(returns, List.of(312), "an unbound key");
    equal(channel.queuePurge(name).getMessageCount(), 4, "purge");
    String own = channel.queueDeclare().getQueue();
    check(own.startsWith("amq.gen-"), "server-named queue " + own);
    fails(connection, 406, "PRECONDITION_FAILED - inequivalent arg 'durable' for queue", c -> c.queueDeclare(name, false, false, false, null));
    fails(connection, 406, "PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue",
        c -> c.queueDeclare(name, true, false, false, Map.of("x-max-length", 5)));
    fails(connection, 406, "PRECONDITION_FAILED - inequivalent arg 'type' for exchange", c -> c.exchangeDeclare(prefix + ".direct", "fanout", true));
    fails(connection, 404, "NOT_FOUND - no queue", c -> c.queueDeclarePassive(prefix + ".missing"));
    for (String kind : KINDS) {
      channel.exchangeDelete(prefix + "." + kind);
    }
    channel.queueDelete(own);
    fails(connection, 404, "NOT_FOUND - no queue", c -> c.queueDeclarePassive(own));
  }

  private static void publishConfirm() throws Exception {
    Channel channel = confirming(connect());
    String name = queue(channel);
    for (int i = 0; i < 100; i++) {
      equal(channel.getNextPublishSeqNo(), (long) i + 1, "sequence number");
      channel.basicPublish("", name, MessageProperties.PERSISTENT_TEXT_PLAIN, bytes(String.valueOf(i)));
    }
    channel.waitForConfirmsOrDie(PATIENCE_MS);
    equal(count(channel, name), 100, "messages");
    for (int i = 0; i < 100; i++) {
      GetResponse response = take(channel, name, true);
      equal(text(response), String.valueOf(i), "body in order");
      equal(response.getProps().getDeliveryMode(), 2, "delivery mode");
    }
  }

  private static void mandatoryReturn() throws Exception {
    Channel channel = confirming(connect());
    List<String> events = new ArrayList<>();
    CountDownLatch confirmed = new CountDownLatch(1);
    channel.addReturnListener(
        (Return r) ->
            events.add(r.getReplyCode() + " " + r.getReplyText() + " " + r.getExchange() + " " + r.getRoutingKey() + " "
                + r.getProperties().getMessageId() + " " + new String(r.getBody(), StandardCharsets.UTF_8)));
    channel.addConfirmListener(
        (tag, multiple) -> {
          events.add("ack " + tag);
          confirmed.countDown();
        },
        (tag, multiple) -> events.add("nack " + tag));
    String key = prefix + ".nowhere";
    channel.basicPublish("amq.direct", key, true, new AMQP.BasicProperties.Builder().messageId("m").build(), bytes("back"));
    check(confirmed.await(PATIENCE_MS, TimeUnit.MILLISECONDS), "no confirm");
    equal(events, List.of("312 NO_ROUTE amq.direct " + key + " m back", "ack 1"), "the return, then the confirm");
    channel.basicPublish("amq.direct", key, false, null, bytes("dropped"));
    channel.waitForConfirmsOrDie(PATIENCE_MS);
    equal(events.stream().filter(event -> event.startsWith("312")).count(), 1L, "returns");
  }

  private static void directReplyTo() throws Exception {
    String pseudo = "amq.rabbitmq.reply-to";
    Channel requester = connect().createChannel();
    Channel responder = confirming(connect());
    String name = queue(responder);
    BlockingQueue<Delivery> answers = new LinkedBlockingQueue<>();
    requester.basicConsume(pseudo, true, "tag", (tag, delivery) -> answers.add(delivery), tag -> {});
    BlockingQueue<Delivery> requests = consume(responder, name);
    AMQP.BasicProperties asked = new AMQP.BasicProperties.Builder().replyTo(pseudo).correlationId("7").build();
    requester.basicPublish("", name, true, asked, bytes("ask"));
    Delivery request = next(requests);
    String address = request.getProperties().getReplyTo();
    check(address.startsWith(pseudo + "."), "reply-to " + address);
    equal(request.getProperties().getCorrelationId(), "7", "request");
    equal(responder.queueDeclarePassive(address).getConsumerCount(), 1, "consumers");
    AMQP.BasicProperties answered = new AMQP.BasicProperties.Builder().correlationId("7").build();
    responder.basicPublish("", address, true, answered, bytes("answer"));
    responder.waitForConfirmsOrDie(PATIENCE_MS);
    Delivery answer = next(answers);
    equal(new String(answer.getBody(), StandardCharsets.UTF_8), "answer", "answer");
    equal(answer.getProperties().getCorrelationId(), "7", "answer's id");
    responder.basicAck(request.getEnvelope().getDeliveryTag(), false);
    fails(connect(), 406, "PRECONDITION_FAILED - reply consumer cannot acknowledge",
        c -> c.basicConsume(pseudo, false, (tag, delivery) -> {}, tag -> {}));
    fails(connect(), 406, "PRECONDITION_FAILED - fast reply consumer does not exist",
        c -> c.basicPublish("", name, true, asked, bytes("ask")));
    fails(connect(), 403, "ACCESS_REFUSED", c -> c.queueBind(address, "amq.direct", "k"));
  }

  private static void ack() throws Exception {
    Connection connection = connect();
    Channel channel = confirming(connection);
    String name = queue(channel);
    send(channel, name, "1", "2", "3", "4", "5");
    Channel receiver = connection.createChannel();
    BlockingQueue<Delivery> deliveries = consume(receiver, name);
    for (int i = 1; i <= 5; i++) {
      Delivery delivery = next(deliveries);
      equal(delivery.getEnvelope().getDeliveryTag() + " " + delivery.getEnvelope().isRedeliver() + " " + new String(delivery.getBody()),
          i + " false " + i, "delivery");
    }
    receiver.basicAck(1, false);
    receiver.basicAck(3, true);
    receiver.close();
    Channel again = connection.createChannel();
    for (String body : List.of("4", "5")) {
      GetResponse response = take(again, name, false);
      equal(response.getEnvelope().isRedeliver() + text(response), "true" + body, "redelivery");
      again.basicAck(response.getEnvelope().getDeliveryTag(), false);
    }
    empty(again, name);
    again.close();
    equal(count(channel, name), 0, "messages");
  }

  private static void nackRequeue() throws Exception {
    Channel channel = confirming(connect());
    String name = queue(channel);
    send(channel, name, "1", "2", "3", "4");
    take(channel, name, false);
    GetResponse second = take(channel, name, false);
    take(channel, name, false);
    channel.basicNack(second.getEnvelope().getDeliveryTag(), false, true);
    GetResponse again = take(channel, name, false);
    equal(text(again) + again.getEnvelope().isRedeliver(), "2true", "the place of 2 is before 4");
    channel.basicNack(again.getEnvelope().getDeliveryTag(), true, true);
    List<String> order = new ArrayList<>();
    for (int i = 0; i < 4; i++) {
      GetResponse response = take(channel, name, false);
      order.add(text(response) + response.getEnvelope().isRedeliver());
      channel.basicAck(response.getEnvelope().getDeliveryTag(), false);
    }
    equal(order, List.of("1true", "2true", "3true", "4false"), "order after nack multiple");
    send(channel, name, "5");
    channel.basicNack(take(channel, name, false).getEnvelope().getDeliveryTag(), false, false);
    empty(channel, name);
  }

  private static void reject() throws Exception {
    Channel channel = confirming(connect());
    String name = queue(channel);
    send(channel, name, "1", "2");
    channel.basicReject(take(channel, name, false).getEnvelope().getDeliveryTag(), true);
    GetResponse first = take(channel, name, false);
    equal(text(first) + first.getEnvelope().isRedeliver(), "1true", "requeued");
    channel.basicReject(first.getEnvelope().getDeliveryTag(), false);
    GetResponse next = take(channel, name, true);
    equal(text(next) + next.getEnvelope().isRedeliver(), "2false", "next");
    empty(channel, name);
  }

  private static void prefetch() throws Exception {
    Connection connection = connect();
    Channel publisher = confirming(connection);
    String name = queue(publisher);
    send(publisher, name, "0", "1", "2", "3", "4", "5", "6", "7", "8", "9");
    Channel channel = connection.createChannel();
    channel.basicQos(3);
    BlockingQueue<Delivery> deliveries = consume(channel, name);
    for (int i = 0; i < 3; i++) {
      equal(new String(next(deliveries).getBody()), String.valueOf(i), "order");
    }
    equal(count(channel, name), 7, "ready while 3 are unacknowledged");
    equal(deliveries.size(), 0, "deliveries beyond the prefetch");
    channel.basicAck(2, true);
    for (int i = 3; i < 5; i++) {
      equal(new String(next(deliveries).getBody()), String.valueOf(i), "order");
    }
    equal(count(channel, name), 5, "ready after 2 acks");
  }

  private static void get() throws Exception {
    Channel channel = confirming(connect());
    String name = queue(channel);
    empty(channel, name);
    send(channel, name, "1", "2");
    GetResponse first = take(channel, name, false);
    equal(first.getMessageCount() + " " + first.getEnvelope().isRedeliver() + " " + first.getEnvelope().getExchange() + " "
            + first.getEnvelope().getRoutingKey() + " " + text(first), "1 false  " + name + " 1", "get-ok");
    channel.basicAck(first.getEnvelope().getDeliveryTag(), false);
    GetResponse last = take(channel, name, true);
    equal(last.getMessageCount() + text(last), "02", "the last");
    empty(channel, name);
  }

  private static void bigBody() throws Exception {
    Channel channel = confirming(connect());
    String name = queue(channel);
    byte[] body = new byte[5 * 1024 * 1024];
    for (int i = 0; i < body.length; i++) {
      body[i] = (byte) (i * 7 + i / 251);
    }
    List<byte[]> bodies = List.of(body, bytes("after"), body);
    for (byte[] one : bodies) {
      channel.basicPublish("", name, MessageProperties.MINIMAL_PERSISTENT_BASIC, one);
    }
    channel.waitForConfirmsOrDie(PATIENCE_MS);
    for (byte[] expected : bodies) {
      GetResponse response = take(channel, name, false);
      check(Arrays.equals(response.getBody(), expected), "a body of " + response.getBody().length + " bytes differs");
      channel.basicAck(response.getEnvelope().getDeliveryTag(), false);
    }
  }

  private static void headers() throws Exception {
    Channel channel = confirming(connect());
    String name = queue(channel);
    byte[] every = new byte[256];
    for (int i = 0; i < every.length; i++) {
      every[i] = (byte) i;
    }
    Date at = new Date(1_700_000_000_000L);
    Map<String, Object> sent = new LinkedHashMap<>();
    sent.put("unicode ключ", "wert ✓ 𝄞");
    sent.put("binary", every);
    sent.put("true", true);
    sent.put("false", false);
    sent.put("byte", (byte) -128);
    sent.put("short", (short) -32768);
    sent.put("int", Integer.MIN_VALUE);
    sent.put("long", Long.MIN_VALUE);
    sent.put("float", 2.5f);
    sent.put("double", 1.0 / 3);
    sent.put("decimal", new BigDecimal("3.14"));
    sent.put("time", at);
    sent.put("null", null);
    sent.put("list", Arrays.asList(1, "zwei ✓", new byte[] {-1, 0}, Arrays.asList(true, null), Map.of("in", 1)));
    sent.put("table", Map.of("a", Map.of("b", "tief")));
    sent.put("empty", "");
    sent.put("long string", "x".repeat(70_000));
    AMQP.BasicProperties properties =
        new AMQP.BasicProperties("text/plain", "utf-8", sent, 2, 9, "korrelation ✓", "antwort", null, "id", at, "art", "guest",
            "app ✓", "cluster");
    channel.basicPublish("", name, true, properties, bytes("inhalt ✓"));
    channel.waitForConfirmsOrDie(PATIENCE_MS);
    GetResponse response = take(channel, name, false);
    equal(text(response), "inhalt ✓", "body");
    AMQP.BasicProperties received = response.getProps();
    for (Map.Entry<String, Object> header : sent.entrySet()) {
      check(received.getHeaders().containsKey(header.getKey()), "header " + header.getKey() + " is missing");
      equal(plain(received.getHeaders().get(header.getKey())), plain(header.getValue()), "header " + header.getKey());
    }
    equal(received.getHeaders().size(), sent.size(), "number of headers");
    equal(received.builder().headers(null).build(), properties.builder().headers(null).build(), "properties");
    channel.basicAck(response.getEnvelope().getDeliveryTag(), false);
  }

  /** Values in a form that compares: strings come back as LongString, arrays by content. */
  private static Object plain(Object value) {
    if (value instanceof LongString) {
      return value.toString();
    }
    if (value instanceof byte[] array) {
      return "bytes " + Arrays.toString(array);
    }
    if (value instanceof List<?> list) {
      return list.stream().map(one -> String.valueOf(plain(one))).toList();
    }
    if (value instanceof Map<?, ?> map) {
      Map<Object, Object> result = new HashMap<>();
      map.forEach((key, one) -> result.put(key, plain(one)));
      return result;
    }
    return value;
  }

  private static void exclusive() throws Exception {
    Connection owner = connect();
    Connection other = connect();
    String name = exclusiveQueue(owner.createChannel(), "q");
    String words = "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue";
    fails(other, 405, words, c -> c.queueDeclarePassive(name));
    fails(other, 405, words, c -> c.basicGet(name, true));
    fails(other, 405, words, c -> c.queuePurge(name));
    owner.createChannel().queueDeclarePassive(name);
    owner.close();
    fails(other, 404, "NOT_FOUND - no queue", c -> c.queueDeclarePassive(name));
    exclusiveQueue(other.createChannel(), "q");
  }

  private static void reconnect() throws Exception {
    // The client's own recovery finds the broker again and declares the exclusive queue anew.
    ConnectionFactory factory = factory();
    factory.setAutomaticRecoveryEnabled(true);
    factory.setNetworkRecoveryInterval(100);
    Connection connection = factory.newConnection();
    CountDownLatch recovered = new CountDownLatch(1);
    ((com.rabbitmq.client.Recoverable) connection)
        .addRecoveryListener(
            new com.rabbitmq.client.RecoveryListener() {
              @Override
              public void handleRecovery(com.rabbitmq.client.Recoverable recoverable) {
                recovered.countDown();
              }

              @Override
              public void handleRecoveryStarted(com.rabbitmq.client.Recoverable recoverable) {}
            });
    Channel channel = confirming(connection);
    String name = queue(channel);
    String transientQueue = exclusiveQueue(channel, "transient");
    send(channel, name, "before");
    send(channel, transientQueue, "lost");
    ask("ready kill", "go");
    check(recovered.await(PATIENCE_MS, TimeUnit.MILLISECONDS), "the client doesn't find the broker again");
    equal(count(channel, name), 1, "messages after the restart");
    equal(count(channel, transientQueue), 0, "messages of a queue that isn't durable");
    GetResponse response = take(channel, name, false);
    equal(text(response), "before", "the message");
    channel.basicAck(response.getEnvelope().getDeliveryTag(), false);
    send(channel, name, "after");
    equal(text(take(channel, name, true)), "after", "a message of the second life");
  }

  private static void heartbeatLoss() throws Exception {
    ConnectionFactory factory = factory();
    factory.setRequestedHeartbeat(1);
    Connection connection = factory.newConnection();
    barrier(connection);
    CountDownLatch closed = new CountDownLatch(1);
    connection.addShutdownListener(cause -> closed.countDown());
    ask("mute", "closed");
    check(closed.await(PATIENCE_MS, TimeUnit.MILLISECONDS), "the client didn't see the connection close");
  }

  private static void error320() throws Exception {
    Connection connection = connect();
    failsOn(connection, connection.createChannel(), 320, "CONNECTION_FORCED", channel -> ask("ready term", "go"));
  }

  private static void error403() throws Exception {
    Connection connection = connect();
    Channel holder = connection.createChannel();
    String name = queue(holder);
    String refused = "ACCESS_REFUSED";
    fails(connection, 403, refused + " - queue name 'amq.own' contains reserved prefix 'amq.*'", c -> c.queueDeclare("amq.own", false, false, false, null));
    fails(connection, 403, refused + " - exchange name 'amq.own' contains reserved prefix 'amq.*'", c -> c.exchangeDeclare("amq.own", "direct"));
    fails(connection, 403, refused + " - operation not permitted on the default exchange", c -> c.queueBind(name, "", "key"));
    holder.basicConsume(name, false, "", false, true, null, (tag, delivery) -> {}, tag -> {});
    fails(connection, 403, refused + " - queue '" + name + "' in vhost '/' in exclusive use", c -> consume(c, name));
    holder.exchangeDeclare(prefix + ".internal", "direct", true, false, true, null);
    fails(connection, 403, refused + " - cannot publish to internal exchange", c -> c.basicPublish(prefix + ".internal", "", null, bytes("x")));
    holder.exchangeDelete(prefix + ".internal");
    ConnectionFactory factory = factory();
    factory.setPassword("wrong");
    try {
      factory.newConnection();
      throw new Failure("a wrong password is accepted");
    } catch (AuthenticationFailureException error) {
      check(error.getMessage().startsWith("ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN"), error.getMessage());
    }
  }

  private static void error404() throws Exception {
    Connection connection = connect();
    String missing = prefix + ".missing";
    String noQueue = "NOT_FOUND - no queue '" + missing + "' in vhost '/'";
    String noExchange = "NOT_FOUND - no exchange '" + missing + "' in vhost '/'";
    fails(connection, 404, noQueue, c -> c.queueDeclarePassive(missing));
    fails(connection, 404, noQueue, c -> c.basicGet(missing, true));
    fails(connection, 404, noQueue, c -> consume(c, missing));
    fails(connection, 404, noQueue, c -> c.queuePurge(missing));
    fails(connection, 404, noQueue, c -> c.queueBind(missing, "amq.direct", "k"));
    String name = queue(connection.createChannel());
    fails(connection, 404, noExchange, c -> c.exchangeDeclarePassive(missing));
    fails(connection, 404, noExchange, c -> c.basicPublish(missing, "k", null, bytes("x")));
    fails(connection, 404, noExchange, c -> c.queueBind(name, missing, "k"));
    connection.createChannel().queueDelete(missing);
  }

  private static void error405() throws Exception {
    Connection owner = connect();
    Connection other = connect();
    String name = exclusiveQueue(owner.createChannel(), "q");
    String words = "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '" + name + "' in vhost '/'";
    fails(other, 405, words, c -> c.queueDeclare(name, false, true, false, null));
    fails(other, 405, words, c -> consume(c, name));
    fails(other, 405, words, c -> c.queueDelete(name));
    fails(other, 405, words, c -> c.queueBind(name, "amq.direct", "k"));
  }

  private static void error406() throws Exception {
    Connection connection = connect();
    Channel channel = confirming(connection);
    String name = queue(channel);
    String words = "PRECONDITION_FAILED";
    fails(connection, 406, words + " - unknown delivery tag 7", c -> c.basicAck(7, false));
    fails(connection, 406, words + " - unknown delivery tag 7", c -> c.basicReject(7, true));
    send(channel, name, "1");
    fails(connection, 406, words + " - unknown delivery tag 1",
        c -> {
          long tag = take(c, name, false).getEnvelope().getDeliveryTag();
          c.basicAck(tag, false);
          c.basicAck(tag, false);
        });
    fails(connection, 406, words + " - invalid expiration",
        c -> c.basicPublish("", name, new AMQP.BasicProperties.Builder().expiration("soon").build(), bytes("x")));
    fails(connection, 406, words + " - invalid arg 'x-max-length' for queue",
        c -> c.queueDeclare(prefix + ".bad", true, false, false, Map.of("x-max-length", -1)));
    fails(connection, 406, words + " - unknown exchange type 'x-nowhere-known'", c -> c.exchangeDeclare(prefix + ".x", "x-nowhere-known", true));
    send(channel, name, "2");
    fails(connection, 406, words + " - queue '" + name + "' in vhost '/' not empty", c -> c.queueDelete(name, false, true));
    consume(connection.createChannel(), name);
    fails(connection, 406, words + " - queue '" + name + "' in vhost '/' in use", c -> c.queueDelete(name, true, false));
  }

  private static void error530() throws Exception {
    fails(connect(), 530, "NOT_ALLOWED - attempt to reuse consumer tag 'tag'",
        c -> {
          String name = queue(c);
          c.basicConsume(name, false, "tag", (tag, delivery) -> {}, tag -> {});
          c.basicConsume(name, false, "tag", (tag, delivery) -> {}, tag -> {});
        });
    ConnectionFactory factory = factory();
    factory.setVirtualHost("no such");
    try {
      factory.newConnection();
      throw new Failure("an unknown vhost is accepted");
    } catch (IOException error) {
      AMQP.Connection.Close close = (AMQP.Connection.Close) ((ShutdownSignalException) error.getCause()).getReason();
      equal(close.getReplyCode(), 530, "code");
      check(close.getReplyText().startsWith("NOT_ALLOWED - vhost no such not found"), close.getReplyText());
    }
  }

  private static void error540() throws Exception {
    String name = queue(connect().createChannel());
    fails(connect(), 540, "NOT_IMPLEMENTED - immediate=true", c -> c.basicPublish("", name, false, true, null, bytes("x")));
    fails(connect(), 540, "NOT_IMPLEMENTED", c -> c.basicQos(10, 0, false));
    fails(connect(), 540, "NOT_IMPLEMENTED", c -> c.basicRecover(false));
  }
}
