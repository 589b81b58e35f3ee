"""Manifests held against the types of the Kubernetes API, as strictly as its server does: no unknown field, no missing one, no
value of another type."""

import functools
import json
import os
import re

# Where a version's types are found by their names: "apps/v1" Deployment is V1Deployment.
GROUPS = ("v1", "apps/v1", "policy/v1", "networking.k8s.io/v1", "autoscaling/v2")


class ApiTypes:
    """Of a folder that deploy/helm/get_api_types.sh made."""

    def __init__(self, folder):
        self._folder = folder

    @functools.lru_cache(maxsize=None)
    def _fields(self, name):
        """{field: (type, whether it must be there)}, or None where there is no such type."""
        path = os.path.join(self._folder, name)
        if not os.path.exists(path + ".js"):
            return None
        with open(path + ".js") as file:
            listed = re.search(r"attributeTypeMap = (\[.*?\n\]);", file.read(), re.DOTALL)
        with open(path + ".d.ts") as file:
            required = set(re.findall(r"^    '(\w+)': ", file.read(), re.MULTILINE))
        return {one["baseName"]: (one["type"], one["name"] in required)
                for one in json.loads(listed.group(1) if listed else "[]")}

    def knows(self, manifest):
        return manifest["apiVersion"] in GROUPS

    def problems(self, manifest):
        """Sentences about what the API would refuse."""
        version = manifest["apiVersion"].rsplit("/", 1)[-1].capitalize()
        yield from self._check(manifest, version + manifest["kind"], manifest["kind"])

    def _check(self, value, kind, path):
        inner = re.fullmatch(r"Array<(.*)>", kind)
        if inner:
            if not isinstance(value, list):
                yield f"{path} is no list"
                return
            for index, item in enumerate(value):
                yield from self._check(item, inner.group(1), f"{path}[{index}]")
            return
        inner = re.fullmatch(r"\{ \[key: string\]: (.*); \}", kind)
        if inner:
            if not isinstance(value, dict):
                yield f"{path} is no map"
                return
            for key, item in value.items():
                yield from self._check(item, inner.group(1), f"{path}.{key}")
            return
        plain = {"string": str, "number": (int, float), "boolean": bool, "IntOrString": (int, str), "Date": str}
        if kind in plain:
            if not isinstance(value, plain[kind]) or (kind != "boolean" and isinstance(value, bool)):
                yield f"{path} is {value!r}; accepted: {kind}"
            return
        if kind in ("any", "object"):
            return
        fields = self._fields(kind)
        if fields is None:
            yield f"{path} is of a type that the API does not have, {kind}"
        elif not isinstance(value, dict):
            yield f"{path} is {value!r}; accepted: a {kind}"
        else:
            for key, item in value.items():
                if key not in fields:
                    yield f"{path}.{key} is no field of {kind}"
                elif item is not None:
                    yield from self._check(item, fields[key][0], f"{path}.{key}")
            for key, (_, required) in fields.items():
                if required and value.get(key) is None:
                    yield f"{path}.{key} is missing"
