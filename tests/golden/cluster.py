"""Records what three nodes of a real RabbitMQ 4.3 that are one cluster answer over HTTP, as JSON on standard output.

    cluster.py TOOL HOST1 HOST2 HOST3 MANAGEMENT_PORT

`TOOL kill 3` ends the third node, and `TOOL start-node 3` starts it again. They have a quorum queue `checked`, which is declared here. Names
of nodes become node1, node2 and node3. Of long lists that are about the release, only the first element is kept.
"""

import base64
import datetime
import json
import subprocess
import sys
import time
import urllib.error
import urllib.request

REQUESTS = ["nodes", "nodes/node2", "nodes/node3", "cluster-name", "health/checks/node-is-quorum-critical",
            "health/checks/reached-target-cluster-size", "health/checks/metadata-store/initialized",
            "health/checks/metadata-store/initialized/with-data"]
HEALTH = [request for request in REQUESTS if request.startswith("health/")] + ["health/checks/" + check for check in [
    "alarms", "local-alarms", "virtual-hosts", "ready-to-serve-clients", "is-in-service", "below-node-connection-limit",
    "quorum-queues-without-elected-leaders/all-vhosts/", "quorum-queues-without-elected-leaders/vhost/%2F/"]]
OF_RELEASE = ["applications", "auth_mechanisms", "config_files", "contexts", "exchange_types", "log_files"]


def ask(host, port, path, put=None):
    request = urllib.request.Request(f"http://{host}:{port}/api/{path}")
    if put is not None:
        request.method, request.data = "PUT", json.dumps(put).encode()
        request.add_header("Content-Type", "application/json")
    request.add_header("Authorization", "Basic " + base64.b64encode(b"guest:guest").decode())
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, json.loads(answer.read() or "null")
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def short(value):
    if isinstance(value, dict):
        return {key: short(part[:1] if key in OF_RELEASE else part) for key, part in value.items()}
    if isinstance(value, list):
        return [short(part) for part in value]
    return value


def main():
    tool, hosts, port = sys.argv[1], sys.argv[2:5], sys.argv[5]

    def nodes():
        return ask(hosts[0], port, "nodes")[1]

    def until(what, holds):
        for _ in range(300):
            if holds():
                return
            time.sleep(0.2)
        sys.exit(f"{what}: not within 60 s")

    names = sorted(node["name"] for node in nodes())

    def answers(requests):
        recorded = {}
        for name in requests:
            path = name
            for number, node in enumerate(names):
                path = path.replace(f"node{number + 1}", node)
            status, body = ask(hosts[0], port, path)
            text = json.dumps(short(body))
            for number, node in enumerate(names):
                text = text.replace(node, f"node{number + 1}")
            recorded[name] = {"status": status, "body": json.loads(text)}
        return recorded

    until("all run", lambda: all(node.get("running") and len(node["cluster_links"]) == 2 for node in nodes()))
    ask(hosts[0], port, "queues/%2F/checked", {"durable": True, "arguments": {"x-queue-type": "quorum"}})
    until("it is none that is critical", lambda: ask(hosts[0], port, HEALTH[0])[0] == 200)
    recorded = {"recorded": datetime.date.today().isoformat(), "all": answers(REQUESTS)}
    subprocess.run([tool, "kill", "3"], check=True, stdout=sys.stderr)
    until("it is seen", lambda: not all(node.get("running") for node in nodes()))
    recorded["one down"] = answers(REQUESTS)
    subprocess.run([tool, "kill", "2"], check=True, stdout=sys.stderr)
    until("it is seen", lambda: sum(bool(node.get("running")) for node in nodes()) == 1)
    recorded["two down"] = answers(HEALTH)
    # Both together: a node waits for another one.
    for number in "2", "3":
        subprocess.run([tool, "start-node", number, "--no-wait"], check=True, stdout=sys.stderr)
    json.dump(recorded, sys.stdout, indent=1, sort_keys=True)
    print()


main()
