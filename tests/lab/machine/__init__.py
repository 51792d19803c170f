"""Processes, ports, folders, Java and Maven on this machine."""
