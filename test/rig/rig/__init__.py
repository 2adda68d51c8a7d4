"""The rig: a real Kubernetes control plane on one machine, for tests. See ../README.md."""
