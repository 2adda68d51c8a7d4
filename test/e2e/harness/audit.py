"""What the controller asked the API server for, from the rig's audit log, and what it may ask for."""

import json

# What the API server authorizes without a request of its own: no audit log can show its use. With the reason.
NOT_IN_THE_LOG = {
    ("asterism.dev", "trainingjobs/finalizers", "update"):
        "asked by the admission plug-in OwnerReferencesPermissionEnforcement when a pod is created; it is on in these runs, so that "
        "without the right no gang would start",
    ("discovery.k8s.io", "endpointslices", "create"):
        "the slice is made by a server-side apply: the log says patch, and the API server asks for the right to create as well",
}
_WRITES = ("create", "update", "patch", "delete", "deletecollection")
_CREDENTIAL = "authentication.kubernetes.io/credential-id"
_DECISION = "authorization.k8s.io/decision"


def rig_options(folder, service_account):
    """Options of `up` for a log of this one user, with only who, what and the answer. Writes the policy into `folder`."""
    rules = [{"level": "Metadata", "users": [_user(service_account)]}, {"level": "None"}]
    policy = folder / "audit-policy.json"
    policy.write_text(json.dumps({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": rules}))
    return ["--audit", "--component-arg", f"kube-apiserver=--audit-policy-file={policy}",
            "--component-arg", "kube-apiserver=--enable-admission-plugins=OwnerReferencesPermissionEnforcement"]


def writes_with_certificate(rig, service_account):
    """["create pods/x", ...] of those who come as this ServiceAccount and show a certificate, not a token."""
    found = []
    for event in _events(rig, service_account):
        what, credentials = event.get("objectRef", {}), event["user"].get("extra", {}).get(_CREDENTIAL, [])
        if event["verb"] in _WRITES and any(each.startswith("X509") for each in credentials):
            found.append(f"{event['verb']} {what.get('resource')}/{what.get('name')}")
    return found


def used(rig, service_account):
    """{(group, resource or resource/subresource, verb): whether it was allowed} of all requests."""
    found = {}
    for event in _events(rig, service_account):
        if what := event.get("objectRef"):
            resource = "/".join(part for part in (what.get("resource"), what.get("subresource")) if part)
            right = what.get("apiGroup", ""), resource, event["verb"]
            found[right] = found.get(right, False) or event.get("annotations", {}).get(_DECISION) == "allow"
    return found


def granted(rig, service_account):
    """{(group, resource, verb)} of the roles that are bound to this ServiceAccount itself."""
    roles = {(role["kind"], role["metadata"].get("namespace"), role["metadata"]["name"]): role for role in _list(rig, "clusterroles,roles")}
    rights = set()
    for binding in _list(rig, "clusterrolebindings,rolebindings"):
        subjects = [f"{each.get('namespace')}/{each['name']}" for each in binding.get("subjects", []) if each["kind"] == "ServiceAccount"]
        if service_account in subjects:
            kind, name = binding["roleRef"]["kind"], binding["roleRef"]["name"]
            role = roles[kind, binding["metadata"].get("namespace") if kind == "Role" else None, name]
            rights |= {(group, resource, verb) for rule in role["rules"] for group in rule.get("apiGroups", [])
                       for resource in rule.get("resources", []) for verb in rule["verbs"]}
    return rights


def complaints(may, asked):
    """What a least set of rights would not have. `asked` as from `used`."""
    allowed = {right for right, answer in asked.items() if answer}
    found = [f"granted and never used: {_text(right)}" for right in may - allowed - NOT_IN_THE_LOG.keys()]
    found += [f"asked for without the right: {_text(right)}" for right in asked.keys() - allowed]
    found += [f"an exception in harness/audit.py for what is not granted: {_text(right)}" for right in NOT_IN_THE_LOG.keys() - may]
    return sorted(found)


def _text(right):
    group, resource, verb = right
    return f"{verb} {resource}{'.' + group if group else ''}"


def _events(rig, service_account):
    user = _user(service_account)
    with open(rig["ASTERISM_RIG_AUDIT_LOG"], encoding="utf-8") as log:
        for line in log:
            # The API server may be writing the last one.
            if user in line and line.endswith("\n"):
                event = json.loads(line)
                if event["user"]["username"] == user:
                    yield event


def _list(rig, kinds):
    return json.loads(rig.kubectl("get", kinds, "--all-namespaces", "--output=json"))["items"]


def _user(service_account):
    return f"system:serviceaccount:{service_account.replace('/', ':')}"
