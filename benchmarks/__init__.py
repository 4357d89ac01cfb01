"""What is measured, and how does it compare with Apache Kafka? Run as programs; the tests import nothing from here."""
