#!/usr/bin/env python3
"""oci.py OUT CONFIG EPOCH LAYER...: writes an archive of an image (Image Layout Specification of the Open Container Initiative).

CONFIG is a JSON file: `name`, `tag`, `architecture`, and `config` as in the Image Configuration. EPOCH is the time of everything
in the archive, in seconds. A LAYER is a folder; with `@` and a number behind it, its files have that time. A file LAYER.owners, if
there is one, has a line `PATH UID GID MODE` for each path that isn't root's. The same input makes the same bytes: no owner, time
or order of this machine is written.

The archive also has the manifest of `docker save`, which older versions of `docker load` need.
"""

import gzip
import hashlib
import io
import json
import os
import stat
import sys
import tarfile
from datetime import datetime, timezone

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"


def owners(folder):
    """The paths of a layer that aren't root's, with user, group and mode."""
    found = {}
    if os.path.exists(folder + ".owners"):
        with open(folder + ".owners", encoding="utf-8") as lines:
            for line in lines:
                path, user, group, mode = line.split()
                found[path] = (int(user), int(group), int(mode, 8))
    return found


def entries(folder):
    """The paths below a folder, each folder before its content."""
    for parent, folders, files in os.walk(folder):
        folders.sort()
        here = os.path.relpath(parent, folder)
        for name in sorted(folders + files):
            yield os.path.normpath(os.path.join(here, name))


def layer(folder, epoch):
    """A folder as an uncompressed tar."""
    special = owners(folder)
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(entries(folder), key=lambda path: path.split("/")):
            source = os.path.join(folder, path)
            info = tarfile.TarInfo(path)
            mode = os.lstat(source).st_mode
            info.mtime = epoch
            info.mode = 0o755 if mode & stat.S_IXUSR else 0o644
            info.uid, info.gid, info.mode = special.pop(path, (0, 0, info.mode))
            if stat.S_ISLNK(mode):
                info.type, info.linkname, info.mode = tarfile.SYMTYPE, os.readlink(source), 0o777
                tar.addfile(info)
            elif stat.S_ISDIR(mode):
                info.type = tarfile.DIRTYPE
                tar.addfile(info)
            elif stat.S_ISREG(mode):
                info.size = os.stat(source).st_size
                with open(source, "rb") as content:
                    tar.addfile(info, content)
            else:
                sys.exit(f"{source}: neither a file nor a folder nor a link")
    if special:
        sys.exit(f"{folder}.owners names what isn't there: {', '.join(special)}")
    return out.getvalue()


class Archive:
    """The files of the archive."""

    def __init__(self):
        self.files = {}

    def blob(self, media_type, content):
        """Adds a blob, and returns its descriptor."""
        digest = hashlib.sha256(content).hexdigest()
        self.files[f"blobs/sha256/{digest}"] = content
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}

    def write(self, out, epoch):
        with tarfile.open(out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
            for folder in ("blobs", "blobs/sha256"):
                info = tarfile.TarInfo(folder)
                info.type, info.mode, info.mtime = tarfile.DIRTYPE, 0o755, epoch
                tar.addfile(info)
            for name, content in sorted(self.files.items()):
                info = tarfile.TarInfo(name)
                info.size, info.mode, info.mtime = len(content), 0o644, epoch
                tar.addfile(info, io.BytesIO(content))


def as_json(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def main(out, config, epoch, folders):
    with open(config, encoding="utf-8") as text:
        image = json.load(text)
    created = datetime.fromtimestamp(epoch, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    archive = Archive()
    layers, diff_ids, history = [], [], []
    for named in folders:
        folder, _, own_epoch = named.partition("@")
        tar = layer(folder, int(own_epoch or epoch))
        diff_ids.append("sha256:" + hashlib.sha256(tar).hexdigest())
        layers.append(archive.blob(LAYER, gzip.compress(tar, compresslevel=9, mtime=0)))
        history.append({"created": created, "created_by": f"layer {os.path.basename(folder)}"})
    configuration = archive.blob(
        CONFIG,
        as_json(
            {
                "created": created,
                "architecture": image["architecture"],
                "os": "linux",
                "config": image["config"],
                "rootfs": {"type": "layers", "diff_ids": diff_ids},
                "history": history,
            }
        ),
    )
    manifest = archive.blob(
        MANIFEST,
        as_json(
            {
                "schemaVersion": 2,
                "mediaType": MANIFEST,
                "config": configuration,
                "layers": layers,
                "annotations": image["config"]["Labels"],
            }
        ),
    )
    reference = f"{image['name']}:{image['tag']}"
    manifest["platform"] = {"architecture": image["architecture"], "os": "linux"}
    manifest["annotations"] = {
        "org.opencontainers.image.ref.name": image["tag"],
        "io.containerd.image.name": f"docker.io/library/{reference}",
    }
    path = lambda descriptor: "blobs/" + descriptor["digest"].replace(":", "/")
    archive.files["oci-layout"] = as_json({"imageLayoutVersion": "1.0.0"})
    archive.files["index.json"] = as_json({"schemaVersion": 2, "mediaType": INDEX, "manifests": [manifest]})
    archive.files["manifest.json"] = as_json(
        [{"Config": path(configuration), "RepoTags": [reference], "Layers": [path(one) for one in layers]}]
    )
    archive.write(out, epoch)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:])
