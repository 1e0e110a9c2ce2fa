"""Stream joins with a CPU budget: the published system, and the choice of comparisons that beats it.

No Spark, no clock, no I/O. The kernels need numba.
"""
