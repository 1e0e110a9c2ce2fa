"""The control loop of a session: reports, heartbeats, witnesses."""
