# The scenarios of the client table, with Bunny. See tests/src/cell.rs for the lines it speaks.
# frozen_string_literal: true

require "bunny"
require "timeout"

URI_, _, _, SCENARIO = ARGV
PREFIX = "cell.#{SCENARIO}.#{Process.pid}"
KINDS = %i[direct fanout topic headers].freeze
PATIENCE_S = 20
PRECONDITION = "PRECONDITION_FAILED"
LOCKED = "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue"
REPLY_TO = "amq.rabbitmq.reply-to"

# A scenario that saw something else than it should.
class Unexpected < StandardError; end

def check(condition, text)
  raise Unexpected, text unless condition
end

def equal(received, expected, what)
  check(received == expected, "#{what}: #{received.inspect}, expected #{expected.inspect}")
end

def ask(line, answer)
  puts line
  equal($stdin.gets&.strip, answer, "control")
end

# The errors of a connection, which the library would raise in the thread that opened it.
class Errors
  def initialize = @errors = Queue.new
  def raise(error) = @errors << error
  def next = Timeout.timeout(PATIENCE_S) { @errors.pop }
end

def connect(uri = URI_, **options)
  options = { automatically_recover: false, recover_from_connection_close: false, log_file: $stderr }.merge(options)
  authority = ENV.fetch("LEVERET_TEST_CA", nil)
  options.merge!(tls_ca_certificates: [authority], verify_peer: true) if authority
  Bunny.new(uri, options).start
end

def confirming(connection = connect)
  connection.create_channel.tap(&:confirm_select)
end

def queue(channel, name = "q", **options)
  channel.queue("#{PREFIX}.#{name}", { durable: true }.merge(options))
end

def own_queue(channel)
  queue(channel, durable: false, exclusive: true)
end

def count(channel, name)
  channel.queue_declare(name, passive: true).message_count
end

def send_to(channel, name, *bodies)
  bodies.each { |body| channel.default_exchange.publish(body, routing_key: name, persistent: true, mandatory: true) }
  check(channel.wait_for_confirms, "a publish was refused")
end

def get(channel, name, manual_ack: true)
  channel.basic_get(name, manual_ack: manual_ack).tap { |info, *| check(info, "the queue is empty") }
end

def empty(channel, name)
  equal(channel.basic_get(name, manual_ack: false).first, nil, "what the queue still has")
end

# Deliveries, to be taken one by one.
def consume(channel, name, no_ack: false, **options)
  deliveries = Queue.new
  tag = channel.generate_consumer_tag
  channel.basic_consume(name, tag, no_ack, options.fetch(:exclusive, false)) { |*delivery| deliveries << delivery }
  deliveries
end

def take(deliveries) = Timeout.timeout(PATIENCE_S) { deliveries.pop }

# The block on a channel of its own ends with this code and these first words.
def fails(connection, code, words, &act)
  close = refusal(connection.create_channel, &act)
  equal(close.reply_code, code, "code (#{close.reply_text})")
  check(close.reply_text.start_with?(words), "'#{close.reply_text}' doesn't start with '#{words}'")
end

def refusal(channel)
  yield channel
  # The answer to a publish comes with the next call's.
  channel.basic_qos(1)
  raise Unexpected, "nothing happened"
rescue Bunny::ChannelLevelException => error
  error.channel_close
rescue Bunny::ChannelAlreadyClosed
  channel.instance_variable_get(:@last_channel_error).channel_close
end

# A settlement on a channel of its own ends with this tag unknown. The library tells it to a callback only.
def unknown_tag(connection, tag)
  channel = connection.create_channel
  refused = Queue.new
  channel.on_error { |_, close| refused << close }
  yield channel
  close = take(refused)
  equal([close.reply_code, close.reply_text], [406, "#{PRECONDITION} - unknown delivery tag #{tag}"], "refusal")
end

# The block on a connection of its own ends it with this code and these first words.
def breaks(code, words)
  channel = connect.create_channel
  yield channel
  Timeout.timeout(PATIENCE_S) { sleep }
rescue Bunny::ConnectionLevelException, Bunny::NotAllowedError => error
  closed_with(error, code, words)
end

# The same with a code that the library doesn't know: its reader thread dies of it.
def kills_the_reader(code, words)
  Thread.report_on_exception = false
  Thread.abort_on_exception = true
  channel = connect.create_channel
  yield channel
  Timeout.timeout(PATIENCE_S) { sleep }
rescue RuntimeError => error
  expected = "Unknown reply code: #{code}, text: #{words}"
  check(error.message.start_with?(expected), "'#{error.message}' doesn't start with '#{expected}'")
end

def closed_with(error, code, words)
  check(error.respond_to?(:connection_close), "#{code} expected: #{error.inspect}")
  equal(error.connection_close.reply_code, code, "code (#{error.message})")
  text = error.connection_close.reply_text
  check(text.start_with?(words), "'#{text}' doesn't start with '#{words}'")
end

def injected(code, words, frame)
  errors = Errors.new
  connect(session_error_handler: errors).create_channel
  ask("inject #{frame}", "done")
  closed_with(errors.next, code, words)
  connect.create_channel.queue("", exclusive: true) # another connection doesn't notice
end

SCENARIOS = {
  declare: lambda do
    connection = connect
    channel = confirming(connection)
    name = queue(channel).name
    again = connection.create_channel.queue_declare(name, durable: true)
    equal([again.queue, again.message_count, again.consumer_count], [name, 0, 0], "declare-ok")
    check(connection.queue_exists?(name), "the queue isn't there")
    returns = []
    KINDS.each do |kind|
      exchange = channel.exchange("#{PREFIX}.#{kind}", type: kind, durable: true)
      exchange.on_return { |info, *| returns << info.reply_code }
      connection.create_channel.exchange(exchange.name, type: kind, durable: true)
      check(connection.exchange_exists?(exchange.name), "the exchange isn't there")
      channel.queue_bind(name, exchange.name, routing_key: "a.b",
                                              arguments: kind == :headers ? { "x-match" => "all", "k" => 1 } : {})
      exchange.publish(kind.to_s, routing_key: "a.b", headers: { "k" => 1 }, mandatory: true)
    end
    channel.wait_for_confirms
    equal(count(channel, name), 4, "messages through four exchanges")
    direct = "#{PREFIX}.direct"
    channel.queue_unbind(name, direct, routing_key: "a.b")
    channel.basic_publish("x", direct, "a.b", mandatory: true)
    channel.wait_for_confirms
    equal(returns, [312], "an unbound key")
    equal(channel.queue_purge(name).message_count, 4, "purge")
    own = channel.queue("", exclusive: true).name
    check(own.start_with?("amq.gen-"), own)
    inequivalent = "#{PRECONDITION} - inequivalent arg"
    fails(connection, 406, "#{inequivalent} 'durable' for queue") { |c| c.queue_declare(name, durable: false) }
    fails(connection, 406, "#{inequivalent} 'x-max-length' for queue") do |c|
      c.queue(name, durable: true, arguments: { "x-max-length" => 5 })
    end
    fails(connection, 406, "#{inequivalent} 'type' for exchange") { |c| c.fanout(direct, durable: true) }
    fails(connection, 404, "NOT_FOUND - no queue") { |c| c.queue("#{PREFIX}.missing", passive: true) }
    KINDS.each { |kind| channel.exchange_delete("#{PREFIX}.#{kind}") }
    channel.queue_delete(own)
    check(!connection.queue_exists?(own), "the queue is there")
  end,

  publish_confirm: lambda do
    channel = confirming
    name = queue(channel).name
    send_to(channel, name, *(0...100).map(&:to_s))
    equal(count(channel, name), 100, "messages")
    100.times do |n|
      _, properties, body = get(channel, name, manual_ack: false)
      equal([properties[:delivery_mode], body], [2, n.to_s], "message")
    end
  end,

  mandatory_return: lambda do
    events = []
    channel = connect.create_channel
    channel.confirm_select(->(_, _, nack) { events << (nack ? :nack : :confirm) })
    exchange = channel.direct("amq.direct", durable: true)
    exchange.on_return { |*returned| events << returned }
    key = "#{PREFIX}.nowhere"
    exchange.publish("back", routing_key: key, mandatory: true, message_id: "m")
    channel.wait_for_confirms
    equal([events.size, events.last], [2, :confirm], "the return comes before the confirm")
    info, properties, body = events.first
    equal([info.reply_code, info.reply_text, info.exchange, info.routing_key], [312, "NO_ROUTE", "amq.direct", key], "return")
    equal([properties[:message_id], body], ["m", "back"], "returned message")
    exchange.publish("dropped", routing_key: key)
    channel.wait_for_confirms
    equal(events.size, 3, "events without mandatory")
  end,

  direct_reply_to: lambda do
    requester = connect.create_channel
    responder = confirming
    name = queue(responder).name
    answers = consume(requester, REPLY_TO, no_ack: true)
    requests = consume(responder, name, no_ack: true)
    asked = { routing_key: name, reply_to: REPLY_TO, correlation_id: "7", mandatory: true }
    requester.default_exchange.publish("ask", **asked)
    _, properties, body = take(requests)
    reply_to = properties.reply_to
    equal([body, properties.correlation_id], %w[ask 7], "request")
    check(reply_to.start_with?("#{REPLY_TO}."), reply_to)
    equal(responder.queue_declare(reply_to, passive: true).consumer_count, 1, "consumers")
    responder.default_exchange.publish("answer", routing_key: reply_to, correlation_id: "7", mandatory: true)
    responder.wait_for_confirms
    _, properties, body = take(answers)
    equal([body, properties.correlation_id], %w[answer 7], "answer")
    fails(connect, 406, "#{PRECONDITION} - reply consumer cannot acknowledge") { |c| consume(c, REPLY_TO) }
    fails(connect, 406, "#{PRECONDITION} - fast reply consumer does not exist") { |c| c.default_exchange.publish("ask", **asked) }
    fails(connect, 403, "ACCESS_REFUSED") { |c| c.queue_bind(reply_to, "amq.direct", routing_key: "k") }
  end,

  ack: lambda do
    connection = connect
    channel = confirming(connection)
    name = queue(channel).name
    send_to(channel, name, *%w[1 2 3 4 5])
    receiver = connection.create_channel
    deliveries = consume(receiver, name)
    messages = (1..5).map { take(deliveries) }
    messages.each.with_index(1) do |(info, _, body), n|
      equal([info.delivery_tag.to_i, info.redelivered?, body], [n, false, n.to_s], "delivery")
    end
    receiver.ack(messages[0].first.delivery_tag)
    receiver.ack(messages[2].first.delivery_tag, true)
    receiver.close
    again = connection.create_channel
    %w[4 5].each do |expected|
      info, _, body = get(again, name)
      equal([info.redelivered, body], [true, expected], "redelivery")
      again.ack(info.delivery_tag)
    end
    empty(again, name)
    again.close
    equal(count(channel, name), 0, "messages")
  end,

  nack_requeue: lambda do
    channel = confirming
    name = queue(channel).name
    send_to(channel, name, *%w[1 2 3 4])
    _, second, = Array.new(3) { get(channel, name).first }
    channel.nack(second.delivery_tag, false, true)
    info, _, body = get(channel, name)
    equal([body, info.redelivered], ["2", true], "the place of 2 is before 4")
    channel.nack(info.delivery_tag, true, true)
    order = Array.new(4) do
      info, _, body = get(channel, name)
      channel.ack(info.delivery_tag)
      [body, info.redelivered]
    end
    equal(order, [["1", true], ["2", true], ["3", true], ["4", false]], "order")
    send_to(channel, name, "5")
    channel.nack(get(channel, name).first.delivery_tag, false, false)
    empty(channel, name)
  end,

  reject: lambda do
    channel = confirming
    name = queue(channel).name
    send_to(channel, name, "1", "2")
    channel.reject(get(channel, name).first.delivery_tag, true)
    info, _, body = get(channel, name)
    equal([body, info.redelivered], ["1", true], "requeued")
    channel.reject(info.delivery_tag, false)
    info, _, body = get(channel, name, manual_ack: false)
    equal([body, info.redelivered], ["2", false], "next")
    empty(channel, name)
  end,

  prefetch: lambda do
    connection = connect
    publisher = confirming(connection)
    name = queue(publisher).name
    send_to(publisher, name, *(0...10).map(&:to_s))
    channel = connection.create_channel
    channel.prefetch(3)
    deliveries = consume(channel, name)
    messages = Array.new(3) { take(deliveries) }
    equal(count(channel, name), 7, "ready while 3 are unacknowledged")
    check(deliveries.empty?, "a fourth delivery")
    channel.ack(messages[1].first.delivery_tag, true)
    2.times { messages << take(deliveries) }
    equal(count(channel, name), 5, "ready after 2 acks")
    equal(messages.map(&:last), %w[0 1 2 3 4], "bodies")
  end,

  get: lambda do
    channel = confirming
    name = queue(channel).name
    empty(channel, name)
    send_to(channel, name, "1", "2")
    info, _, body = get(channel, name)
    equal([info.message_count, info.redelivered, info.exchange, info.routing_key, body], [1, false, "", name, "1"], "first")
    channel.ack(info.delivery_tag)
    info, _, body = get(channel, name, manual_ack: false)
    equal([info.message_count, body], [0, "2"], "last")
    empty(channel, name)
  end,

  big_body: lambda do
    channel = confirming
    name = queue(channel).name
    body = (0...(5 * 1024 * 1024 / 4)).map { |n| n * 2_654_435_761 % 4_294_967_296 }.pack("N*")
    send_to(channel, name, body, "after", body)
    [body, "after", body].each do |expected|
      info, _, received = get(channel, name)
      check(received.b == expected.b, "a body of #{received.bytesize} bytes differs")
      channel.ack(info.delivery_tag)
    end
  end,

  headers: lambda do
    channel = confirming
    name = queue(channel).name
    # The library can't join text that isn't ASCII with bytes of its own, as long as it isn't bytes, too.
    sent = {
      "unicode ключ".b => "wert ✓ 𝄞", "binary" => (0..255).to_a.pack("C*"), "true" => true, "false" => false,
      "long" => -(2**62), "int" => -2_147_483_648, "double" => 2.5, "time" => Time.at(1_700_000_000), "none" => nil,
      "list" => [1, "zwei ✓", true, nil, { "in" => 1 }], "table" => { "a" => { "b" => { "c" => "tief" } } }, "empty" => ""
    }
    properties = {
      content_type: "text/plain", content_encoding: "utf-8", delivery_mode: 2, priority: 9, correlation_id: "korrelation ✓".b,
      reply_to: "antwort", message_id: "id", timestamp: 1_700_000_000, type: "art", user_id: "guest", app_id: "app ✓".b
    }
    channel.default_exchange.publish("inhalt ✓", routing_key: name, headers: sent, mandatory: true, **properties)
    channel.wait_for_confirms
    info, received, body = get(channel, name)
    equal(body.force_encoding("UTF-8"), "inhalt ✓", "body")
    # Encodings of strings are the library's own affair.
    bytes = lambda do |value|
      case value
      when String then value.b
      when Array then value.map(&bytes)
      when Hash then value.to_h { |key, inner| [key.b, bytes.call(inner)] }
      else value
      end
    end
    equal(bytes.call(received[:headers]), bytes.call(sent), "headers")
    properties[:timestamp] = Time.at(properties[:timestamp])
    properties.each { |key, value| equal(bytes.call(received[key]), bytes.call(value), key.to_s) }
    channel.ack(info.delivery_tag)
  end,

  exclusive: lambda do
    owner = connect
    other = connect
    name = own_queue(owner.create_channel).name
    fails(other, 405, LOCKED) { |c| c.queue(name, passive: true) }
    fails(other, 405, LOCKED) { |c| c.queue_purge(name) }
    check(owner.queue_exists?(name), "the queue isn't there")
    owner.close
    fails(other, 404, "NOT_FOUND - no queue") { |c| c.queue(name, passive: true) }
    own_queue(other.create_channel)
  end,

  # The library opens the connection, its channels, queues and consumers again by itself.
  reconnect: lambda do
    recovered = Queue.new
    connection = connect(automatically_recover: true, recover_from_connection_close: true, network_recovery_interval: 0.1,
                         recovery_completed: -> { recovered << true })
    channel = confirming(connection)
    name = queue(channel).name
    watched = queue(channel, "watched")
    deliveries = Queue.new
    watched.subscribe { |_, _, body| deliveries << body }
    own = queue(channel, "own", durable: false, exclusive: true).name
    send_to(channel, name, "before")
    send_to(channel, own, "lost")
    ask("ready kill", "go")
    take(recovered)
    equal(count(channel, name), 1, "messages after the restart")
    equal(count(channel, own), 0, "messages of the exclusive queue")
    info, _, body = get(channel, name)
    equal(body, "before", "body")
    channel.ack(info.delivery_tag)
    publisher = confirming(connection)
    send_to(publisher, watched.name, "after")
    equal(take(deliveries), "after", "what the consumer gets")
  end,

  heartbeat_loss: lambda do
    errors = Errors.new
    connect(heartbeat: 1, session_error_handler: errors).create_channel
    ask("mute", "closed")
    check(errors.next.is_a?(Bunny::NetworkFailure), "another error")
  end,

  error_320: lambda do
    errors = Errors.new
    connect(session_error_handler: errors).create_channel
    ask("ready term", "go")
    closed_with(errors.next, 320, "CONNECTION_FORCED")
  end,

  error_403: lambda do
    connection = connect
    holder = connection.create_channel
    name = queue(holder).name
    refused = "ACCESS_REFUSED"
    reserved = "contains reserved prefix 'amq.*'"
    fails(connection, 403, "#{refused} - queue name 'amq.own' #{reserved}") { |c| c.queue("amq.own") }
    fails(connection, 403, "#{refused} - exchange name 'amq.own' #{reserved}") { |c| c.exchange_declare("amq.own", "direct") }
    fails(connection, 403, "#{refused} - operation not permitted on the default exchange") { |c| c.queue_bind(name, "") }
    consume(holder, name, exclusive: true)
    fails(connection, 403, "#{refused} - queue '#{name}' in vhost '/' in exclusive use") { |c| consume(c, name) }
    holder.direct("#{PREFIX}.internal", internal: true)
    fails(connection, 403, "#{refused} - cannot publish to internal exchange") { |c| c.basic_publish("x", "#{PREFIX}.internal", "") }
    holder.exchange_delete("#{PREFIX}.internal")
    begin
      connect(URI_.sub("guest:guest@", "guest:wrong@"))
      check(false, "a wrong password opens a connection")
    rescue Bunny::AuthenticationFailureError # it keeps the broker's words to itself
    end
  end,

  error_404: lambda do
    connection = connect
    missing = "#{PREFIX}.missing"
    no_queue = "NOT_FOUND - no queue '#{missing}' in vhost '/'"
    no_exchange = "NOT_FOUND - no exchange '#{missing}' in vhost '/'"
    fails(connection, 404, no_queue) { |c| c.queue(missing, passive: true) }
    fails(connection, 404, no_queue) { |c| consume(c, missing) }
    fails(connection, 404, no_queue) { |c| c.queue_purge(missing) }
    fails(connection, 404, no_queue) { |c| c.queue_bind(missing, "amq.direct") }
    name = queue(connection.create_channel).name
    fails(connection, 404, no_exchange) { |c| c.exchange(missing, passive: true) }
    fails(connection, 404, no_exchange) { |c| c.basic_publish("x", missing, "k") }
    fails(connection, 404, no_exchange) { |c| c.queue_bind(name, missing) }
    connection.create_channel.queue_delete(missing)
  end,

  error_405: lambda do
    name = own_queue(connect.create_channel).name
    other = connect
    words = "#{LOCKED} '#{name}' in vhost '/'"
    fails(other, 405, words) { |c| c.queue(name, exclusive: true) }
    fails(other, 405, words) { |c| consume(c, name) }
    fails(other, 405, words) { |c| c.queue_delete(name) }
    fails(other, 405, words) { |c| c.queue_bind(name, "amq.direct") }
  end,

  error_406: lambda do
    connection = connect
    channel = confirming(connection)
    name = queue(channel).name
    unknown_tag(connection, 7) { |c| c.basic_ack(7) }
    unknown_tag(connection, 7) { |c| c.basic_reject(7) }
    send_to(channel, name, "1")
    unknown_tag(connection, 1) do |c|
      tag = get(c, name).first.delivery_tag
      2.times { c.ack(tag) }
    end
    fails(connection, 406, "#{PRECONDITION} - invalid expiration") do |c|
      c.default_exchange.publish("x", routing_key: name, expiration: "soon")
    end
    fails(connection, 406, "#{PRECONDITION} - invalid arg 'x-max-length' for queue") do |c|
      c.queue("#{PREFIX}.bad", durable: true, arguments: { "x-max-length" => -1 })
    end
    fails(connection, 406, "#{PRECONDITION} - unknown exchange type 'x-nowhere-known'") do |c|
      c.exchange("#{PREFIX}.x", type: "x-nowhere-known")
    end
    send_to(channel, name, "2")
    fails(connection, 406, "#{PRECONDITION} - queue '#{name}' in vhost '/' not empty") { |c| c.queue_delete(name, if_empty: true) }
    consume(connection.create_channel, name)
    fails(connection, 406, "#{PRECONDITION} - queue '#{name}' in vhost '/' in use") { |c| c.queue_delete(name, if_unused: true) }
  end,

  # queue.declare on channel 1, with 00 where the end mark belongs
  error_501: -> { injected(501, "FRAME_ERROR", "0100010000000c0032000a0000000000000000" "00" "00") },

  # queue.declare whose name claims more bytes than the frame has; RabbitMQ says 501 where the specification has 502
  error_502: -> { injected(501, "FRAME_ERROR - cannot decode", "010001000000080032000a0000ff61ce") },

  # queue.declare-ok, which only a broker sends
  error_503: -> { injected(503, "COMMAND_INVALID", "0100010000000e0032000b01610000000000000000ce") },

  # channel.open on channel 1, which is open
  error_504: -> { injected(504, "CHANNEL_ERROR - second 'channel.open' seen", "010001000000050014000a00ce") },

  # a content header on channel 1 without a method before it
  error_505: -> { injected(505, "UNEXPECTED_FRAME", "0200010000000e003c000000000000000000000000ce") },

  error_530: lambda do
    breaks(530, "NOT_ALLOWED - attempt to reuse consumer tag 'tag'") do |c|
      name = queue(c).name
      2.times { c.basic_consume(name, "tag") {} }
    end
    begin
      connect(URI_.sub(/%2F$/, "no%20such"))
      check(false, "an unknown vhost opens a connection")
    rescue Bunny::NotAllowedError => error
      closed_with(error, 530, "NOT_ALLOWED - vhost no such not found")
    end
  end,

  error_540: lambda do
    name = queue(connect.create_channel).name
    kills_the_reader(540, "NOT_IMPLEMENTED") { |c| c.basic_recover(false) }
    # Its calls have no argument for these.
    kills_the_reader(540, "NOT_IMPLEMENTED") { |c| c.connection.send_frame(AMQ::Protocol::Basic::Qos.encode(c.id, 10, 0, false)) }
    kills_the_reader(540, "NOT_IMPLEMENTED - immediate=true") do |c|
      frames = AMQ::Protocol::Basic::Publish.encode(c.id, "x", { delivery_mode: 2 }, "", name, false, true, c.frame_size)
      c.connection.send_frameset(frames, c)
    end
  end
}.freeze

$stdout.sync = true
begin
  SCENARIOS.fetch(SCENARIO.to_sym).call
  puts "ok #{SCENARIO}"
  exit!(0)
rescue Exception => error # the harness wants every reason; some of the library's aren't a StandardError
  place = error.backtrace&.grep(/client\.rb/)&.first
  puts "fail #{SCENARIO}: #{"#{error.class} #{error.message}".gsub("\n", " ")} at #{place}"
  exit!(1)
end
