module asterism.dev/rig/real/pause

go 1.26.0
