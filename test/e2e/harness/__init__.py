"""What end-to-end tests, benches on the rig and the demo stand on. One idea a file; see ../README.md."""
