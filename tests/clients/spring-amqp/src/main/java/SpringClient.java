// Spring AMQP: RabbitAdmin, RabbitTemplate and listener containers.

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.springframework.amqp.core.Binding;
import org.springframework.amqp.core.BindingBuilder;
import org.springframework.amqp.core.Message;
import org.springframework.amqp.core.MessageListener;
import org.springframework.amqp.core.Queue;
import org.springframework.amqp.core.QueueBuilder;
import org.springframework.amqp.core.TopicExchange;
import org.springframework.amqp.rabbit.connection.CachingConnectionFactory;
import org.springframework.amqp.rabbit.connection.CachingConnectionFactory.ConfirmType;
import org.springframework.amqp.rabbit.connection.CorrelationData;
import org.springframework.amqp.rabbit.core.RabbitAdmin;
import org.springframework.amqp.rabbit.core.RabbitTemplate;
import org.springframework.amqp.rabbit.listener.SimpleMessageListenerContainer;
import org.springframework.amqp.rabbit.listener.adapter.MessageListenerAdapter;

public final class SpringClient {
  private SpringClient() {}

  public static void main(String[] arguments) {
    Cell.main(arguments, Map.of(
        "tasks", SpringClient::tasks,
        "retry", SpringClient::retry,
        "later", SpringClient::later,
        "priorities", Topology::priorities,
        "priorities_of_quorum_queues", Topology::prioritiesOfQuorumQueues,
        "quorum", Topology::quorum,
        "delayed_exchange", Topology::delayedExchange,
        "topology", Topology::topology,
        "control", SpringClient::control,
        "recover", SpringClient::recover));
  }

  static CachingConnectionFactory factory() {
    CachingConnectionFactory factory = new CachingConnectionFactory(Cell.host, Cell.port);
    if (Cell.tls != null) {
      factory.getRabbitConnectionFactory().useSslProtocol(Cell.tls);
      factory.getRabbitConnectionFactory().enableHostnameVerification();
    }
    factory.setUsername("guest");
    factory.setPassword("guest");
    factory.setPublisherConfirmType(ConfirmType.CORRELATED);
    factory.setPublisherReturns(true);
    return factory;
  }

  static SimpleMessageListenerContainer listen(
      CachingConnectionFactory factory, String queue, MessageListener listener) {
    SimpleMessageListenerContainer container = new SimpleMessageListenerContainer(factory);
    container.setQueueNames(queue);
    container.setPrefetchCount(10);
    container.setRecoveryInterval(200);
    container.setMessageListener(listener);
    container.afterPropertiesSet();
    container.start();
    return container;
  }

  static String text(Message message) {
    return new String(message.getBody(), StandardCharsets.UTF_8);
  }

  static Message next(BlockingQueue<Message> queue) throws InterruptedException {
    Message message = queue.poll(Cell.PATIENCE_MS, TimeUnit.MILLISECONDS);
    Cell.check(message != null, "no message");
    return message;
  }

  private static void tasks() throws Exception {
    CachingConnectionFactory factory = factory();
    RabbitAdmin admin = new RabbitAdmin(factory);
    TopicExchange exchange = new TopicExchange(Cell.name("x"), true, false);
    Queue queue = new Queue(Cell.name("q"));
    admin.declareExchange(exchange);
    admin.declareQueue(queue);
    admin.declareBinding(BindingBuilder.bind(queue).to(exchange).with("task.#"));
    RabbitTemplate template = new RabbitTemplate(factory);
    template.setMandatory(true);
    List<CorrelationData> sent = new ArrayList<>();
    for (String body : Cell.numbered(0, 100)) {
      CorrelationData correlation = new CorrelationData(body);
      template.convertAndSend(exchange.getName(), "task.one", body, correlation);
      sent.add(correlation);
    }
    for (CorrelationData correlation : sent) {
      CorrelationData.Confirm confirm = correlation.getFuture().get(20, TimeUnit.SECONDS);
      Cell.check(confirm.isAck(), correlation.getId() + " isn't confirmed: " + confirm.getReason());
    }
    CorrelationData unroutable = new CorrelationData("unroutable");
    template.convertAndSend(exchange.getName(), "nobody", "x", unroutable);
    unroutable.getFuture().get(20, TimeUnit.SECONDS);
    Cell.check(unroutable.getReturned() != null, "an unroutable message isn't returned before its confirm");
    Cell.equal(unroutable.getReturned().getReplyCode(), 312, "code of the return");
    BlockingQueue<Message> seen = new LinkedBlockingQueue<>();
    SimpleMessageListenerContainer container = listen(factory, queue.getName(), seen::add);
    // The factory takes another channel while confirms of one are missing, and among channels there is no order.
    Set<String> bodies = new HashSet<>();
    for (int i = 0; i < 100; i++) {
      bodies.add(text(next(seen)));
    }
    Cell.equal(bodies, Set.of(Cell.numbered(0, 100)), "bodies");
    container.stop();
    Cell.check(admin.deleteQueue(queue.getName()), "the queue isn't deleted");
    Cell.check(admin.deleteExchange(exchange.getName()), "the exchange isn't deleted");
  }

  private static void retry() throws Exception {
    CachingConnectionFactory factory = factory();
    RabbitAdmin admin = new RabbitAdmin(factory);
    Queue queue = new Queue(Cell.name("q"));
    admin.declareQueue(queue);
    new RabbitTemplate(factory).convertAndSend(queue.getName(), (Object) "again");
    BlockingQueue<Message> seen = new LinkedBlockingQueue<>();
    SimpleMessageListenerContainer container = listen(factory, queue.getName(), message -> {
      seen.add(message);
      if (!message.getMessageProperties().isRedelivered()) {
        throw new IllegalStateException("the first time it fails");
      }
    });
    Cell.equal(next(seen).getMessageProperties().isRedelivered(), false, "redelivered at first");
    Cell.equal(next(seen).getMessageProperties().isRedelivered(), true, "redelivered the second time");
    container.stop();
    Cell.equal(admin.getQueueInfo(queue.getName()).getMessageCount(), 0, "what is left");
    admin.deleteQueue(queue.getName());
  }

  private static void later() throws Exception {
    CachingConnectionFactory factory = factory();
    RabbitAdmin admin = new RabbitAdmin(factory);
    Queue target = new Queue(Cell.name("target"));
    Queue waiting = QueueBuilder.durable(Cell.name("waiting")).ttl(1000).deadLetterExchange("")
        .deadLetterRoutingKey(target.getName()).build();
    admin.declareQueue(target);
    admin.declareQueue(waiting);
    long sent = System.nanoTime();
    new RabbitTemplate(factory).convertAndSend(waiting.getName(), (Object) "later");
    BlockingQueue<Message> seen = new LinkedBlockingQueue<>();
    SimpleMessageListenerContainer container = listen(factory, target.getName(), seen::add);
    Message message = next(seen);
    Cell.check(System.nanoTime() - sent > 900_000_000L, "came before its time");
    List<Map<String, ?>> deaths = message.getMessageProperties().getXDeathHeader();
    Cell.equal(deaths.get(0).get("reason"), "expired", "why it died");
    Cell.equal(deaths.get(0).get("queue"), waiting.getName(), "where it died");
    container.stop();
    admin.deleteQueue(waiting.getName());
    admin.deleteQueue(target.getName());
  }

  private static void control() throws Exception {
    CachingConnectionFactory factory = factory();
    RabbitAdmin admin = new RabbitAdmin(factory);
    Queue queue = new Queue(Cell.name("q"));
    TopicExchange exchange = new TopicExchange(Cell.name("x"));
    admin.declareQueue(queue);
    admin.declareExchange(exchange);
    Binding binding = BindingBuilder.bind(queue).to(exchange).with("a.*");
    admin.declareBinding(binding);
    RabbitTemplate template = new RabbitTemplate(factory);
    for (String body : Cell.numbered(0, 3)) {
      template.convertAndSend(exchange.getName(), "a.b", body);
    }
    long deadline = System.nanoTime() + 20_000_000_000L;
    while (admin.getQueueInfo(queue.getName()).getMessageCount() < 3 && System.nanoTime() < deadline) {
      Thread.onSpinWait();
    }
    Properties properties = admin.getQueueProperties(queue.getName());
    Cell.equal(properties.get(RabbitAdmin.QUEUE_MESSAGE_COUNT), 3, "messages");
    Cell.equal(properties.get(RabbitAdmin.QUEUE_CONSUMER_COUNT), 0, "consumers");
    Cell.equal(admin.getQueueProperties(Cell.name("none")), null, "properties of what isn't there");
    admin.removeBinding(binding);
    Cell.equal(admin.purgeQueue(queue.getName()), 3, "purged");
    // An answer over direct reply-to: the template's default.
    SimpleMessageListenerContainer container = new SimpleMessageListenerContainer(factory);
    container.setQueueNames(queue.getName());
    container.setMessageListener(new MessageListenerAdapter(new Echo(), "handle"));
    container.afterPropertiesSet();
    container.start();
    template.setReplyTimeout(Cell.PATIENCE_MS);
    Cell.equal(template.convertSendAndReceive(queue.getName(), (Object) "hello"), "HELLO", "the answer");
    container.stop();
    admin.deleteQueue(queue.getName());
    admin.deleteExchange(exchange.getName());
  }

  /** What answers. */
  public static final class Echo {
    /** The same in capitals. */
    public String handle(String text) {
      return text.toUpperCase(java.util.Locale.ROOT);
    }
  }

  private static void recover() throws Exception {
    CachingConnectionFactory factory = factory();
    RabbitAdmin admin = new RabbitAdmin(factory);
    Queue queue = new Queue(Cell.name("q"));
    admin.declareQueue(queue);
    RabbitTemplate template = new RabbitTemplate(factory);
    BlockingQueue<Message> seen = new LinkedBlockingQueue<>();
    SimpleMessageListenerContainer container = listen(factory, queue.getName(), seen::add);
    template.convertAndSend(queue.getName(), (Object) "before");
    Cell.equal(text(next(seen)), "before", "before");
    Cell.ask("ready kill", "go");
    CorrelationData after = null;
    long deadline = System.nanoTime() + 40_000_000_000L;
    while (after == null || !after.getFuture().get(20, TimeUnit.SECONDS).isAck()) {
      Cell.check(System.nanoTime() < deadline, "nothing is confirmed any more");
      try {
        CorrelationData next = new CorrelationData("after");
        template.convertAndSend("", queue.getName(), "after", next);
        after = next;
      } catch (org.springframework.amqp.AmqpException problem) {
        Thread.sleep(50);
      }
    }
    String body;
    do {
      body = text(next(seen));
    } while (!body.equals("after"));
    container.stop();
    admin.deleteQueue(queue.getName());
  }
}
