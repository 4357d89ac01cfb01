"""A log directory on disk, in Apache Kafka's file formats, through the `Files` port."""
