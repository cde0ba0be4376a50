"""The engine's inner work: compiled loops on the CPU, or plain torch on any device."""
