"""How much: one controller a file."""

from headgate.control.contract import Controller, ControllerConfig
from headgate.control.delay import HoldDelay
from headgate.control.duration import HoldDuration
from headgate.control.fixed import FixedRate

__all__ = ["Controller", "ControllerConfig", "FixedRate", "HoldDelay", "HoldDuration"]
