"""The live page: what `headgate.view` says over HTTP, to people (HTML) and to Prometheus."""
