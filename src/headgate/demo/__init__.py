"""The demonstration: a stream at several times capacity, without and with a gate."""
