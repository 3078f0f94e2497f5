"""A thin layer over the generated table: load the library, turn statuses into exceptions, own handles.

The library is $MLSYS_LIBRARY, else libmlsys.so as the loader finds it."""

import ctypes as C
import os
import weakref

import mlsys_ctypes
from mlsys_ctypes import *  # noqa: F401,F403 constants and structs


class Error(RuntimeError):
    def __init__(self, status, sentence):
        super().__init__(sentence)
        self.status = status


def _check(status, function, arguments):
    if status:
        raise Error(status, lib.mlsys_last_error().decode())


def _load():
    # The soname carries major.minor, so a library of another ABI is not found by accident.
    major_minor = ".".join(mlsys_ctypes.VERSION.split(".")[:2])
    library = C.CDLL(os.environ.get("MLSYS_LIBRARY", "libmlsys.so." + major_minor))
    for name, (result, arguments) in mlsys_ctypes.FUNCTIONS.items():
        function = getattr(library, name)
        function.argtypes = arguments
        if result is None:
            function.restype, function.errcheck = C.c_int32, _check
        else:
            function.restype = result
    return library


lib = _load()


class Handle:
    """Owns one reference; passes itself to calls."""

    def __init__(self, make, *arguments):
        handle = C.c_void_p()
        make(*arguments, C.byref(handle))
        self._as_parameter_ = handle
        weakref.finalize(self, lib.mlsys_release, handle)


def handles(*items):
    return (C.c_void_p * len(items))(*[item._as_parameter_ for item in items])


def integers(*items):
    return (C.c_int64 * len(items))(*items)


def integer(make, *arguments):
    """Result of a call whose output is one int64: a value or a dim of a graph."""
    out = C.c_int64()
    make(*arguments, C.byref(out))
    return out.value


def text(call, *arguments):
    """Result of a call that fills (buf, cap, need)."""
    need = C.c_uint64()
    try:
        call(*arguments, None, 0, C.byref(need))
    except Error as e:
        if e.status != mlsys_ctypes.E_BUFFER:
            raise
    buffer = C.create_string_buffer(need.value)
    call(*arguments, buffer, need.value, None)
    return buffer.value.decode()
