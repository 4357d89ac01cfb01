"""Settings: keys with their rules and defaults, each said once; the settings of nodes and topics made of them. Reads no file and no environment."""
