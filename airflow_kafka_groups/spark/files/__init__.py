"""The files that jobs read and write, through Hadoop or, on a local disk, without the JVM."""
