"""The threads of the C kernel: what happens when they do not come, or the caller leaves them."""

import os
import shutil
import signal
import threading
import time
import weakref
from collections.abc import Iterator
from threading import Event, Thread

import pytest
import torch
from torch import Tensor

from kernels import native, reference, threads
from kernels.blocks import Block
from kernels.formats import E2M1, INT4
from kernels.native import Kernel
from kernels.operands import Operand, Scale
from tests.kernels.drawn_cases import assert_same

OPERAND = Operand(grid=INT4)
MEASURED = Operand(grid=E2M1, block=Block(across=16, along=16), scale=Scale.E4M3)
pytestmark = pytest.mark.skipif(
    not any(shutil.which(name) for name in ("cc", "gcc", "clang")), reason="no C compiler"
)


@pytest.fixture
def kernel() -> Iterator[Kernel]:
    """With two threads, which nothing has used before."""
    found = native.kernel()
    assert found is not None
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    threads.pool.cache_clear()
    yield found
    threads.pool.cache_clear()
    torch.set_num_threads(before)


@pytest.fixture
def x() -> Tensor:
    return torch.randn(512, 512, generator=torch.Generator().manual_seed(8))


def test_a_thread_that_does_not_come_is_not_waited_for(kernel: Kernel, x: Tensor) -> None:
    released = Event()
    try:
        threads.pool(1).submit(released.wait)
        ours = kernel.fake_quantize(x, OPERAND, 0)
    finally:
        released.set()
    assert_same(ours, reference.fake_quantize(x, OPERAND, 0))


def test_a_thread_that_does_not_come_keeps_no_result(kernel: Kernel, x: Tensor) -> None:
    released = Event()
    try:
        threads.pool(1).submit(released.wait)
        ours = weakref.ref(kernel.fake_quantize(x, OPERAND, 0).values)
        assert ours() is None
    finally:
        released.set()


def test_work_of_any_size_shares_the_same_threads(kernel: Kernel) -> None:
    torch.set_num_threads(4)
    before = set(threading.enumerate())
    for rows in (512, 768, 1024, 4096):
        kernel.fake_quantize(torch.ones(rows, 512), OPERAND, 0)
    assert len(set(threading.enumerate()) - before) <= 3


class Slow:
    """The library, but another thread writes only after the caller is gone from the call."""

    def __init__(self, kernel: Kernel, name: str) -> None:
        self.measure, self.quantize = kernel.library.measure, kernel.library.quantize
        self.right = getattr(kernel.library, name)
        self.entered, self.left = Event(), Event()
        setattr(self, name, self.wait_and_work)

    def wait_and_work(self, job: object) -> int:
        if threading.current_thread() is threading.main_thread():
            assert self.entered.wait(10)
            return 0
        self.entered.set()
        time.sleep(0.1)  # the caller comes to wait for this thread
        os.kill(os.getpid(), signal.SIGINT)
        assert self.left.wait(10)
        done: int = self.right(job)
        return done


@pytest.mark.parametrize("name", ["measure", "quantize"])
def test_tensors_outlive_their_writers_when_an_interrupt_ends_the_wait(
    kernel: Kernel, x: Tensor, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, empty, made = Slow(kernel, name), torch.empty, []

    def recorded(*args: object, **options: object) -> Tensor:
        tensor: Tensor = empty(*args, **options)  # type: ignore[call-overload]
        made.append(weakref.ref(tensor))
        return tensor

    monkeypatch.setattr(torch, "empty", recorded)
    with pytest.raises(KeyboardInterrupt):
        Kernel(slow).fake_quantize(x.clone(), MEASURED, 0)  # type: ignore[arg-type]
    written = made[-1]
    assert written() is not None
    slow.left.set()
    deadline = time.monotonic() + 10
    while written() is not None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert written() is None


def no_thread_can_start(patch: pytest.MonkeyPatch) -> None:
    def start(thread: Thread) -> None:
        raise RuntimeError("can't start new thread")

    patch.setattr(Thread, "start", start)


def pool_is_shut(patch: pytest.MonkeyPatch) -> None:
    threads.pool(1).shutdown()


@pytest.mark.parametrize("obstacle", [no_thread_can_start, pool_is_shut])
@pytest.mark.parametrize("operand", [OPERAND, MEASURED], ids=["quantize", "measure"])
def test_where_no_thread_can_be_had_the_caller_works_alone(
    kernel: Kernel, x: Tensor, obstacle, operand: Operand
) -> None:  # fmt: skip
    expected = reference.fake_quantize(x, operand, 0)
    with pytest.MonkeyPatch.context() as patch:
        obstacle(patch)
        ours = kernel.fake_quantize(x, operand, 0)
    assert_same(ours, expected)
    assert threads.pool(1).submit(int).result(timeout=10) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_forked_child_has_threads_of_its_own(kernel: Kernel, x: Tensor) -> None:
    expected = kernel.fake_quantize(x, OPERAND, 0).values
    assert threads.pool(1).submit(int).result(timeout=10) == 0
    child = os.fork()
    if not child:
        status = 1
        try:
            ours = kernel.fake_quantize(x, OPERAND, 0).values
            torch.set_num_threads(1)  # of OpenMP a child has none
            threads.pool(1).submit(int).result(timeout=10)
            status = 0 if native.kernel() is kernel and torch.equal(ours, expected) else 2
        finally:
            os._exit(status)
    assert status_of(child) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_child_can_take_its_first_kernel_after_a_fork(kernel: Kernel) -> None:
    child = os.fork()
    if not child:
        native.kernel.cache_clear()
        os._exit(0 if native.kernel() is not None else 1)
    assert status_of(child) == 0
    native.kernel.cache_clear()
    assert native.kernel() is kernel


def status_of(child: int) -> int:
    """With which it ends, or that of being killed if it does not end by itself."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]
