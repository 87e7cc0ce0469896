// What applications of Spring declare: beans that RabbitAdmin declares with each new connection, delayed exchanges, priorities,
// quorum queues with a delivery limit.

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import org.springframework.amqp.AmqpIOException;
import org.springframework.amqp.AmqpRejectAndDontRequeueException;
import org.springframework.amqp.core.AcknowledgeMode;
import org.springframework.amqp.core.AnonymousQueue;
import org.springframework.amqp.core.Binding;
import org.springframework.amqp.core.BindingBuilder;
import org.springframework.amqp.core.CustomExchange;
import org.springframework.amqp.core.Declarables;
import org.springframework.amqp.core.DirectExchange;
import org.springframework.amqp.core.ExchangeBuilder;
import org.springframework.amqp.core.Message;
import org.springframework.amqp.core.Queue;
import org.springframework.amqp.core.QueueBuilder;
import org.springframework.amqp.core.QueueInformation;
import org.springframework.amqp.core.TopicExchange;
import org.springframework.amqp.rabbit.connection.CachingConnectionFactory;
import org.springframework.amqp.rabbit.core.RabbitAdmin;
import org.springframework.amqp.rabbit.core.RabbitTemplate;
import org.springframework.amqp.rabbit.listener.SimpleMessageListenerContainer;
import org.springframework.amqp.rabbit.listener.api.ChannelAwareMessageListener;
import org.springframework.context.support.GenericApplicationContext;

final class Topology {
  private Topology() {}

  static void priorities() throws Exception {
    byPriority(QueueBuilder.durable(Cell.name("q")).maxPriority(10).build());
  }

  static void prioritiesOfQuorumQueues() throws Exception {
    byPriority(QueueBuilder.durable(Cell.name("q")).quorum().build());
  }

  private static void byPriority(Queue queue) throws Exception {
    CachingConnectionFactory factory = SpringClient.factory();
    RabbitAdmin admin = new RabbitAdmin(factory);
    admin.declareQueue(queue);
    RabbitTemplate template = new RabbitTemplate(factory);
    for (int priority : new int[] {1, 1, 9, 5, 9, 1}) {
      send(template, "", queue.getName(), priority);
    }
    BlockingQueue<Message> seen = new LinkedBlockingQueue<>();
    SimpleMessageListenerContainer container = SpringClient.listen(factory, queue.getName(), seen::add);
    for (int expected : new int[] {9, 9, 5, 1, 1, 1}) {
      Cell.equal(SpringClient.next(seen).getMessageProperties().getPriority(), expected, "priority");
    }
    container.stop();
    admin.deleteQueue(queue.getName());
  }

  /** It is in the queue when this returns. */
  private static void send(RabbitTemplate template, String exchange, String key, int priority) {
    template.invoke(operations -> {
      operations.convertAndSend(exchange, key, "p" + priority, message -> {
        message.getMessageProperties().setPriority(priority);
        return message;
      });
      return operations.waitForConfirms(Cell.PATIENCE_MS);
    });
  }

  /** A message that is always rejected is tried as often as the limit says. */
  static void quorum() throws Exception {
    CachingConnectionFactory factory = SpringClient.factory();
    RabbitAdmin admin = new RabbitAdmin(factory);
    Queue parked = QueueBuilder.durable(Cell.name("parked")).quorum().build();
    Queue queue = QueueBuilder.durable(Cell.name("q")).quorum().deliveryLimit(2).deadLetterExchange("")
        .deadLetterRoutingKey(parked.getName()).build();
    admin.declareQueue(parked);
    admin.declareQueue(queue);
    BlockingQueue<Message> tries = new LinkedBlockingQueue<>();
    // By itself the container says basic.nack, which the limit doesn't count.
    SimpleMessageListenerContainer failing = new SimpleMessageListenerContainer(factory);
    failing.setQueueNames(queue.getName());
    failing.setAcknowledgeMode(AcknowledgeMode.MANUAL);
    failing.setMessageListener((ChannelAwareMessageListener) (message, channel) -> {
      tries.add(message);
      channel.basicReject(message.getMessageProperties().getDeliveryTag(), true);
    });
    failing.afterPropertiesSet();
    failing.start();
    new RabbitTemplate(factory).convertAndSend(queue.getName(), (Object) "poison");
    BlockingQueue<Message> dead = new LinkedBlockingQueue<>();
    SimpleMessageListenerContainer container = SpringClient.listen(factory, parked.getName(), dead::add);
    Map<String, ?> death = SpringClient.next(dead).getMessageProperties().getXDeathHeader().get(0);
    Cell.equal(death.get("reason"), "delivery_limit", "why it died");
    Cell.equal(death.get("queue"), queue.getName(), "where it died");
    List<Object> counts = new ArrayList<>();
    for (Message each : tries) {
      counts.add(each.getMessageProperties().getHeader("x-delivery-count"));
    }
    Cell.equal(counts.size(), 3, "deliveries");
    Cell.equal(counts.get(2), 2L, "the last one's count");
    failing.stop();
    container.stop();
    admin.deleteQueue(queue.getName());
    admin.deleteQueue(parked.getName());
  }

  static void delayedExchange() throws Exception {
    CachingConnectionFactory factory = SpringClient.factory();
    RabbitAdmin admin = new RabbitAdmin(factory);
    Queue queue = new Queue(Cell.name("q"));
    DirectExchange delayed = ExchangeBuilder.directExchange(Cell.name("delayed")).delayed().build();
    // The same without the help of Spring, as in applications from before it.
    CustomExchange custom = new CustomExchange(Cell.name("custom"), "x-delayed-message", true, false,
        Map.of("x-delayed-type", "topic"));
    admin.declareQueue(queue);
    admin.declareExchange(delayed);
    admin.declareExchange(custom);
    admin.declareBinding(BindingBuilder.bind(queue).to(delayed).with("k"));
    admin.declareBinding(BindingBuilder.bind(queue).to(custom).with("a.*").noargs());
    BlockingQueue<Message> seen = new LinkedBlockingQueue<>();
    SimpleMessageListenerContainer container = SpringClient.listen(factory, queue.getName(), seen::add);
    RabbitTemplate template = new RabbitTemplate(factory);
    long sent = System.nanoTime();
    delayed(template, delayed.getName(), "k", 600);
    delayed(template, custom.getName(), "a.b", 300);
    delayed(template, delayed.getName(), "k", 0);
    for (long delay : new long[] {0, 300, 600}) {
      Message message = SpringClient.next(seen);
      Cell.equal(SpringClient.text(message), "after " + delay, "body");
      Cell.check(System.nanoTime() - sent >= delay * 1_000_000, "came before its time");
    }
    container.stop();
    admin.deleteQueue(queue.getName());
    admin.deleteExchange(delayed.getName());
    admin.deleteExchange(custom.getName());
  }

  private static void delayed(RabbitTemplate template, String exchange, String key, long delay) {
    template.convertAndSend(exchange, key, "after " + delay, message -> {
      if (delay > 0) {
        message.getMessageProperties().setDelayLong(delay);
      }
      return message;
    });
  }

  static void topology() throws Exception {
    CachingConnectionFactory factory = SpringClient.factory();
    TopicExchange exchange = new TopicExchange(Cell.name("x"));
    Queue parked = new Queue(Cell.name("parked"));
    Queue queue = QueueBuilder.durable(Cell.name("q")).deadLetterExchange("").deadLetterRoutingKey(parked.getName()).build();
    AnonymousQueue anonymous = new AnonymousQueue(() -> Cell.name("anonymous"));
    // Spring gives it x-queue-master-locator, which brokers of today refuse.
    anonymous.setLeaderLocator(null);
    try (GenericApplicationContext context = new GenericApplicationContext()) {
      context.registerBean("exchange", TopicExchange.class, () -> exchange);
      context.registerBean("queue", Queue.class, () -> queue);
      context.registerBean("bindings", Declarables.class, () -> new Declarables(parked, anonymous,
          BindingBuilder.bind(queue).to(exchange).with("a.#"), BindingBuilder.bind(anonymous).to(exchange).with("#"),
          new Binding(parked.getName(), Binding.DestinationType.QUEUE, exchange.getName(), "park", null)));
      context.registerBean(RabbitAdmin.class, () -> new RabbitAdmin(factory));
      context.refresh();
      RabbitAdmin admin = context.getBean(RabbitAdmin.class);
      // The first connection declares all of it.
      pass(factory, exchange, queue, anonymous);
      // And so does each later one, as far as it was deleted.
      RabbitAdmin other = new RabbitAdmin(SpringClient.factory());
      Cell.check(other.deleteQueue(queue.getName()), "the queue isn't deleted");
      Cell.check(other.deleteExchange(exchange.getName()), "the exchange isn't deleted");
      factory.resetConnection();
      pass(factory, exchange, queue, anonymous);
      comesBackUnderAListener(context, factory, other, queue);
      deadLetters(factory, exchange, queue, parked);
      mismatches(other, queue);
      Cell.fails(() -> new RabbitAdmin(SpringClient.factory()).declareQueue(new AnonymousQueue()), "`queue_master_locator`");
      QueueInformation information = admin.getQueueInfo(queue.getName());
      Cell.equal(information.getName() + information.getMessageCount() + information.getConsumerCount(),
          queue.getName() + "00", "what is left");
      for (Queue each : List.of(queue, parked, anonymous)) {
        Cell.check(admin.deleteQueue(each.getName()), each.getName() + " isn't deleted");
      }
      admin.deleteExchange(exchange.getName());
    }
  }

  /** A message gets to both queues. */
  private static void pass(CachingConnectionFactory factory, TopicExchange exchange, Queue... queues) {
    RabbitTemplate template = new RabbitTemplate(factory);
    template.convertAndSend(exchange.getName(), "a.b", "hello");
    for (Queue queue : queues) {
      Cell.equal(template.receiveAndConvert(queue.getName(), Cell.PATIENCE_MS), "hello", queue.getName());
    }
  }

  /** A container whose queue is deleted has it declared again. */
  private static void comesBackUnderAListener(
      GenericApplicationContext context, CachingConnectionFactory factory, RabbitAdmin other, Queue queue) throws Exception {
    SimpleMessageListenerContainer container = new SimpleMessageListenerContainer(factory);
    BlockingQueue<Message> seen = new LinkedBlockingQueue<>();
    container.setQueueNames(queue.getName());
    container.setMessageListener(seen::add);
    container.setAmqpAdmin(context.getBean(RabbitAdmin.class));
    container.setApplicationContext(context);
    container.setRecoveryInterval(50);
    container.setFailedDeclarationRetryInterval(50);
    container.afterPropertiesSet();
    container.start();
    other.deleteQueue(queue.getName());
    long deadline = System.nanoTime() + Cell.PATIENCE_MS * 1_000_000L;
    QueueInformation information = other.getQueueInfo(queue.getName());
    while (information == null || information.getConsumerCount() == 0) {
      Cell.check(System.nanoTime() < deadline, "nobody declares the queue again");
      Thread.sleep(20);
      information = other.getQueueInfo(queue.getName());
    }
    new RabbitTemplate(factory).convertAndSend(queue.getName(), (Object) "again");
    Cell.equal(SpringClient.text(SpringClient.next(seen)), "again", "body");
    container.stop();
  }

  private static void deadLetters(CachingConnectionFactory factory, TopicExchange exchange, Queue queue, Queue parked)
      throws Exception {
    SimpleMessageListenerContainer refusing = SpringClient.listen(factory, queue.getName(), message -> {
      throw new AmqpRejectAndDontRequeueException("never again");
    });
    BlockingQueue<Message> dead = new LinkedBlockingQueue<>();
    SimpleMessageListenerContainer container = SpringClient.listen(factory, parked.getName(), dead::add);
    new RabbitTemplate(factory).convertAndSend(exchange.getName(), "a.c", "refused");
    Map<String, ?> death = SpringClient.next(dead).getMessageProperties().getXDeathHeader().get(0);
    Cell.equal(death.get("reason"), "rejected", "why it died");
    Cell.equal(death.get("exchange"), exchange.getName(), "where it was published to");
    refusing.stop();
    container.stop();
  }

  /** The same queue with other arguments: an exception, or a note of it where the application asks for that. */
  private static void mismatches(RabbitAdmin admin, Queue queue) {
    Queue shorter = QueueBuilder.durable(queue.getName()).maxLength(5).build();
    try {
      admin.declareQueue(shorter);
      Cell.fail("a mismatch is accepted");
    } catch (AmqpIOException problem) {
      Cell.says(problem, "inequivalent arg");
    }
    admin.setIgnoreDeclarationExceptions(true);
    Cell.equal(admin.declareQueue(shorter), null, "the name of a queue with other arguments");
    Cell.says(admin.getLastDeclarationExceptionEvent().getThrowable(), "inequivalent arg");
    Cell.check(admin.getQueueInfo(queue.getName()) != null, "the queue has gone");
  }
}
