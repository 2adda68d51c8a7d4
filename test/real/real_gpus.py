"""The GPUs of the real nodes, which have none: fake devices on the PCI bus, a fake library of the driver, and the fixture that it and the
test's device plug-in read (test/rig/gpu_fixture/gpu_fixture.h)."""

import json
import shutil

GPUS_OF_NODE = 8
FOLDER = "etc/asterism-test-gpus"  # of each node
PRODUCT = "Asterism Test GPU"
NVLINKS = 18
NODES_OF_DOMAIN = 2
_LIBRARY = "test/agent/fake_nvml/all/libnvidia-ml.so.1"
_FILE = "gpus.json"


def gpu_id(node, index):
    return f"GPU-{node:04d}{index:04d}-0000-0000-0000-000000000000"


def nvlink_domain(node):
    """As topologies name it."""
    return f"{_domain_id(node)}.1"


def _domain_id(node):
    return f"5f0c3c1e-8a52-4d0e-9a53-{node // NODES_OF_DOMAIN:012d}"


def _pci(index):
    return f"0000:{0x10 + index:02x}:00.0"


def _numa(index):
    return index * 2 // GPUS_OF_NODE


def write_pci(folder):
    """What stands below /sys/bus/pci of a node: each GPU behind a port of its own. Returns the folder."""
    driver = folder / "drivers/nvidia"
    driver.mkdir(parents=True)
    (folder / "devices").mkdir()
    for index in range(GPUS_OF_NODE):
        device = folder / f"tree/pci0000:{_numa(index):02x}/0000:{_numa(index):02x}:{index + 1:02x}.0/{_pci(index)}"
        device.mkdir(parents=True)
        for name, text in (("vendor", "0x10de"), ("class", "0x030200"), ("numa_node", _numa(index))):
            (device / name).write_text(f"{text}\n", encoding="ascii")
        # Relative: nodes see the folder elsewhere.
        (device / "driver").symlink_to("../../../../drivers/nvidia")
        (folder / "devices" / _pci(index)).symlink_to(f"../{device.relative_to(folder)}")
    return folder


def install_driver(folder, build):
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(build / _LIBRARY, folder)


def write(folder, node, broken=(), links_down=()):
    """`broken`: numbers of GPUs that are Unhealthy; `links_down`: of GPUs that have lost half of their NVLinks."""
    unfinished = folder / f"{_FILE}.new"
    unfinished.write_text(json.dumps(_fixture(node, broken, links_down)), encoding="utf-8")
    unfinished.rename(folder / _FILE)


def _fixture(node, broken, links_down):
    numbers = list(range(GPUS_OF_NODE))
    gpus = [{"uuid": gpu_id(node, index), "pci": _pci(index), "product": PRODUCT, "sm": "10.0", "memory_bytes": 197568495616,
             "numa": _numa(index), "minor": index, "module_id": index + 1, "health": "Unhealthy" if index in broken else "Healthy"}
            for index in numbers]
    links = {"gpu": numbers, "link": list(range(NVLINKS)), "remote": "switch", "remote_pci": "0000:00:00.0", "mb_per_second": 53125}
    down = [{"gpu": index, "link": list(range(NVLINKS // 2)), "state": "inactive"} for index in links_down]
    return {"system": {"driver": "580.65.06"}, "gpus": gpus, "nvlinks": [links, *down],
            "pairs": [{"gpus": numbers, "distance": "SYS", "p2p": "OK"}],
            "fabric": {"cluster_uuid": _domain_id(node), "clique_id": 1, "state": "completed", "status": 0, "health_mask": 0, "health_summary": 1}}
