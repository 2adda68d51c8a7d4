"""How tests speak to a controller: they check its certificate, and show that of kube-scheduler."""

import ssl


def context(rig, authority=None):
    """For one rig. `authority`: file of another authority than the one that the rig brought."""
    made = ssl.create_default_context(cafile=str(authority or rig["ASTERISM_EXTENDER_CA"]))
    made.check_hostname = False    # a process on an address, where a cluster has a Service with a name
    made.load_cert_chain(rig["ASTERISM_EXTENDER_CLIENT_CERT"], rig["ASTERISM_EXTENDER_CLIENT_KEY"])
    return made
