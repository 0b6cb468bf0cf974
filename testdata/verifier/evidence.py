"""Evidence: section 6.13 of docs/spec.md."""

import re

import canon
from canon import Refused, canonical, digest, invalid
from documents import count, digest_text, elements, header, members, name, names, text, time, word


def endpoint_digest(s):
    s = re.split("[?#]", s)[0]
    scheme, found, rest = s.partition("://")
    if found:
        authority, slash, path = rest.partition("/")
        s = scheme + found + authority.rpartition("@")[2] + slash + path
    return digest("endpoint", canonical(s))


def source_of_facts(v):
    m = members(v, "retrievedAt?", "source", "validator?")
    out = {"sourceDigest": endpoint_digest(text(m["source"]))}
    if "retrievedAt" in m:
        time(m["retrievedAt"])
        out["retrievedAt"] = m["retrievedAt"]
    if "validator" in m:
        out["validatorDigest"] = digest("validator", canonical(text(m["validator"])))
    return out


def derive(definition, record):
    """The canonical evidence on a tool, from its definition and the record of its discovery."""
    defined = canon.parse(definition, canon.ARGUMENTS, rounded=True)
    if not isinstance(defined, dict) or "name" not in defined:
        invalid("the definition has no name")
    tool, defined = name(defined["name"]), digest("tool-definition", canonical(defined))
    m = members(
        canon.parse(record, canon.DOCUMENT), "authorizationScope", "capabilities", "cursor?", "endpoint", "freshness?", "kind", "method",
        "protocol", "provenance?", "retrievedAt", "server", "tools", "version")
    header(m, "discovery")
    scopes, capabilities = names(m["authorizationScope"], 1, 128, False), names(m["capabilities"], 0, 128, False)
    server = members(m["server"], "id", "name?", "version?")
    for v in [m["method"], m["protocol"], *server.values()]:
        name(v)
    time(m["retrievedAt"])
    freshness = {}
    if "freshness" in m:
        freshness.update(members(m["freshness"], "maxAgeMs?", "mode"))
        word(freshness["mode"], "snapshot", "polled", "realtime")
        if "maxAgeMs" in freshness:
            count(freshness["maxAgeMs"])
    if "cursor" in m:
        text(m["cursor"])
        freshness["cursorPresent"] = True
    facts = {canonical(source_of_facts(p)) for p in elements(m.get("provenance", []), 0, 64)}
    tools = {}
    for t in elements(m["tools"], 0, 1024):
        members(t, "definitionDigest", "name")
        if name(t["name"]) in tools:
            invalid("a tool is listed twice")
        tools[t["name"]] = digest_text(t["definitionDigest"])
    endpoint = endpoint_digest(text(m["endpoint"]))
    if tools.get(tool) != defined or "tools" not in capabilities:
        raise Refused("integrity-failed", "the discovery does not show this tool")
    lacking = {
        "freshness-contract": "freshness" in m, "provenance": facts, "server-name": "name" in server, "server-version": "version" in server,
    }
    out = {
        "authorizationScopeDigest": digest("scopes", canonical({"authorizationScope": scopes})), "capabilities": capabilities,
        "definitionDigest": defined, "endpointDigest": endpoint, "kind": "counterfoil.evidence", "method": m["method"],
        "observedAt": m["retrievedAt"], "protocol": m["protocol"],
        "provenance": [canon.parse(f, canon.DOCUMENT) for f in sorted(facts)], "server": server, "tool": tool,
        "unavailableFacts": [k for k, there in lacking.items() if not there], "version": "1.0",
    }
    if freshness:
        out["freshness"] = freshness
    return canonical(out)


def verify(recorded, definition, record):
    was = canonical(canon.parse(recorded, canon.DOCUMENT))
    if was != derive(definition, record):
        raise Refused("integrity-failed", "the tool is no longer what the evidence says")
    return digest("evidence", was)
