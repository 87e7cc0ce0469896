<?php
// The scenarios of the client table, with php-amqplib. See tests/src/cell.rs for the lines it speaks.
declare(strict_types=1);

use PhpAmqpLib\Channel\AMQPChannel;
use PhpAmqpLib\Connection\AbstractConnection;
use PhpAmqpLib\Connection\AMQPSSLConnection;
use PhpAmqpLib\Connection\AMQPStreamConnection;
use PhpAmqpLib\Exception\AMQPConnectionClosedException;
use PhpAmqpLib\Exception\AMQPHeartbeatMissedException;
use PhpAmqpLib\Exception\AMQPProtocolChannelException;
use PhpAmqpLib\Message\AMQPMessage;
use PhpAmqpLib\Wire\AMQPAbstractCollection as Type;
use PhpAmqpLib\Wire\AMQPDecimal;
use PhpAmqpLib\Wire\AMQPTable;

require 'PhpAmqpLib/autoload.php';

[, $uri, , , $scenario] = $argv;
define('URI', parse_url($uri));
define('PREFIX', "cell.$scenario." . getmypid());
const KINDS = ['direct', 'fanout', 'topic', 'headers'];
const PATIENCE_S = 20;
const LOCKED = 'RESOURCE_LOCKED - cannot obtain exclusive access to locked queue';
const PRECONDITION = 'PRECONDITION_FAILED';
const REPLY_TO = 'amq.rabbitmq.reply-to';

function check(bool $condition, string $text): void
{
    if (!$condition) {
        throw new RuntimeException($text);
    }
}

function equal(mixed $received, mixed $expected, string $what): void
{
    check($received === $expected, "$what: " . var_export($received, true) . ', expected ' . var_export($expected, true));
}

function ask(string $line, string $answer): void
{
    echo "$line\n";
    equal(trim((string) fgets(STDIN)), $answer, 'control');
}

/** The library logs in by AMQPLAIN, as long as nobody asks for something else. */
function connect(string $password = 'guest', string $vhost = '/', int $heartbeat = 0): AbstractConnection
{
    $options = ['connection_timeout' => PATIENCE_S, 'read_write_timeout' => PATIENCE_S, 'heartbeat' => $heartbeat];
    $authority = getenv('LEVERET_TEST_CA');
    if ($authority) {
        $trusted = ['cafile' => $authority, 'verify_peer' => true, 'verify_peer_name' => true];
        return new AMQPSSLConnection(URI['host'], URI['port'], 'guest', $password, $vhost, $trusted, $options);
    }
    return new AMQPStreamConnection(URI['host'], URI['port'], 'guest', $password, $vhost,
        connection_timeout: PATIENCE_S, read_write_timeout: PATIENCE_S, heartbeat: $heartbeat);
}

function confirming(?AbstractConnection $connection = null): AMQPChannel
{
    $channel = ($connection ?? connect())->channel();
    $channel->confirm_select();
    return $channel;
}

function queue(AMQPChannel $channel, string $name = 'q', bool $exclusive = false): string
{
    $channel->queue_declare(PREFIX . ".$name", durable: !$exclusive, exclusive: $exclusive, auto_delete: false);
    return PREFIX . ".$name";
}

/** The counts of messages and consumers. */
function counts(AMQPChannel $channel, string $name): array
{
    return array_slice($channel->queue_declare($name, passive: true), 1);
}

function persistent(string $body, array $properties = []): AMQPMessage
{
    return new AMQPMessage($body, $properties + ['delivery_mode' => AMQPMessage::DELIVERY_MODE_PERSISTENT]);
}

function send(AMQPChannel $channel, string $name, string ...$bodies): void
{
    foreach ($bodies as $body) {
        $channel->basic_publish(persistent($body), '', $name, true);
    }
    confirmed($channel);
}

function confirmed(AMQPChannel $channel): void
{
    $channel->set_nack_handler(fn () => check(false, 'a publish was refused'));
    $channel->wait_for_pending_acks_returns(PATIENCE_S);
}

function get(AMQPChannel $channel, string $name, bool $no_ack = false): AMQPMessage
{
    $message = $channel->basic_get($name, $no_ack);
    check($message !== null, 'the queue is empty');
    return $message;
}

function nothing(AMQPChannel $channel, string $name): void
{
    check($channel->basic_get($name, true) === null, 'the queue is not empty');
}

/** Body and whether it was delivered before. */
function seen(AMQPMessage $message): array
{
    return [$message->getBody(), $message->isRedelivered()];
}

/** A consumer; what it gets is added to the array. */
function consume(AMQPChannel $channel, string $name, array &$deliveries, bool $no_ack = false, bool $exclusive = false): void
{
    $channel->basic_consume($name, '', false, $no_ack, $exclusive, false, function ($message) use (&$deliveries) {
        $deliveries[] = $message;
    });
}

function await(AMQPChannel $channel, array &$deliveries): AMQPMessage
{
    while (!$deliveries) {
        $channel->wait(null, false, PATIENCE_S);
    }
    return array_shift($deliveries);
}

/** `act` on a channel of its own ends with this code and these first words. */
function fails(AbstractConnection $connection, int $code, string $words, callable $act): void
{
    fails_on($connection->channel(), $code, $words, $act);
}

function fails_on(AMQPChannel $channel, int $code, string $words, callable $act): void
{
    try {
        $act($channel);
        // The answer to a method that expects none.
        $channel->wait(null, false, PATIENCE_S);
    } catch (AMQPProtocolChannelException | AMQPConnectionClosedException $error) {
        equal($error->getCode(), $code, "code ({$error->getMessage()})");
        check(str_starts_with($error->getMessage(), $words), "'{$error->getMessage()}' doesn't start with '$words'");
        return;
    }
    check(false, "$code expected, nothing happened");
}

function injected(int $code, string $words, string $frame): void
{
    fails(connect(), $code, $words, fn () => ask("inject $frame", 'done'));
    connect()->channel()->queue_declare('', exclusive: true); // another connection doesn't notice
}

$scenarios = [
    'declare' => function () {
        $connection = connect();
        $channel = confirming($connection);
        $name = queue($channel);
        equal($channel->queue_declare($name, durable: true, auto_delete: false), [$name, 0, 0], 'declare-ok');
        equal(counts($channel, $name), [0, 0], 'passive declare');
        $returns = [];
        $channel->set_return_listener(function ($code) use (&$returns) {
            $returns[] = $code;
        });
        foreach (KINDS as $kind) {
            $exchange = PREFIX . ".$kind";
            $channel->exchange_declare($exchange, $kind, durable: true, auto_delete: false);
            $channel->exchange_declare($exchange, $kind, durable: true, auto_delete: false);
            $channel->exchange_declare($exchange, $kind, passive: true);
            $arguments = $kind === 'headers' ? new AMQPTable(['x-match' => 'all', 'k' => 1]) : [];
            $channel->queue_bind($name, $exchange, 'a.b', false, $arguments);
            $headers = ['application_headers' => new AMQPTable(['k' => 1])];
            $channel->basic_publish(persistent($kind, $headers), $exchange, 'a.b', true);
        }
        confirmed($channel);
        equal(counts($channel, $name), [4, 0], 'messages through four exchanges');
        $channel->queue_unbind($name, PREFIX . '.direct', 'a.b');
        $channel->basic_publish(persistent('x'), PREFIX . '.direct', 'a.b', true);
        confirmed($channel);
        equal($returns, [312], 'an unbound key');
        equal($channel->queue_purge($name), 4, 'purge');
        [$own] = $channel->queue_declare('', exclusive: true);
        check(str_starts_with($own, 'amq.gen-'), $own);
        $inequivalent = PRECONDITION . ' - inequivalent arg';
        fails($connection, 406, "$inequivalent 'durable' for queue",
            fn ($c) => $c->queue_declare($name, durable: false, auto_delete: false));
        fails($connection, 406, "$inequivalent 'x-max-length' for queue",
            fn ($c) => $c->queue_declare($name, durable: true, auto_delete: false, arguments: new AMQPTable(['x-max-length' => 5])));
        fails($connection, 406, "$inequivalent 'type' for exchange",
            fn ($c) => $c->exchange_declare(PREFIX . '.direct', 'fanout', durable: true, auto_delete: false));
        fails($connection, 404, 'NOT_FOUND - no queue', fn ($c) => counts($c, PREFIX . '.missing'));
        array_map(fn ($kind) => $channel->exchange_delete(PREFIX . ".$kind"), KINDS);
        $channel->queue_delete($own);
        fails($connection, 404, 'NOT_FOUND - no queue', fn ($c) => counts($c, $own));
    },

    'publish_confirm' => function () {
        $channel = confirming();
        $name = queue($channel);
        $acks = 0;
        $channel->set_ack_handler(function () use (&$acks) {
            $acks++;
        });
        // In one write.
        for ($n = 0; $n < 50; $n++) {
            $channel->batch_basic_publish(persistent((string) $n), '', $name, true);
        }
        $channel->publish_batch();
        send($channel, $name, ...array_map('strval', range(50, 99)));
        equal($acks, 100, 'confirms');
        equal(counts($channel, $name), [100, 0], 'messages');
        for ($n = 0; $n < 100; $n++) {
            $message = get($channel, $name, true);
            equal([$message->get('delivery_mode'), $message->getBody()], [2, (string) $n], 'message');
        }
    },

    'mandatory_return' => function () {
        $channel = confirming();
        $events = [];
        $channel->set_return_listener(function (...$returned) use (&$events) {
            $events[] = $returned;
        });
        $channel->set_ack_handler(function () use (&$events) {
            $events[] = 'confirm';
        });
        $key = PREFIX . '.nowhere';
        $channel->basic_publish(persistent('back', ['message_id' => 'm']), 'amq.direct', $key, true);
        confirmed($channel);
        equal([count($events), $events[1] ?? null], [2, 'confirm'], 'the return comes before the confirm');
        $message = array_pop($events[0]);
        equal($events[0], [312, 'NO_ROUTE', 'amq.direct', $key], 'return');
        equal([$message->get('message_id'), $message->getBody()], ['m', 'back'], 'returned message');
        $channel->basic_publish(persistent('dropped'), 'amq.direct', $key);
        confirmed($channel);
        equal(count($events), 3, 'events without mandatory');
    },

    'direct_reply_to' => function () {
        $requester = connect()->channel();
        $responder = confirming();
        $name = queue($responder);
        $answers = $requests = [];
        consume($requester, REPLY_TO, $answers, no_ack: true);
        consume($responder, $name, $requests, no_ack: true);
        $asked = new AMQPMessage('ask', ['reply_to' => REPLY_TO, 'correlation_id' => '7']);
        $requester->basic_publish($asked, '', $name, true);
        $request = await($responder, $requests);
        equal([$request->getBody(), $request->get('correlation_id')], ['ask', '7'], 'request');
        $reply_to = $request->get('reply_to');
        check(str_starts_with($reply_to, REPLY_TO . '.'), $reply_to);
        equal(counts($responder, $reply_to), [0, 1], 'counts');
        $responder->basic_publish(new AMQPMessage('answer', ['correlation_id' => '7']), '', $reply_to, true);
        confirmed($responder);
        $answer = await($requester, $answers);
        equal([$answer->getBody(), $answer->get('correlation_id')], ['answer', '7'], 'answer');
        $none = [];
        fails(connect(), 406, PRECONDITION . ' - reply consumer cannot acknowledge', fn ($c) => consume($c, REPLY_TO, $none));
        fails(connect(), 406, PRECONDITION . ' - fast reply consumer does not exist',
            fn ($c) => $c->basic_publish($asked, '', $name, true));
        fails(connect(), 403, 'ACCESS_REFUSED', fn ($c) => $c->queue_bind($reply_to, 'amq.direct', 'k'));
    },

    'ack' => function () {
        $connection = connect();
        $channel = confirming($connection);
        $name = queue($channel);
        send($channel, $name, '1', '2', '3', '4', '5');
        $receiver = $connection->channel();
        $deliveries = $messages = [];
        consume($receiver, $name, $deliveries);
        for ($n = 1; $n <= 5; $n++) {
            $messages[$n] = await($receiver, $deliveries);
            equal([$messages[$n]->getDeliveryTag(), ...seen($messages[$n])], [$n, (string) $n, false], 'delivery');
        }
        $messages[1]->ack();
        $messages[3]->ack(true);
        $receiver->close();
        $again = $connection->channel();
        foreach (['4', '5'] as $body) {
            $message = get($again, $name);
            equal(seen($message), [$body, true], 'redelivery');
            $message->ack();
        }
        nothing($again, $name);
        $again->close();
        equal(counts($channel, $name), [0, 0], 'counts');
    },

    'nack_requeue' => function () {
        $channel = confirming();
        $name = queue($channel);
        send($channel, $name, '1', '2', '3', '4');
        [, $second] = [get($channel, $name), get($channel, $name), get($channel, $name)];
        $second->nack(true);
        $message = get($channel, $name);
        equal(seen($message), ['2', true], 'the place of 2 is before 4');
        $channel->basic_nack($message->getDeliveryTag(), true, true);
        $order = [];
        for ($n = 0; $n < 4; $n++) {
            $message = get($channel, $name);
            $order[] = seen($message);
            $message->ack();
        }
        equal($order, [['1', true], ['2', true], ['3', true], ['4', false]], 'order');
        send($channel, $name, '5');
        get($channel, $name)->nack();
        nothing($channel, $name);
    },

    'reject' => function () {
        $channel = confirming();
        $name = queue($channel);
        send($channel, $name, '1', '2');
        get($channel, $name)->reject(true);
        $first = get($channel, $name);
        equal(seen($first), ['1', true], 'requeued');
        $first->reject(false);
        equal(seen(get($channel, $name, true)), ['2', false], 'next');
        nothing($channel, $name);
    },

    'prefetch' => function () {
        $connection = connect();
        $publisher = confirming($connection);
        $name = queue($publisher);
        send($publisher, $name, ...array_map('strval', range(0, 9)));
        $channel = $connection->channel();
        $channel->basic_qos(0, 3, false);
        $deliveries = $messages = [];
        consume($channel, $name, $deliveries);
        array_push($messages, await($channel, $deliveries), await($channel, $deliveries), await($channel, $deliveries));
        equal(counts($publisher, $name), [7, 1], 'ready while 3 are unacknowledged');
        equal($deliveries, [], 'a fourth delivery');
        $messages[1]->ack(true);
        array_push($messages, await($channel, $deliveries), await($channel, $deliveries));
        equal(counts($publisher, $name), [5, 1], 'ready after 2 acks');
        equal(array_map(fn ($message) => $message->getBody(), $messages), ['0', '1', '2', '3', '4'], 'bodies');
    },

    'get' => function () {
        $channel = confirming();
        $name = queue($channel);
        nothing($channel, $name);
        send($channel, $name, '1', '2');
        $first = get($channel, $name);
        equal([$first->getMessageCount(), $first->getExchange(), $first->getRoutingKey()], [1, '', $name], 'first');
        equal(seen($first), ['1', false], 'first');
        $first->ack();
        $last = get($channel, $name, true);
        equal([$last->getMessageCount(), $last->getBody()], [0, '2'], 'last');
        nothing($channel, $name);
    },

    'big_body' => function () {
        $channel = confirming();
        $name = queue($channel);
        $body = str_repeat(implode('', array_map('chr', range(0, 250))), 20889) . 'end';
        check(strlen($body) > 5000000, 'too short');
        send($channel, $name, $body, 'after', $body);
        foreach ([$body, 'after', $body] as $expected) {
            $message = get($channel, $name);
            check($message->getBody() === $expected, "a body of {$message->getBodySize()} bytes differs");
            $message->ack();
        }
    },

    'headers' => function () {
        $channel = confirming();
        $name = queue($channel);
        $bytes = implode('', array_map('chr', range(0, 255)));
        $plain = [
            'unicode ключ' => 'wert ✓ 𝄞', 'string of bytes' => $bytes, 'true' => true, 'false' => false, 'int' => -2147483648,
            'long' => PHP_INT_MIN, 'none' => null, 'list' => [1, 'zwei ✓', [true, null], ['in' => 1]],
            'table' => ['a' => ['b' => ['c' => 'tief']]], 'empty' => '', 'time' => new DateTime('@1700000000'),
        ];
        $typed = [
            'byte' => [-128, Type::T_INT_SHORTSHORT], 'ubyte' => [255, Type::T_INT_SHORTSHORT_U],
            'short' => [-32768, Type::T_INT_SHORT], 'ushort' => [65535, Type::T_INT_SHORT_U],
            'uint' => [4294967295, Type::T_INT_LONG_U], 'bytes' => [$bytes, Type::T_BYTES],
        ];
        $headers = new AMQPTable($plain);
        foreach ($typed as $key => [$value, $type]) {
            $headers->set($key, $value, $type);
        }
        $headers->set('decimal', new AMQPDecimal(314, 2));
        $properties = [
            'content_type' => 'text/plain', 'content_encoding' => 'utf-8', 'delivery_mode' => 2, 'priority' => 9,
            'correlation_id' => 'korrelation ✓', 'reply_to' => 'antwort', 'message_id' => 'id', 'timestamp' => 1700000000,
            'type' => 'art', 'user_id' => 'guest', 'app_id' => 'app ✓', 'application_headers' => $headers,
        ];
        $channel->basic_publish(new AMQPMessage('inhalt ✓', $properties), '', $name, true);
        confirmed($channel);
        $message = get($channel, $name);
        equal($message->getBody(), 'inhalt ✓', 'body');
        $received = $message->get('application_headers')->getNativeData();
        $decimal = $received['decimal'];
        equal([$decimal->getN(), $decimal->getE()], [314, 2], 'decimal');
        equal($received['time']->getTimestamp(), 1700000000, 'time');
        unset($received['decimal'], $received['time'], $plain['time']);
        foreach ($plain + array_map(fn ($pair) => $pair[0], $typed) as $key => $value) {
            equal($received[$key], $value, "header $key");
            unset($received[$key]);
        }
        equal($received, [], 'further headers');
        unset($properties['application_headers']);
        foreach ($properties as $key => $value) {
            equal($message->get($key), $value, $key);
        }
        $message->ack();
    },

    'exclusive' => function () {
        [$owner, $other] = [connect(), connect()];
        $name = queue($owner->channel(), 'q', true);
        foreach ([fn ($c) => counts($c, $name), fn ($c) => $c->basic_get($name), fn ($c) => $c->queue_purge($name)] as $act) {
            fails($other, 405, LOCKED, $act);
        }
        counts($owner->channel(), $name);
        $owner->close();
        fails($other, 404, 'NOT_FOUND - no queue', fn ($c) => counts($c, $name));
        queue($other->channel(), 'q', true);
    },

    'reconnect' => function () {
        $connection = connect();
        $channel = confirming($connection);
        $name = queue($channel);
        $own = queue($channel, 'own', true);
        send($channel, $name, 'before');
        send($channel, $own, 'lost');
        ask('ready kill', 'go');
        try {
            $channel->wait(null, false, PATIENCE_S);
            check(false, 'the connection goes on');
        } catch (AMQPConnectionClosedException) {
            $connection->reconnect();
        }
        $channel = confirming($connection);
        equal(counts($channel, $name), [1, 0], 'messages after the restart');
        $message = get($channel, $name);
        equal($message->getBody(), 'before', 'body');
        $message->ack();
        send($channel, $name, 'after');
        equal(get($channel, $name, true)->getBody(), 'after', 'body');
        fails($connection, 404, 'NOT_FOUND - no queue', fn ($c) => counts($c, $own));
    },

    'heartbeat_loss' => function () {
        $channel = connect(heartbeat: 1)->channel();
        ask('mute', 'closed');
        try {
            $channel->wait(null, false, PATIENCE_S);
            check(false, 'the connection goes on');
        } catch (AMQPConnectionClosedException | AMQPHeartbeatMissedException) {
            // Whichever the library notices first.
        }
    },

    'error_320' => function () {
        fails(connect(), 320, 'CONNECTION_FORCED', fn () => ask('ready term', 'go'));
    },

    'error_403' => function () {
        $connection = connect();
        $holder = $connection->channel();
        $name = queue($holder);
        $refused = 'ACCESS_REFUSED';
        $reserved = "contains reserved prefix 'amq.*'";
        $none = [];
        fails($connection, 403, "$refused - queue name 'amq.own' $reserved", fn ($c) => $c->queue_declare('amq.own'));
        fails($connection, 403, "$refused - exchange name 'amq.own' $reserved", fn ($c) => $c->exchange_declare('amq.own', 'direct'));
        fails($connection, 403, "$refused - operation not permitted on the default exchange",
            fn ($c) => $c->queue_bind($name, '', 'key'));
        consume($holder, $name, $none, exclusive: true);
        fails($connection, 403, "$refused - queue '$name' in vhost '/' in exclusive use", fn ($c) => consume($c, $name, $none));
        $internal = PREFIX . '.internal';
        $holder->exchange_declare($internal, 'direct', internal: true);
        fails($connection, 403, "$refused - cannot publish to internal exchange",
            fn ($c) => $c->basic_publish(persistent('x'), $internal));
        $holder->exchange_delete($internal);
        try {
            connect('wrong');
            check(false, 'a wrong password opens a connection');
        } catch (AMQPConnectionClosedException $error) {
            $words = 'ACCESS_REFUSED - Login was refused using authentication mechanism AMQPLAIN';
            check(str_starts_with($error->getMessage(), $words), $error->getMessage());
        }
    },

    'error_404' => function () {
        $connection = connect();
        $missing = PREFIX . '.missing';
        $none = [];
        foreach ([fn ($c) => counts($c, $missing), fn ($c) => $c->basic_get($missing), fn ($c) => consume($c, $missing, $none),
            fn ($c) => $c->queue_purge($missing), fn ($c) => $c->queue_bind($missing, 'amq.direct', 'k')] as $act) {
            fails($connection, 404, "NOT_FOUND - no queue '$missing' in vhost '/'", $act);
        }
        $name = queue($connection->channel());
        foreach ([fn ($c) => $c->exchange_declare($missing, 'direct', passive: true), fn ($c) => $c->queue_bind($name, $missing, 'k'),
            fn ($c) => $c->basic_publish(persistent('x'), $missing, 'k')] as $act) {
            fails($connection, 404, "NOT_FOUND - no exchange '$missing' in vhost '/'", $act);
        }
        $connection->channel()->queue_delete($missing);
    },

    'error_405' => function () {
        [$owner, $other] = [connect(), connect()];
        $name = queue($owner->channel(), 'q', true);
        $none = [];
        foreach ([fn ($c) => $c->queue_declare($name, exclusive: true), fn ($c) => consume($c, $name, $none),
            fn ($c) => $c->queue_delete($name), fn ($c) => $c->queue_bind($name, 'amq.direct', 'k')] as $act) {
            fails($other, 405, LOCKED . " '$name' in vhost '/'", $act);
        }
    },

    'error_406' => function () {
        $connection = connect();
        $channel = confirming($connection);
        $name = queue($channel);
        fails($connection, 406, PRECONDITION . ' - unknown delivery tag 7', fn ($c) => $c->basic_ack(7));
        fails($connection, 406, PRECONDITION . ' - unknown delivery tag 7', fn ($c) => $c->basic_reject(7, true));
        send($channel, $name, '1');
        fails($connection, 406, PRECONDITION . ' - unknown delivery tag 1', function ($c) use ($name) {
            $tag = get($c, $name)->getDeliveryTag();
            $c->basic_ack($tag);
            $c->basic_ack($tag);
        });
        fails($connection, 406, PRECONDITION . ' - invalid expiration',
            fn ($c) => $c->basic_publish(persistent('x', ['expiration' => 'soon']), '', $name));
        fails($connection, 406, PRECONDITION . " - invalid arg 'x-max-length' for queue",
            fn ($c) => $c->queue_declare(PREFIX . '.bad', durable: true, arguments: new AMQPTable(['x-max-length' => -1])));
        fails($connection, 406, PRECONDITION . " - unknown exchange type 'x-nowhere-known'",
            fn ($c) => $c->exchange_declare(PREFIX . '.x', 'x-nowhere-known'));
        send($channel, $name, '2');
        fails($connection, 406, PRECONDITION . " - queue '$name' in vhost '/' not empty",
            fn ($c) => $c->queue_delete($name, if_empty: true));
        $none = [];
        consume($connection->channel(), $name, $none);
        fails($connection, 406, PRECONDITION . " - queue '$name' in vhost '/' in use",
            fn ($c) => $c->queue_delete($name, if_unused: true));
    },

    // queue.declare on channel 1, with 00 where the end mark belongs
    'error_501' => fn () => injected(501, 'FRAME_ERROR', '0100010000000c0032000a0000000000000000' . '00' . '00'),

    // queue.declare whose name claims more bytes than the frame has; RabbitMQ says 501 where the specification has 502
    'error_502' => fn () => injected(501, 'FRAME_ERROR - cannot decode', '010001000000080032000a0000ff61ce'),

    // queue.declare-ok, which only a broker sends
    'error_503' => fn () => injected(503, 'COMMAND_INVALID', '0100010000000e0032000b01610000000000000000ce'),

    // channel.open on channel 1, which is open
    'error_504' => fn () => injected(504, "CHANNEL_ERROR - second 'channel.open' seen", '010001000000050014000a00ce'),

    // a content header on channel 1 without a method before it
    'error_505' => fn () => injected(505, 'UNEXPECTED_FRAME', '0200010000000e003c000000000000000000000000ce'),

    'error_530' => function () {
        fails(connect(), 530, "NOT_ALLOWED - attempt to reuse consumer tag 'tag'", function ($c) {
            $name = queue($c);
            $c->basic_consume($name, 'tag');
            // The library refuses a tag that it knows.
            unset($c->callbacks['tag']);
            $c->basic_consume($name, 'tag');
        });
        try {
            connect(vhost: 'no such');
            check(false, 'an unknown vhost opens a connection');
        } catch (AMQPConnectionClosedException $error) {
            equal($error->getCode(), 530, "code ({$error->getMessage()})");
            check(str_starts_with($error->getMessage(), 'NOT_ALLOWED - vhost no such not found'), $error->getMessage());
        }
    },

    'error_540' => function () {
        $name = queue(connect()->channel());
        fails(connect(), 540, 'NOT_IMPLEMENTED', fn ($c) => $c->basic_recover(false));
        fails(connect(), 540, 'NOT_IMPLEMENTED', fn ($c) => $c->basic_qos(10, 0, false));
        fails(connect(), 540, 'NOT_IMPLEMENTED - immediate=true',
            fn ($c) => $c->basic_publish(persistent('x'), '', $name, false, true));
    },
];

try {
    $scenarios[$scenario]();
    echo "ok $scenario\n";
    // Without the farewells that the library says in destructors.
    posix_kill(getmypid(), SIGKILL);
} catch (Throwable $error) {
    $text = strtr(get_class($error) . ' ' . $error->getMessage() . ' ' . $error->getTraceAsString(), "\n", ' ');
    echo "fail $scenario: $text\n";
    exit(1);
}
