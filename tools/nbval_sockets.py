"""A plugin of pytest: nbval reaches its kernels by socket files, and several can start at once."""

import nbval.kernel

from course_lab.notebook_job import by_sockets

nbval.kernel.KernelManager = by_sockets(nbval.kernel.KernelManager)
