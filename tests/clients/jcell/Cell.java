// What the Java programs of the AMQP 1.0 table share: the harness's lines (tests/src/cell.rs), its 0-9-1 peer
// (tests/src/peer.rs), and the words with which a scenario fails.

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.URI;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import javax.net.ssl.SSLContext;

final class Cell {
  static final int PATIENCE_MS = 20_000;
  static String host;
  static int port;
  /** What is trusted; null without TLS. */
  static SSLContext tls;
  private static final BufferedReader STDIN =
      new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
  private static String scenario;

  private Cell() {}

  interface Scenario {
    void run() throws Exception;
  }

  static final class Failure extends RuntimeException {
    Failure(String text) {
      super(text);
    }
  }

  static void main(String[] arguments, Map<String, Scenario> scenarios) {
    URI uri = URI.create(arguments[0]);
    host = uri.getHost();
    port = uri.getPort();
    scenario = arguments[3];
    int status = 0;
    try {
      tls = Trust.tls();
      Scenario run = scenarios.get(scenario);
      check(run != null, "no such scenario");
      run.run();
      System.out.println("ok " + scenario);
    } catch (Throwable problem) {
      System.out.println("fail " + scenario + ": " + chain(problem).replace('\n', ' ') + " at " + place(problem));
      status = 1;
    }
    System.out.flush();
    Runtime.getRuntime().halt(status);
  }

  /** The texts of an exception and of its causes. */
  static String chain(Throwable problem) {
    List<String> texts = new ArrayList<>();
    for (Throwable cause = problem; cause != null && texts.size() < 8; cause = cause.getCause()) {
      texts.add(cause.toString());
    }
    return String.join(" / ", texts);
  }

  private static String place(Throwable problem) {
    for (StackTraceElement frame : problem.getStackTrace()) {
      if (!frame.getClassName().equals("Cell") && frame.getFileName() != null && !frame.getClassName().contains(".")) {
        return frame.getFileName() + ":" + frame.getLineNumber();
      }
    }
    return "?";
  }

  static String name(String part) {
    return "cell." + scenario + "." + ProcessHandle.current().pid() + "." + part;
  }

  static void fail(String text) {
    throw new Failure(text);
  }

  static void check(boolean condition, String text) {
    if (!condition) {
      fail(text);
    }
  }

  static void equal(Object received, Object expected, String what) {
    if (!Objects.deepEquals(received, expected)) {
      fail(what + ": " + received + ", expected " + expected);
    }
  }

  /** The act fails, and one of the exceptions says one of the words. */
  static void fails(Scenario act, String... words) {
    try {
      act.run();
    } catch (Exception problem) {
      says(problem, words);
      return;
    }
    fail("no error instead of " + String.join(" or ", words));
  }

  static void says(Throwable problem, String... words) {
    check(problem != null, "no error instead of " + String.join(" or ", words));
    String text = chain(problem);
    for (String word : words) {
      if (text.contains(word)) {
        return;
      }
    }
    fail("'" + text + "' doesn't say " + String.join(" or ", words));
  }

  static <T> T take(BlockingQueue<T> queue, String what) throws InterruptedException {
    T value = queue.poll(PATIENCE_MS, TimeUnit.MILLISECONDS);
    check(value != null, "no " + what);
    return value;
  }

  static String[] numbered(int from, int to) {
    return IntStream.range(from, to).mapToObj(i -> "m" + i).toArray(String[]::new);
  }

  static void ask(String line, String answer) throws IOException {
    equal(say(line), answer, "answer to " + line);
  }

  private static String say(String line) throws IOException {
    System.out.println(line);
    System.out.flush();
    String answer = STDIN.readLine();
    check(answer != null, "the harness has gone");
    return answer.trim();
  }

  /** Asks the 0-9-1 peer; {@code pairs} are names and JSON values. */
  static String peer(String... pairs) throws IOException {
    String request = IntStream.range(0, pairs.length / 2)
        .mapToObj(i -> "\"" + pairs[2 * i] + "\": " + pairs[2 * i + 1])
        .collect(Collectors.joining(", ", "{", "}"));
    String answer = say("peer " + request);
    check(!answer.startsWith("{\"error\""), "peer " + request + ": " + answer);
    return answer;
  }

  static String json(String text) {
    return "\"" + text.replace("\\", "\\\\").replace("\"", "\\\"") + "\"";
  }

  static String queue(String part) throws IOException {
    return queue(part, "{}");
  }

  /** Declares a durable queue of this run, with arguments in JSON. */
  static String queue(String part, String arguments) throws IOException {
    peer("do", "\"declare\"", "queue", json(name(part)), "arguments", arguments);
    return name(part);
  }

  static String exchange(String part, String type) throws IOException {
    peer("do", "\"exchange\"", "exchange", json(name(part)), "type", json(type));
    return name(part);
  }

  static void bind(String queue, String exchange, String key) throws IOException {
    peer("do", "\"bind\"", "queue", json(queue), "exchange", json(exchange), "key", json(key));
  }

  static int ready(String queue) throws IOException {
    String answer = peer("do", "\"count\"", "queue", json(queue));
    return Integer.parseInt(answer.replaceAll("\\D", ""));
  }

  static void delete(String queue) throws IOException {
    peer("do", "\"delete\"", "queue", json(queue));
  }

  /** Takes a message over 0-9-1, as JSON. */
  static String get(String queue) throws IOException {
    return peer("do", "\"get\"", "queue", json(queue)).replace("\": ", "\":");
  }

  static String percent(String segment) {
    return URLEncoder.encode(segment, StandardCharsets.UTF_8).replace("+", "%20").replace("*", "%2A");
  }

  static String atQueue(String name) {
    return "/queues/" + percent(name);
  }

  static String atExchange(String name, String key) {
    return "/exchanges/" + percent(name) + "/" + percent(key);
  }
}
