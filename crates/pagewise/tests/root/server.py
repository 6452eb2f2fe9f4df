# SPDX-License-Identifier: Apache-2.0 OR MIT
"""server.py FOLDER [code]: a process whose memory lock is held, for as long as standard input is open.

Serves a file system of one file, by hand. One program maps the file and writes to it; another maps it
past the page cache, for which the kernel first has the change written back, with the lock of the new
mapping's process held. The answer to that write is kept back. Prints the second program's id.

With `code`, one program maps the file as code, and whoever opens the file afterwards gets no answer. Prints
the program's id.
"""

import ctypes
import os
import struct
import subprocess
import sys
import threading

LOOKUP, FORGET, GETATTR, SETATTR, OPEN, READ, WRITE = 1, 2, 3, 4, 14, 15, 16
INIT, FORGET_MANY = 26, 42
FILE, SIZE = 2, 1 << 16
DIRECT_IO, KEEP_CACHE = 1, 2

folder = sys.argv[1]
code = sys.argv[2:] == ["code"]
fuse = os.open("/dev/fuse", os.O_RDWR)
let_go, held = threading.Event(), threading.Event()
opened = 0


def attributes(inode):
    mode, size = (0o40755, 0) if inode == 1 else (0o100600, SIZE)
    return struct.pack("<6Q10I", inode, size, size // 512, *[0] * 6, mode, 1, 0, 0, 0, 4096, 0)


def reply(unique, data=b"", error=0):
    os.write(fuse, struct.pack("<IiQ", 16 + len(data), -error, unique) + data)


def keep_back(unique, data):
    held.set()
    let_go.wait()
    reply(unique, data)


def answer(kind, unique, inode, body):
    global opened
    if kind == INIT:
        readahead = struct.unpack_from("<4I", body)[2]
        reply(unique, struct.pack("<4I2H2I2H8I", 7, 31, readahead, 0, 12, 9, 1 << 17, 1, 32, 0, *[0] * 8))
    elif kind == LOOKUP:
        reply(unique, struct.pack("<4Q2I", FILE, 0, 1000, 1000, 0, 0) + attributes(FILE))
    elif kind in (GETATTR, SETATTR):
        reply(unique, struct.pack("<Q2I", 1000, 0, 0) + attributes(inode))
    elif kind == OPEN:
        opened += 1
        how = KEEP_CACHE if opened == 1 else KEEP_CACHE | DIRECT_IO
        data = struct.pack("<Q2I", opened, how, 0)
        if code and opened > 1:
            threading.Thread(target=keep_back, args=(unique, data), daemon=True).start()
        else:
            reply(unique, data)
    elif kind == READ:
        reply(unique, b"x" * struct.unpack_from("<2QI", body)[2])
    elif kind == WRITE:
        size = struct.unpack_from("<2QI", body)[2]
        data = struct.pack("<II", size, 0)
        threading.Thread(target=keep_back, args=(unique, data), daemon=True).start()
    elif kind not in (FORGET, FORGET_MANY):
        reply(unique)


def serve():
    while True:
        try:
            request = os.read(fuse, 1 << 18)
        except OSError:
            return
        _, kind, unique, inode = struct.unpack_from("<2I2Q", request)
        answer(kind, unique, inode, request[40:])


def program(mapping):
    text = f"import mmap, os, sys; file = os.open('{folder}/file', os.O_RDWR); {mapping}; print(flush=True); sys.stdin.read()"
    return subprocess.Popen([sys.executable, "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


options = f"fd={fuse},rootmode=40000,user_id=0,group_id=0".encode()
if ctypes.CDLL(None, use_errno=True).mount(b"pagewise-test", folder.encode(), b"fuse", 0, options):
    sys.exit(f"mount: {os.strerror(ctypes.get_errno())}")
threading.Thread(target=serve, daemon=True).start()
if code:
    mapper = program(
        f"memory = mmap.mmap(file, {SIZE}, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_EXEC); memory[0]"
    )
    mapper.stdout.readline()
    print(mapper.pid, flush=True)
    sys.stdin.read()
    # nobody may have asked for it
    print("asked" if held.is_set() else "not asked", flush=True)
    let_go.set()
    mapper.kill()
    mapper.wait()
    sys.exit()
writer = program(f"memory = mmap.mmap(file, {SIZE}); memory[0] = 65")
writer.stdout.readline()
stuck = program(f"memory = mmap.mmap(file, {SIZE}, flags=mmap.MAP_PRIVATE)")
held.wait(120)
print(stuck.pid if held.is_set() else "nobody is stuck", flush=True)
sys.stdin.read()
let_go.set()
for each in (writer, stuck):
    each.kill()
    each.wait()
