"""Who asked the API server to write what, from the rig's audit log (`up --audit`)."""

import json

_WRITES = ("create", "update", "patch", "delete", "deletecollection")
_CREDENTIAL = "authentication.kubernetes.io/credential-id"


def writes_with_certificate(rig, service_account):
    """["create pods/x", ...] of those who come as this ServiceAccount and show a certificate, not a token."""
    user = f"system:serviceaccount:{service_account.replace('/', ':')}"
    found = []
    with open(rig["ASTERISM_RIG_AUDIT_LOG"], encoding="utf-8") as log:
        for line in log:
            if user in line and _CREDENTIAL in line:
                event = json.loads(line)
                who, what = event["user"], event.get("objectRef", {})
                credentials = who.get("extra", {}).get(_CREDENTIAL, [])
                if who["username"] == user and event["verb"] in _WRITES and any(each.startswith("X509") for each in credentials):
                    found.append(f"{event['verb']} {what.get('resource')}/{what.get('name')}")
    return found
