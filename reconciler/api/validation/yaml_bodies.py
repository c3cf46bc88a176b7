"""YAML limited to the types of JSON, as bodies of requests."""

from typing import Any

import yaml

from reconciler.api.validation.status import bad_request


def decode_yaml(body: bytes) -> Any:
    """Decode one YAML document. Aliases are refused: a small file could expand to a huge object."""
    try:
        return yaml.load(body, Loader=_PlainLoader)
    except (yaml.YAMLError, ValueError) as exc:
        raise bad_request(f"yaml parse error: {exc}") from exc
    except RecursionError as exc:
        raise bad_request("yaml parse error: nested too deeply") from exc


class _PlainLoader(yaml.SafeLoader):
    """YAML limited to JSON's types: no aliases, no timestamps."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not accepted")
        return super().compose_node(parent, index)


_PlainLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
