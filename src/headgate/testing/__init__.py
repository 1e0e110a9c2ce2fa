"""The public test kit: contract checks, a manual clock, a Kafka broker, replayable bursts."""
