#!/usr/bin/env python3
"""sbom.py VERSION REVISION EPOCH PACKAGES <CRATES: a bill of materials as SPDX 2.3 in JSON, on standard output.

PACKAGES is a file with a line `NAME VERSION ARCHITECTURE` for each Debian package in the image. CRATES are lines of
`cargo tree --prefix none --format '{p}|{l}'`.
"""

import json
import re
import sys
from datetime import datetime, timezone


def package(name, version, purl, licence):
    identifier = re.sub(r"[^A-Za-z0-9.-]+", "-", f"{name}-{version}")
    found = {
        "SPDXID": f"SPDXRef-Package-{identifier}",
        "name": name,
        "versionInfo": version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": licence or "NOASSERTION",
        "copyrightText": "NOASSERTION",
    }
    if purl:
        reference = {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": purl}
        found["externalRefs"] = [reference]
    return found


def crates(lines):
    """The crates of other authors that are linked into the binary: name, version, licence."""
    found = set()
    for line in lines:
        named, _, licence = line.rstrip("\n").partition("|")
        match = re.match(r"(\S+) v(\S+)( \(.*\))?", named)
        # A path behind the version is a crate of this repository; a crate that was listed before has a mark.
        if match and not (match[3] and "/" in match[3]):
            found.add((match[1], match[2], licence.replace(" (*)", "").replace("/", " OR ")))
    return sorted(found)


def main(version, revision, epoch, packages):
    created = datetime.fromtimestamp(epoch, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    leveret = package("leveret", version, None, "Apache-2.0")
    parts = [package(name, of, f"pkg:cargo/{name}@{of}", licence) for name, of, licence in crates(sys.stdin)]
    with open(packages, encoding="utf-8") as lines:
        for line in lines:
            name, of, architecture = line.split()
            # A plus and a colon have other meanings in a package URL.
            purl = f"pkg:deb/debian/{name}@{of.replace('+', '%2B').replace(':', '%3A')}?arch={architecture}"
            parts.append(package(name, of, purl, None))
    relate = lambda kind, one, other: {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}
    document = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"leveret-{version}",
        "documentNamespace": f"https://spdx.org/spdxdocs/leveret-{version}-{revision}",
        "creationInfo": {"created": created, "creators": ["Organization: The authors of Leveret"]},
        "packages": [leveret, *parts],
        "relationships": [
            relate("DESCRIBES", "SPDXRef-DOCUMENT", leveret["SPDXID"]),
            *(relate("CONTAINS", leveret["SPDXID"], part["SPDXID"]) for part in parts),
        ],
    }
    json.dump(document, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
