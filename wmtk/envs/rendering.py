"""Selection of MuJoCo's OpenGL backend, which must happen before MuJoCo is imported."""

from __future__ import annotations

import ctypes
import os
import sys

from wmtk.errors import RenderingError

VARIABLE = "MUJOCO_GL"
DISABLED = "disabled"
HINT = (
    "Install one of: `apt-get install libegl1 libgl1-mesa-dri` (EGL, uses a GPU if there is one) "
    "or `apt-get install libosmesa6` (OSMesa, software only). "
    "MUJOCO_GL must name an installed backend (egl, osmesa); a program that imports dm_control "
    "itself must set it before the import. No backend is needed with the option obs=state."
)
EGL_PLATFORM_DEVICE = 0x313F
MAX_DEVICES = 16


def choose_backend() -> str:
    """Set MUJOCO_GL unless it is set already; returns its value, "" for MuJoCo's default."""
    imported = "dm_control._render" in sys.modules  # dm_control has chosen a backend already
    if VARIABLE not in os.environ and sys.platform.startswith("linux") and not imported:
        # MuJoCo's default, glfw, needs a display and warns without one.
        os.environ[VARIABLE] = "egl" if has_egl() else "osmesa" if has_osmesa() else DISABLED
    return os.environ.get(VARIABLE, "")


def require_backend() -> None:
    """Raise RenderingError if no backend was found."""
    if os.environ.get(VARIABLE) == DISABLED:
        raise RenderingError("Rendering needs EGL or OSMesa; neither works on this machine.", HINT)


def has_osmesa() -> bool:
    for name in ("libOSMesa.so.8", "libOSMesa.so.6", "libOSMesa.so"):
        try:
            ctypes.CDLL(name)
        except OSError:
            continue
        return True
    return False


def has_egl() -> bool:
    """Whether an EGL device can be initialized, as dm_control does.

    Calls libEGL directly: importing PyOpenGL would bind the process to EGL and exclude OSMesa.
    """
    try:
        egl = ctypes.CDLL("libEGL.so.1")
    except OSError:
        return False
    find = egl.eglGetProcAddress
    find.restype, find.argtypes = ctypes.c_void_p, [ctypes.c_char_p]
    query, platform_display = find(b"eglQueryDevicesEXT"), find(b"eglGetPlatformDisplayEXT")
    if not query or not platform_display:
        return False
    pointer, integer = ctypes.c_void_p, ctypes.c_int
    query_devices = ctypes.CFUNCTYPE(ctypes.c_uint, integer, pointer, pointer)(query)
    get_display = ctypes.CFUNCTYPE(pointer, ctypes.c_uint, pointer, pointer)(platform_display)
    devices, count = (pointer * MAX_DEVICES)(), integer()
    if not query_devices(MAX_DEVICES, devices, ctypes.addressof(count)):
        return False
    egl.eglInitialize.argtypes = [pointer] * 3
    # No eglTerminate: the process has one display, which other libraries may use.
    displays = (get_display(EGL_PLATFORM_DEVICE, device, None) for device in devices[: count.value])
    return any(display and egl.eglInitialize(display, None, None) for display in displays)
