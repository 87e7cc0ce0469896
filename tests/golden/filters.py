#!/usr/bin/env python3
"""Asks a RabbitMQ 4.3 which filters it accepts on a stream, and which messages match them.

    filters.py PORT > crates/selector/tests/selector/rabbitmq.json

A filter is accepted if the reply's source lists it. Needs pika and python-qpid-proton; see the target `golden`.
"""

import datetime
import json
import sys
import uuid

import pika
from proton import (Described, Message, byte, char, decimal32, float32, int32, short, symbol, timestamp, ubyte,
                    uint, ulong, ushort)
from proton.handlers import MessagingHandler
from proton.reactor import Container, LinkOption

PORT = int(sys.argv[1])
QUEUE, QUEUE_AMQP091 = "golden-filters", "golden-filters-amqp091"

MAKE = {
    "null": lambda v: None, "boolean": bool, "ubyte": ubyte, "ushort": ushort, "uint": uint, "ulong": lambda v: ulong(int(v)),
    "byte": byte, "short": short, "int": int32, "long": int, "float": float32, "double": float,
    "decimal32": decimal32, "char": char, "timestamp": lambda v: timestamp(v), "uuid": lambda v: uuid.UUID(v),
    "binary": bytes.fromhex, "string": str, "symbol": symbol,
}

PROPERTIES = {
    "message_id": "id", "user_id": "user_id", "to": "address", "subject": "subject", "reply_to": "reply_to",
    "correlation_id": "correlation_id", "content_type": "content_type", "content_encoding": "content_encoding",
    "absolute_expiry_time": "expiry_time", "creation_time": "creation_time", "group_id": "group_id",
    "group_sequence": "group_sequence", "reply_to_group_id": "reply_to_group_id",
}

# Priority, properties, application properties; each value has its type.
MESSAGES = {
    "plain": {"priority": None, "properties": {}, "application": {}},
    "order": {
        "priority": 7,
        "properties": {
            "message_id": ["string", "id-123"], "user_id": ["binary", b"guest".hex()], "to": ["string", "to some queue"],
            "subject": ["string", "order.created"], "reply_to": ["string", "reply to some topic"],
            "correlation_id": ["ulong", "789"], "content_type": ["symbol", "text/plain"],
            "content_encoding": ["symbol", "deflate"], "absolute_expiry_time": ["timestamp", 4102444800000],
            "creation_time": ["timestamp", 1311704463000], "group_id": ["string", "some group"],
            "group_sequence": ["uint", 999], "reply_to_group_id": ["string", "other group"],
        },
        "application": {
            "region": ["string", "AMER"], "price": ["double", 120.5], "active": ["boolean", True],
            "premium": ["boolean", False], "weight": ["ushort", 5], "zero": ["int", 0], "negative": ["int", -5],
            "percentage": ["ubyte", 75], "quantity": ["uint", 100], "nothing": ["null", None],
            "country": ["symbol", "UK"], "city": ["string", "London"], "code": ["string", "ABC_123"],
        },
    },
    "order2": {
        "priority": 0,
        "properties": {"subject": ["string", "order.deleted"], "group_sequence": ["uint", 1]},
        "application": {"region": ["string", "EMEA"], "price": ["int", 100], "weight": ["string", "5"],
                        "active": ["string", "TRUE"], "city": ["symbol", "Paris"], "country": ["int", 44]},
    },
    "typed": {
        "priority": 255,
        "properties": {"message_id": ["uuid", "00000000-0000-0000-0000-000000000041"], "correlation_id": ["binary", "001f"]},
        "application": {
            "ubyte": ["ubyte", 200], "ushort": ["ushort", 60000], "uint": ["uint", 4000000000],
            "ulong": ["ulong", "18446744073709551615"], "byte": ["byte", -100], "short": ["short", -30000],
            "int": ["int", -2000000000], "long": ["long", "-9223372036854775808"], "float": ["float", 0.1],
            "half": ["float", 0.5], "double": ["double", 0.1], "large": ["double", 6.02e23], "tiny": ["double", 3.5e-4],
            "huge": ["double", 1.7e308], "even": ["double", 9007199254740992.0], "odd": ["long", "9007199254740993"],
            "char": ["char", "A"], "timestamp": ["timestamp", 1700000000000], "utf": ["string", "é"],
            "uuid": ["uuid", "00000000-0000-0000-0000-000000000041"], "binary": ["binary", "001f"],
            "symbol": ["symbol", "sym"], "bool": ["boolean", True], "decimal": ["decimal32", 7],
            "bad": ["binary", "ff"], "minuszero": ["double", -0.0], "A": ["int", 1], "a": ["int", 2], "AND1": ["int", 3],
            "and": ["int", 4], "NULL": ["int", 5], "date": ["int", 6], "between": ["int", 7],
        },
    },
    "text": {
        "priority": 4,
        "properties": {"subject": ["string", ""], "message_id": ["string", "ID:1"], "reply_to": ["string", "/queues/a%20b"]},
        "application": {
            "food": ["string", "car\U0001f955rot"], "lines": ["string", "a\nb"], "ended": ["string", "abc\n"],
            "empty": ["string", ""], "long": ["string", "x" * 4096], "longer": ["string", "x" * 4097],
            "quote": ["string", "UK's"], "double": ["string", "a\"b"], "special": ["string", "##.\\|()[]{} ^$*+???"],
            "percent": ["string", "5%"], "under": ["string", "_foo"], "aa": ["string", "aa"], "tab": ["string", "a\tb"],
            "a b": ["int", 1], "x-y": ["int", 2], "k.l": ["int", 3], "a]b[c": ["int", 4], "\u00e9": ["int", 5],
            "_u": ["int", 6], "$d": ["int", 7], "p.subject": ["int", 8], "nothing": ["null", None], "x": ["int", 9],
        },
    },
}

NESTED = "(" * 99 + "TRUE" + ")" * 99
EXPRESSIONS = """
TRUE|FALSE|true|True|false|active|premium|NOT premium|NOT active|NOT missing|NOT NOT active|missing|5|'x'
country = 'UK' AND weight = 5|'UK' = country AND 5 = weight|country = 'France' OR weight < 6|NOT country = 'France'
country = 'UK' and weight = 5|country = 'UK' And weight = 5|not active|weight is null|weight IS null|nothing IS NULL
missing AND premium|active AND missing|premium OR missing|missing OR active|active OR missing|percentage OR active
active OR percentage|percentage AND active|NOT percentage|NOT (missing AND active)|NOT (missing AND premium)
NOT (active AND missing)|NOT (missing OR premium)|NOT (missing OR active)|NOT (NOT (missing OR active))
country = 'UK' AND (weight > 3 OR price < 20)|region = 'AMER' OR region = 'EMEA' AND price > 1000
country <> 'US'|country != 'US'|country <> 'UK'|country ! = 'UK'|weight <> '5'|weight = '5'|weight = 5|weight = 5.0
weight <> 5|weight < '6'|weight <= '6'|NOT weight < '6'|NOT weight <= 6|active = TRUE|active <> FALSE|active = 'TRUE'
active <> 'TRUE'|premium < TRUE|NOT premium < TRUE|active >= TRUE|TRUE = TRUE|TRUE <> FALSE|TRUE = 1|TRUE <> 1|1 = 1.0
country > 'DE'|country < 'DE'|country >= 'UK'|country > 1|country < 1|'a' < 'b'|'B' < 'a'|'a' < 'aa'|'' < 'a'
missing = missing|missing <> 1|missing < 1|NOT missing = 1|(missing = 1) IS NULL|(missing = 1) = (missing = 2)
(active = TRUE) = TRUE|(active = TRUE) = FALSE|(weight IS NULL) = FALSE|(weight IS NULL) = TRUE
weight + 5 = 10|price - 0.5 = 120|weight * 2 = 10|weight / 2 = 2.5|quantity / 10 = 10|weight % 2 = 1|negative % 2 = -1
7 % negative = 2|7 % zero = 0|7 % zero <> 0|price % 2 = 0|price % 2 <> 0|101 % percentage % weight = 1
101 % (percentage % 30) = 11|weight / zero = 5|weight / zero <> 5|0 / 0 = 0|0.0 / 0.0 <> 1|1.0 / 0 > 5|0.0 / 1 = 0
weight + 2 * 3 = 11|(weight + 2) * 3 = 21|10 - 3 - 2 = 5|100 / 10 / 5 = 2|2 + 3 = 5 AND 1 < 2
+weight = 5|-weight = -5|6 + -weight = 1|6 - -weight = 11|6 - +weight = 1|-(-weight) = 5|- -weight = 5|-+weight = -5
+city = 'London'|-city = 'London'|+city <> 'London'|-active = 1|2 * -weight = -10|-weight * 2 = -10|-2 % 3 = -2
city + 1 = 2|city + 1 <> 2|active + 1 = 2|NOT (city + 1 = 2)|missing + 1 = 2|weight + missing <> 7
ulong = 18446744073709551615|ulong + 1 = 18446744073709551616|ulong * ulong > 1|ulong * ulong * ulong > 1
long = -9223372036854775808|-long = 9223372036854775808|long - 1 < long|long / 2 < 0|ulong > long|uint = 4000000000
9223372036854775807 + 1 = 9223372036854775808|99999999999999999999999999999999 > ulong
odd = even|odd > even|odd <> even|odd - even = 1|float = 0.1|float > 0.1|double = 0.1|half = 0.5|float = double
large = 6.02E23|large = 6.02E+23|tiny = 3.5E-4|tiny = 0.00035|minuszero = 0|0 = minuszero|minuszero < 0|char = 65
char = 'A'|char > 60|timestamp = 1700000000000|timestamp + 1 = 1700000000001|decimal = 7|decimal IS NULL|bool = TRUE
uuid = 0x00000000000000000000000000000041|uuid = p.message_id|binary = 0x001F|binary = p.correlation_id|symbol = 'sym'
utf = 0xC3A9|utf = '\u00e9'|0xC3A9 LIKE '\u00e9'|binary < 0x0020|0x41 = 'A'|bad = 0xFF|bad LIKE '%a'|bad LIKE '_'
bad LIKE '%_%'|bad NOT LIKE '_'|bad NOT LIKE '%a'|0x4 = 'A'|0x4a = 'J'|0X4A = 'J'|0x = ''|0x414 = 'A'|0x4142AND = 'A'
1. = 1|.5 = 0.5|1.5 = 1.50|1E3 = 1000|1e3 = 1000|1.0E3 = 1000|1.0e3 = 1000|1.5E-400 = 0.0|00012 = 12|012.5 = 12.5
1L = 1|1.0f = 1|1_000 = 1000|'a' = "a"|'it''s' = "it's"|"a""b" = 'a"b'|quote = 'UK''s'|double = 'a"b'|double = "a""b"
'abc|"abc|'abc' 'def' = 1|'a\\'b' = 'a'|'a\\b' = 'a\\b'|tab = 'a\tb'|'\u00e9' = '\u00e9'|'' = empty|"" = empty
[a b] = 1|[x-y] = 2|[k.l] = 3|[a]]b[[c] = 4|[\u00e9] = 5|[_u] = 6|[$d] = 7|[p.subject] = 8|x = 9|[x] = 9|[and] = 4
[NULL] = 5|[date] = 6|[] IS NULL|[a b = 1|a b] = 1|[a[b] = 1|[a]b] = 1|[a\tb] = 1|a[b] = 1|AND1 = 3|between = 7
x-y = 2|_u = 6|$d = 7|\u00e9 = 5|x.y = 1|date = 6|DATE = 6|lower = 1|LEFT = 1|nan = 1|inf = 1|exists = 1|substring = 1
A = 1|a = 2|a.a = 2|a.A = 1|application_properties.a = 2|application-properties.a = 2|a.AND = 4|a.and = 4|a.NULL = 5
a.[a b] = 1|a .a = 2|a. a = 2|a.a.a = 2|a.1 = 2|1a = 1|1 a = 1|a._u = 6|A.a = 2
h.priority = 7|header.priority = 7|header.priority = 4|header.priority = 0|header.priority > 200|H.priority = 7
h.priority IS NULL|h.priority IS NOT NULL|header.durable|h.durable = TRUE|h.ttl IS NULL|header.delivery_count = 0
p.message_id = 'id-123'|properties.message_id = 'id-123'|properties.message-id = 'id-123'|p.message_id LIKE 'id-%'
p.message_id = 'ID:1'|p.message_id IS NULL|p.user_id = 'guest'|p.user_id = 0x6775657374|p.to = 'to some queue'
p.subject = 'order.created'|properties.subject LIKE 'order.%'|p.subject = ''|p.subject IS NULL|p.subject IS NOT NULL
p.reply_to LIKE 'reply%topic'|p.correlation_id = 789|500 < p.correlation_id|p.content_type = 'text/plain'
p.content_type LIKE 'text/%'|p.content_encoding = 'deflate'|p.content_encoding NOT IN ('gzip', 'compress')
p.absolute_expiry_time = 4102444800000|p.absolute_expiry_time > UTC()|p.creation_time = 1311704463000
p.creation_time < UTC()|p.group_id = 'some group'|p.group_sequence = 999|p.group_sequence >= 0|p.group_sequence + 1 = 2
p.reply_to_group_id = 'other group'|p.foo = 1|p.Subject = 'x'|P.subject = 'x'|properties = 1|p = 1|p. = 1|p.subject.x = 1
m.x = 1|message_annotations.x = 1|d.x = 1|delivery_annotations.x = 1|f.x = 1|footer.x = 1|body.x = 1
UTC() > 1700000000000|UTC () > 1|UTC( ) > 1|utc() > 1|UTC(1) > 1|UTC > 1|UTC() = UTC()|UTC() + 1 > 2|[UTC] IS NULL
region IN ('AMER', 'EMEA')|region IN ('AMER')|region NOT IN ('AMER')|region IN ()|region IN 'AMER'|region IN ('a',)
'London' IN (city, country)|weight IN (5)|weight IN (5.0, 6)|weight IN ('5')|weight IN (2 + 3)|weight IN (-5, +5)
missing IN ('a')|missing NOT IN ('a')|5 IN (missing)|5 NOT IN (missing)|5 IN (missing, 5)|TRUE IN (active)
active IN (TRUE)|active IN (FALSE, TRUE)|active NOT IN (TRUE)|weight IN (1 = 1)|active IN ((1 = 1))|weight IN (NOT TRUE)
active IN ((NOT FALSE))|active IN (TRUE AND TRUE)|region IN (('AMER'))|weight + 1 IN (6)|NOT weight IN (5)
weight IN (5) = TRUE|(weight IN (5)) = TRUE|weight IN (5) AND active|region IN (region)|5 IN (weight, 5)
city LIKE 'London'|city LIKE 'L%'|city LIKE '%n'|city LIKE 'L%n'|city LIKE 'L_nd_n'|city LIKE '%ond%'|city LIKE '_'
city LIKE '______'|city LIKE '%_%'|city LIKE 'london'|city NOT LIKE 'Par%'|city LIKE '%'|city LIKE '%%'|city LIKE ''
empty LIKE ''|empty LIKE '%'|empty LIKE '%%'|empty LIKE '_'|empty LIKE '%x'|empty LIKE '%x%'|aa LIKE 'a%a'
aa LIKE 'aa%aa'|aa LIKE 'a%%a'|aa LIKE '%a%a%'|aa LIKE '%a%a%a%'|food LIKE 'car_rot'|food LIKE '___\U0001f955___'
food LIKE '%\U0001f955%'|food LIKE 'car__rot'|food LIKE '%_\U0001f955_%'|food LIKE 'car\U0001f955%'
special LIKE '_#.\\|()[]{} ^$*+?%'|special LIKE '##.\\|()[]{} ^$*+???'|special LIKE '%.\\|()%{} ^$*+%'
percent LIKE '_$%' ESCAPE '$'|percent LIKE '5!%' ESCAPE '!'|under LIKE 'z_%' ESCAPE 'z'|under LIKE '!_f__' ESCAPE '!'
under LIKE '!f%' ESCAPE '!'|under LIKE '_foo' ESCAPE '_'|under LIKE '__foo' ESCAPE '_'|percent LIKE '5%%' ESCAPE '%'
code LIKE 'ABC\\_%' ESCAPE '\\'|code LIKE 'ABC\U0001f955_1%' ESCAPE '\U0001f955'|code LIKE 'ABC!_!_%' ESCAPE '!'
city LIKE 'x!' ESCAPE '!'|city LIKE '_x!' ESCAPE '!'|city LIKE 'x' ESCAPE ''|city LIKE 'x' ESCAPE 'ab'
city LIKE 'x' ESCAPE x|city LIKE 'x' ESCAPE 5|city LIKE "L%"|city LIKE city|city LIKE 5|city LIKE ('L%')|city LIKE 0x4C
city LIKE 'a\tb'|city LIKE 'a\x7fb'|city LIKE '_\tb'|city LIKE 'L%' ESCAPE|city NOT LIKE|city NOT 'x'|weight LIKE '5'
weight NOT LIKE '5'|missing LIKE '%'|missing NOT LIKE '%'|active LIKE '%'|'abc' LIKE 'a%'|city LIKE 'L%' = TRUE
(city LIKE 'L%') = TRUE|city LIKE 'L%' AND active|NOT city LIKE 'P%'|lines LIKE 'a%b'|lines LIKE 'a_b'|lines LIKE '%a%b%'
lines LIKE 'a%'|ended LIKE 'abc'|ended LIKE 'a_c'|ended LIKE 'a_c_'|ended LIKE '%b%c'|ended LIKE '%b%c%'|ended LIKE '%c'
long LIKE 'x%x'|longer LIKE 'x%x'|long LIKE '%x%x'|longer LIKE '%x%x'|longer NOT LIKE '%x%x'|longer LIKE '_%'|long LIKE '_%'
missing IS NULL|missing IS NOT NULL|weight IS NULL|weight IS NOT NULL|nothing IS NOT NULL|NOT weight IS NULL
(weight) IS NULL|5 IS NULL|'x' IS NULL|weight + 1 IS NULL|-weight IS NULL|NULL IS NULL|weight IS NOT|weight IS 5|weight IS
weight = NULL|NULL|NULL = NULL|weight IS NULL = TRUE|weight IS NULL IS NULL|weight IS NULL AND TRUE|weight NOT NULL
weight BETWEEN 1 AND 9|weight NOT BETWEEN 1 AND 9|EXISTS(weight)|EXISTS weight|UPPER(city) = 'LONDON'|LOWER(city) = 'x'
weight = 5 = TRUE|weight < 6 < 7|weight = 5 <> FALSE|weight == 5|weight => 5|weight =< 5|weight < > 5|weight < = 5
(weight = 5) AND (active)|((weight)) = 5|(weight|weight)|()|( )|weight = (5|AND|OR active|active AND|active AND OR active
NOT|active NOT active|active active|5 5|weight = 5;|weight = 5 --|# weight|weight ~ 5|weight || 'x'|weight && 5|@x|:x|?
weight + NOT active|weight = NOT active|- NOT active|active AND NOT premium|NOT active OR TRUE|NOT (active) = FALSE
active = TRUE OR FALSE = TRUE AND FALSE|TRUE OR FALSE AND FALSE|NOT FALSE AND FALSE|NOT (FALSE AND FALSE)
NOT weight + 1 = 7|NOT weight = 5 OR active|(TRUE OR missing) AND (FALSE OR active)|* = 5|weight * * 2 = 5|% 2 = 1
country='UK'AND weight=5|weight=5AND active|5IN(5)|weight>=5|weight<=5|weight<>6|5 = 5AND TRUE|TRUE  \t\n\r\x0c AND TRUE
huge + huge > 1|huge * huge > 1|huge * -2 < 1|1.5E400 = 1.5E400|1.8E308 > 1|huge + 0 = huge|large * large > large
properties.subject = 'order.created' AND region IN ('AMER','EMEA') AND price > 100
""".strip("\n")
EXPRESSIONS = [text for line in EXPRESSIONS.split("\n") for text in line.split("|")]
EXPRESSIONS += ["", " ", "\x0b", "\xa0TRUE", "weight || 'x'", "NOT " * 199 + "TRUE", "NOT " * 200 + "TRUE",
                NESTED, "(" + NESTED + ")", "(" * 4096, "(" * 200, "-" * 200, "x" * 4096, "x" * 4097,
                "'" + "\u00e9" * 4089 + "' <> ''", "'" + "\u00e9" * 4088 + "' <> ''",
                "weight IN (" + "1," * 97 + "5)", "weight IN (" + "1," * 98 + "5)", "1" * 300 + " > 1",
                "TRUE OR " * 99 + "TRUE", "TRUE OR " * 100 + "TRUE"]
# The bar separates them above.
EXPRESSIONS = [text for text in EXPRESSIONS if text is not None]

APPLICATION, PROPS = "application-properties", "properties"
PROPERTY_FILTERS = [(PROPS, fields) for fields in [
    {}, {"subject": ["string", "order.created"]}, {"subject": ["string", "&p:order."]}, {"subject": ["string", "&s:ed"]},
    {"subject": ["string", "&s:created"]}, {"subject": ["string", "&p:"]}, {"subject": ["string", "&s:"]},
    {"subject": ["string", "&"]}, {"subject": ["string", "&x:a"]}, {"subject": ["string", "&&a"]}, {"subject": ["string", ""]},
    {"subject": ["null", None]}, {"subject": ["symbol", "order.created"]}, {"Subject": ["string", "x"]},
    {"message-id": ["string", "id-123"]}, {"message_id": ["string", "id-123"]}, {"message-id": ["string", "&p:id-"]},
    {"message-id": ["uuid", "00000000-0000-0000-0000-000000000041"]}, {"message-id": ["int", 5]}, {"message-id": ["null", None]},
    {"message-id": ["binary", "0000000000000000000000000000004" + "1"]}, {"message-id": ["string", "&s:A"]},
    {"correlation-id": ["ulong", "789"]}, {"correlation-id": ["binary", "001f"]}, {"correlation-id": ["string", "789"]},
    {"user-id": ["binary", b"guest".hex()]}, {"user-id": ["string", "guest"]}, {"to": ["string", "&p:to"]},
    {"reply-to": ["string", "reply to some topic"]}, {"content-type": ["symbol", "text/plain"]},
    {"content-type": ["string", "text/plain"]}, {"content-type": ["symbol", "&p:text"]},
    {"content-encoding": ["symbol", "deflate"]}, {"absolute-expiry-time": ["timestamp", 4102444800000]},
    {"creation-time": ["timestamp", 1311704463000]}, {"creation-time": ["ulong", "1311704463000"]},
    {"group-id": ["string", "&s:group"]}, {"group-sequence": ["uint", 999]}, {"group-sequence": ["uint", 1]},
    {"group-sequence": ["ulong", "999"]}, {"reply-to-group-id": ["string", "other group"]}, {"priority": ["ubyte", 7]},
    {"subject": ["string", "order.created"], "group-id": ["string", "some group"]},
    {"subject": ["string", "order.created"], "group-id": ["string", "x"]},
]] + [(APPLICATION, fields) for fields in [
    {}, {"region": ["string", "AMER"]}, {"region": ["string", "&p:A"]}, {"region": ["string", "&s:A"]},
    {"region": ["symbol", "AMER"]}, {"region": ["symbol", "&p:A"]}, {"region": ["binary", b"AMER".hex()]},
    {"country": ["string", "UK"]}, {"country": ["string", "&p:U"]}, {"country": ["int", 44]}, {"weight": ["int", 5]},
    {"weight": ["double", 5.0]}, {"weight": ["string", "5"]}, {"active": ["boolean", True]}, {"active": ["boolean", False]},
    {"active": ["string", "TRUE"]}, {"nothing": ["null", None]}, {"weight": ["null", None]}, {"missing": ["null", None]},
    {"missing": ["string", "&p:"]}, {"weight": ["string", "&p:"]}, {"weight": ["string", "&s:"]}, {"empty": ["string", "&p:"]},
    {"price": ["double", 120.5]}, {"price": ["float", 120.5]}, {"float": ["double", 0.1]}, {"float": ["float", 0.1]},
    {"char": ["char", "A"]}, {"char": ["int", 65]}, {"timestamp": ["timestamp", 1700000000000]},
    {"timestamp": ["long", "1700000000000"]}, {"uuid": ["uuid", "00000000-0000-0000-0000-000000000041"]},
    {"uuid": ["string", "&s:A"]}, {"bad": ["binary", "ff"]}, {"decimal": ["decimal32", 7]}, {"decimal": ["null", None]},
    {"odd": ["double", 9007199254740992.0]}, {"even": ["long", "9007199254740992"]}, {"ulong": ["ulong", "18446744073709551615"]},
    {"minuszero": ["int", 0]}, {"region": ["string", "&"]}, {"region": ["string", "&&"]}, {"region": ["string", "&a"]},
    {"city": ["string", "&&p:"]}, {"region": ["string", "AMER"], "weight": ["int", 5]},
    {"region": ["string", "AMER"], "weight": ["int", 6]}, {"x": ["int", 9], "a b": ["int", 1]},
    {f"k{i}": ["null", None] for i in range(16)}, {f"k{i}": ["null", None] for i in range(17)},
]]

# A message over AMQP 0-9-1, which crates/queue/tests/filter_fields.rs makes as well.
OLD_PROPERTIES = pika.BasicProperties(
    content_type="text/plain", content_encoding="gzip", delivery_mode=2, priority=9, correlation_id="corr",
    reply_to="a b", message_id="urn:uuid:00000000-0000-0000-0000-000000000041", timestamp=1700000000, type="kind",
    user_id="guest", app_id="app", headers={
        "region": "AMER", "flag": True, "number": 5, "wide": 1 << 40, "bytes": b"\xff",
        "time": datetime.datetime(2023, 11, 14, 22, 13, 20, tzinfo=datetime.timezone.utc), "void": None,
        "list": [1], "table": {"a": 1}, "x-key": 7})
OLD_EXPRESSIONS = """
p.content_type = 'text/plain'|p.content_encoding = 'gzip'|h.priority = 9|p.correlation_id = 'corr'|p.reply_to = 'a b'
p.reply_to = '/queues/a%20b'|p.message_id = 0x00000000000000000000000000000041|p.message_id LIKE 'urn:%'
p.creation_time = 1700000000000|p.creation_time = 1700000000|p.user_id = 'guest'|p.group_id = 'app'|p.subject IS NULL
p.subject = 'kind'|p.to IS NULL|p.group_sequence IS NULL|p.reply_to_group_id IS NULL|p.absolute_expiry_time IS NULL
region = 'AMER'|flag|flag = TRUE|number = 5|wide = 1099511627776|bytes = 0xFF|time = 1700000000000|void IS NULL
list IS NULL|table IS NULL|[x-key] = 7|[x-key] IS NULL|region LIKE 'A%'
""".strip("\n")


def make(typed):
    return MAKE[typed[0]](typed[1])


def message(name, given):
    made = Message(body=name, properties={key: make(value) for key, value in given["application"].items()})
    if given["priority"] is not None:
        made.priority = given["priority"]
    for key, (kind, value) in given["properties"].items():
        attribute = PROPERTIES[key]
        if kind == "timestamp":
            made.__setattr__(attribute, value / 1000)
        else:
            made.__setattr__(attribute, make([kind, value]))
    return made


def filter_of(case):
    if "sql" in case:
        return "sql-filter", Described(symbol("amqp:sql-filter"), case["sql"])
    key = symbol if case["section"] == PROPS else str
    fields = {key(name): make(value) for name, value in case["fields"].items()}
    return "filter", Described(symbol(f"amqp:{case['section']}-filter"), fields)


class Filter(LinkOption):
    def __init__(self, case):
        self.name, self.value = filter_of(case)

    def apply(self, receiver):
        first = Described(symbol("rabbitmq:stream-offset-spec"), "first")
        receiver.source.filter.put_dict({symbol("offset"): first, symbol(self.name): self.value})


class Recorder(MessagingHandler):
    """Sends the messages, then opens a receiver for each case and drains it."""

    def __init__(self, queue, messages, cases):
        super().__init__(prefetch=0, auto_accept=False)
        self.queue, self.messages, self.cases = queue, messages, cases
        self.at = self.sent = self.settled = 0

    def on_start(self, event):
        self.open(event.container)
        self.sender = None

    def open(self, container):
        self.connection = container.connect(f"amqp://guest:guest@127.0.0.1:{PORT}", reconnect=False, allowed_mechs="PLAIN")

    def on_connection_opened(self, event):
        if self.settled < len(self.messages):
            self.sender = event.container.create_sender(self.connection, f"/queues/{self.queue}")
        else:
            self.next(event.container)

    def on_sendable(self, event):
        for name in list(self.messages)[self.sent:]:
            event.sender.send(message(name, self.messages[name]))
            self.sent += 1

    def on_settled(self, event):
        if event.sender:
            self.settled += 1
            if self.settled == len(self.messages):
                self.next(event.container)

    def next(self, container):
        if self.at == len(self.cases):
            self.connection.close()
            return
        self.case = self.cases[self.at]
        self.at += 1
        self.case["matches"] = []
        container.create_receiver(self.connection, f"/queues/{self.queue}", name=f"r{self.at}", options=Filter(self.case))

    def on_link_opened(self, event):
        if event.receiver is None:
            return
        listed = event.receiver.remote_source.filter
        listed.rewind()
        listed.next()
        names = [str(name) for name in listed.get_dict()]
        self.case["accepted"] = filter_of(self.case)[0] in names
        if self.case["accepted"]:
            event.receiver.drain(1000)
        else:
            del self.case["matches"]
            event.receiver.close()

    def on_message(self, event):
        body = event.message.body
        self.case["matches"].append(body if isinstance(body, str) else bytes(body).decode())
        event.delivery.update(event.delivery.ACCEPTED)
        event.delivery.settle()

    def on_link_flow(self, event):
        if event.receiver and event.receiver.credit == 0 and event.receiver.state & event.receiver.LOCAL_ACTIVE:
            event.receiver.close()

    def on_link_closed(self, event):
        if event.receiver:
            self.next(event.container)

    def broke(self, event, reason):
        self.case["matches"], self.case["broke"] = None, True
        self.case["accepted"] = False
        del self.case["matches"]
        print("broke:", self.case, reason, file=sys.stderr)
        event.connection.close()
        self.open(event.container)

    def on_session_error(self, event):
        self.broke(event, event.session.remote_condition)

    def on_connection_error(self, event):
        self.broke(event, event.connection.remote_condition)

    def on_link_error(self, event):
        self.broke(event, event.link.remote_condition)

    def on_transport_error(self, event):
        sys.exit(f"transport: {event.transport.condition} at {self.case}")


def main():
    parameters = pika.ConnectionParameters("127.0.0.1", PORT)
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for queue in [QUEUE, QUEUE_AMQP091]:
            channel.queue_delete(queue)
            channel.queue_declare(queue, durable=True, arguments={"x-queue-type": "stream"})
        channel.basic_publish("", QUEUE_AMQP091, b"old", OLD_PROPERTIES)
    expressions = [{"sql": text} for text in dict.fromkeys(EXPRESSIONS)]
    properties = [{"section": section, "fields": fields} for section, fields in PROPERTY_FILTERS]
    old = [{"sql": text} for line in OLD_EXPRESSIONS.split("\n") for text in line.split("|")]
    Container(Recorder(QUEUE, MESSAGES, expressions + properties)).run()
    Container(Recorder(QUEUE_AMQP091, {}, old)).run()
    lines = []
    for name, cases in [("expressions", expressions), ("property_filters", properties), ("amqp091", old)]:
        rows = ",\n".join("    " + json.dumps(case, ensure_ascii=True) for case in cases)
        lines.append(f'  "{name}": [\n{rows}\n  ]')
    messages = ",\n".join(f"    {json.dumps(name)}: {json.dumps(given)}" for name, given in MESSAGES.items())
    print("{\n  \"messages\": {\n" + messages + "\n  },\n" + ",\n".join(lines) + "\n}")


main()
