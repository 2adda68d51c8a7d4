"""Real nodes: what a rig of the profiles `real` and `full` has beyond the control plane. Needs root.

A node is a set of namespaces (mounts, network, processes, host name, IPC, cgroups) with a root folder of its own, in which
containerd, kubelet and kube-proxy run at their usual paths. All of a node hangs on one process: when that ends, the kernel ends
the others and takes mounts and interfaces away.
"""
